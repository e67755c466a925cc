import ActivityStore
import LiveActivity

/// What is known of one activity. Times are UNIX milliseconds by Redis' clock, which all decisions go by.
struct ActivityReport {
    struct Token: Equatable {
        /// ``TokenFingerprint``; never the token itself.
        var fingerprint: String
        var environment: DeviceEnvironment
    }

    /// The newest version that was admitted.
    struct Newest: Equatable {
        var version: Version
        var isEnd: Bool
        var state: ActivityInspection.State
    }

    struct Sent: Equatable {
        /// The `aps.timestamp` that it was given.
        var timestamp: Int64
        var atMilliseconds: Int64
    }

    /// A bucket of pushes of priority 10, or of starts.
    struct Budget: Equatable {
        var left: Int
        var pushes: Int
        var reserved: Int
        /// Nil if it is full.
        var fullAtMilliseconds: Int64?
    }

    struct Pace: Equatable {
        /// The spacing in force.
        var spacingMilliseconds: Int64
        /// Doublings by 429s that are in force.
        var stretchLevel: Int
        /// When the next push may go; nil: at once.
        var nextPushAtMilliseconds: Int64?
    }

    var app: String
    var activity: String
    var nowMilliseconds: Int64
    /// Whose numbers the budget and the pace are told by.
    var policy: String
    var token: Token?
    /// Of the token; without one, when the last was unregistered or retired.
    var registeredAtMilliseconds: Int64?
    var allowsFrequentUpdates = false
    var newest: Newest?
    var sent: Sent?
    /// Of what the activity shows; nil if that is not known.
    var shownDigest: UInt64?
    var held: HeldCommand?
    var pace: Pace
    var budget: Budget
    /// The end of the eight hours after its birth; nil before its first admission or registration.
    var updatesUntilMilliseconds: Int64?
}

/// A command that is kept in Redis: because there is no token, or until its alert, which a newer one carries, is known to have
/// been sent.
struct HeldCommand {
    var version: Version
    /// As it stands there, in the form of a record of the commands topic.
    var record: JSONValue
    var carriesAlert: Bool

    var event: String { record["aps"]?["event"]?.text ?? "command" }
    var timestampMilliseconds: Int64 { UnixTime.milliseconds(ofSeconds: version.timestamp) }
    /// Nil if it is held for as long as Redis keeps the activity.
    var expirationMilliseconds: Int64? { record["expiration"]?.whole.map(UnixTime.milliseconds) }
    var contentState: JSONValue? { record["aps"]?["content-state"] }
    var alert: JSONValue? { record["aps"]?["alert"] }
}
