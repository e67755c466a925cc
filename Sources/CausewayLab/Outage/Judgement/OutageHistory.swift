import LiveActivity

/// The observations of one case from outside: what its producers wrote, what arrived at APNs, and what the phones show at the end. Times
/// are UNIX milliseconds.
struct OutageHistory: Equatable {
    struct Command: Equatable {
        var app: String
        var activity: String
        var event: Event
        /// `aps.timestamp` and `sequence`. The sequence is also the number in the content state, which phones and the log show.
        var version: Version
        /// The alert's title, which no other command of the activity has.
        var alert: String?
        /// The digest of its content state, as in the simulator's push log.
        var state: String
        var producedMilliseconds: Int64
        /// The command's own `expiration`.
        var expiresMilliseconds: Int64?
        /// False: wrong on purpose, so it must have no effect.
        var isValid = true

        /// The `id` that results name.
        var identifier: String { "\(activity)/\(version.sequence)" }

        /// The time in its `aps.timestamp`.
        var bornMilliseconds: Int64 { version.timestamp * 1_000 }
    }

    /// A request that APNs has judged.
    struct Push: Equatable {
        var milliseconds: Int64
        /// 0: not answered.
        var status: Int
        var activity: String
        /// Its `aps.timestamp`.
        var timestamp: Int64 = 0
        var alert: String?
        var state: String?
        /// The effect on the phone; nil: it reached no phone.
        var effect: Effect?
    }

    enum Effect: Equatable {
        case started, shown, ended
        /// The phone dropped it because it was older than the shown content or came after the end.
        case droppedAsOld
        /// The phone dropped it for another reason.
        case dropped
    }

    /// What a phone shows of an activity.
    struct Screen: Equatable {
        /// The number in its content state: the sequence of the command.
        var number: UInt64
        /// Whether it has ended or has left the screen.
        var isOver: Bool
    }

    var commands: [Command] = []
    var pushes: [Push] = []
    /// By activity. Activities that no phone has are left out.
    var screens: [String: Screen] = [:]
    /// When the screens were read.
    var endMilliseconds: Int64 = 0
}

/// How old a push may be when APNs accepts it. The defaults are the promises under the worker's defaults.
struct AgeBounds: Equatable {
    var startSeconds: Int64 = 600
    var alertSeconds: Int64 = 300
    /// By Apple's rules an activity takes no updates after eight hours, and leaves the screen after twelve.
    var updateSeconds: Int64 = 8 * 3_600
    var endSeconds: Int64 = 12 * 3_600

    /// `aps.timestamp` has whole seconds, and a push is judged a short time after it was sent.
    static let slackMilliseconds: Int64 = 2_000

    func seconds(of event: Event) -> Int64 {
        switch event {
        case .start: startSeconds
        case .update: updateSeconds
        case .end: endSeconds
        }
    }
}

/// What follows the end of an activity's lifetime. Each activity has one such end in a case.
enum AfterLifetime {
    case end
    /// An activity that a start command began is started again.
    case restart
}

/// A loss after which the promises permit some alerts to ring again: those of the last moments before it.
struct Crash: Equatable {
    var milliseconds: Int64
    /// Alerts that rang in this time before the crash may ring again.
    var forgottenMilliseconds: Int64

    /// A push in flight at the crash arrives up to this much later.
    static let flightMilliseconds: Int64 = 1_000

    func allowsAlert(first: Int64, again: Int64) -> Bool {
        again >= milliseconds
            && (milliseconds - forgottenMilliseconds...milliseconds + Self.flightMilliseconds).contains(first)
    }
}
