import LiveActivity

/// The observations of one case: what its producers wrote, what arrived at APNs, and what the phones show at the end.
/// Times are UNIX milliseconds.
struct OutageHistory: Equatable {
    struct Command: Equatable {
        var app: String
        var activity: String
        var event: Event
        /// `aps.timestamp` and `sequence`. The content state contains the sequence too, so a phone's content shows its
        /// command.
        var version: Version
        /// The alert's title, which is unique among the commands of the activity.
        var alertTitle: String?
        /// The digest of the command's content state, as in the simulator's push log.
        var stateDigest: String
        var producedAtMilliseconds: Int64
        /// The command's own `expiration`.
        var expiresAtMilliseconds: Int64?
        /// Whether the command is valid. A case can write a wrong command on purpose, which must have no effect.
        var isValid = true

        /// The command's `id`, which results name.
        var identifier: String { "\(activity)/\(version.sequence)" }

        /// `aps.timestamp` in UNIX milliseconds. The command's age counts from this time (R20).
        var timestampMilliseconds: Int64 { version.timestamp * 1_000 }
    }

    /// A request that arrived at APNs.
    struct Push: Equatable {
        var arrivedAtMilliseconds: Int64
        /// The status of the response; 0: no response.
        var status: Int
        var activity: String
        /// The `aps.timestamp` in the body of the push.
        var timestamp: Int64 = 0
        /// The title of the alert in the push, which is that of the command that brought the alert.
        var alertTitle: String?
        var stateDigest: String?
        /// The effect on the phone; nil: the push reached no phone.
        var effect: Effect?
    }

    enum Effect: Equatable {
        case started, shown, ended
        /// The phone dropped the push because it was older than the shown content or came after the end.
        case droppedAsOld
        case droppedForOtherReason
    }

    /// What a phone's screen shows of an activity.
    struct Screen: Equatable {
        /// The number in the shown content state: the sequence of the command that brought this state.
        var sequence: UInt64
        /// Whether the activity has ended or has left the screen.
        var isFinished: Bool
    }

    var commands: [Command] = []
    var pushes: [Push] = []
    /// The screens by activity. An activity that no phone has ever had is missing.
    var screens: [String: Screen] = [:]
    var screensReadAtMilliseconds: Int64 = 0
}

/// The highest age that a push may have when APNs accepts it. The initial values are the promises for a worker with
/// default settings.
struct AgeLimits: Equatable {
    var startAgeSecondsMax: Int64 = 600
    var alertAgeSecondsMax: Int64 = 300
    /// By Apple's rules, an activity takes no updates after eight hours, and leaves the screen after twelve.
    var updateAgeSecondsMax: Int64 = 8 * 3_600
    var endAgeSecondsMax: Int64 = 12 * 3_600

    /// The tolerance of age checks. `aps.timestamp` has whole seconds, and a push takes a short time to arrive.
    static let toleranceMilliseconds: Int64 = 2_000

    func ageSecondsMax(of event: Event) -> Int64 {
        switch event {
        case .start: startAgeSecondsMax
        case .update: updateAgeSecondsMax
        case .end: endAgeSecondsMax
        }
    }
}

/// What must happen after an activity's lifetime. In an ``OutageCase`` that limits lifetimes, each activity's lifetime
/// ends once.
enum AfterLifetime {
    case end
    /// The activity must be started again if a start command began it. An activity that its app began only ends.
    case restart
}

/// A crash, a loss of data, or a stop without a complete drain: alerts that rang shortly before may ring again.
struct AlertRepeatCause: Equatable {
    /// When the crash, the loss or the stop happened.
    var happenedAtMilliseconds: Int64
    /// An alert may ring again if it rang at most this long before `happenedAtMilliseconds`.
    var alertRepeatWindowMilliseconds: Int64

    /// A push may be in flight at `happenedAtMilliseconds`. So an alert may also ring again if its first push arrived
    /// at most this long after that time.
    static let inFlightMillisecondsMax: Int64 = 1_000

    func allowsRepeatedAlert(firstAtMilliseconds: Int64, againAtMilliseconds: Int64) -> Bool {
        let windowBeginsAtMilliseconds = happenedAtMilliseconds - alertRepeatWindowMilliseconds
        return againAtMilliseconds >= happenedAtMilliseconds
            && (windowBeginsAtMilliseconds...happenedAtMilliseconds + Self.inFlightMillisecondsMax)
                .contains(firstAtMilliseconds)
    }
}
