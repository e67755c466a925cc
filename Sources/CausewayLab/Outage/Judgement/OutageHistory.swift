import LiveActivity

/// What was observed of one case from outside: what its producers wrote, what arrived at APNs, what the phones show at the end. Times are
/// UNIX milliseconds.
struct OutageHistory: Equatable {
    struct Command: Equatable {
        var app: String
        var activity: String
        var event: Event
        /// `aps.timestamp` and `sequence`. The sequence is also the number in its content state, by which phones and the log name it.
        var version: Version
        /// The alert's title, which no other command of the activity has.
        var alert: String?
        /// The digest of its content state, as the simulator's push log has it.
        var state: String
        var producedMilliseconds: Int64
        /// The command's own `expiration`.
        var expiresMilliseconds: Int64?
        /// False: wrong on purpose, so it must have no effect.
        var isValid = true

        /// Its `id`, by which results name it.
        var identifier: String { "\(activity)/\(version.sequence)" }

        /// When its `aps.timestamp` was.
        var bornMilliseconds: Int64 { version.timestamp * 1_000 }
    }

    /// A request that APNs has judged.
    struct Push: Equatable {
        var milliseconds: Int64
        /// 0: it was not answered.
        var status: Int
        var activity: String
        /// Its `aps.timestamp`.
        var timestamp: Int64 = 0
        var alert: String?
        var state: String?
        /// What the phone made of it; nil: it reached no phone.
        var effect: Effect?
    }

    enum Effect: Equatable {
        case started, shown, ended
        /// The phone dropped it as older than what it shows, or as coming after the end.
        case droppedAsOld
        /// The phone dropped it for another reason.
        case dropped
    }

    /// What a phone shows of an activity.
    struct Screen: Equatable {
        /// The number in its content state: the sequence of the command that it came from.
        var number: UInt64
        /// It has ended, or has left the screen.
        var isOver: Bool
    }

    var commands: [Command] = []
    var pushes: [Push] = []
    /// By activity; those that no phone has are left out.
    var screens: [String: Screen] = [:]
    /// When the screens were looked at.
    var endMilliseconds: Int64 = 0
}

/// How old a push may be when APNs accepts it. The defaults are the promises of the worker's defaults.
struct AgeBounds: Equatable {
    var startSeconds: Int64 = 600
    var alertSeconds: Int64 = 300
    /// An activity takes no updates after Apple's eight hours, and is off the screen after twelve.
    var updateSeconds: Int64 = 8 * 3_600
    var endSeconds: Int64 = 12 * 3_600

    /// `aps.timestamp` counts whole seconds, and the push is judged a moment after it was sent.
    static let slackMilliseconds: Int64 = 2_000

    func seconds(of event: Event) -> Int64 {
        switch event {
        case .start: startSeconds
        case .update: updateSeconds
        case .end: endSeconds
        }
    }
}

/// A loss after which the promises allow some alerts to ring again: those of its last moments.
struct Crash: Equatable {
    var milliseconds: Int64
    /// What rang in this time before the crash may ring again after it.
    var forgottenMilliseconds: Int64

    /// A push that was on its way at the crash arrives a moment later.
    static let flightMilliseconds: Int64 = 1_000

    func allowsAlert(first: Int64, again: Int64) -> Bool {
        again >= milliseconds
            && (milliseconds - forgottenMilliseconds...milliseconds + Self.flightMilliseconds).contains(first)
    }
}
