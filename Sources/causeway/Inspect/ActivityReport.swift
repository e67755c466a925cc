import ActivityStore
import LiveActivity

import enum CausewayRecords.JSONValue

/// The known facts about one activity. Times are UNIX milliseconds by Redis' clock, which all decisions use.
struct ActivityReport {
    struct Token: Equatable {
        /// A ``TokenFingerprint``, never the token itself.
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

    /// A bucket of pushes at priority 10, or of starts.
    struct Budget: Equatable {
        var left: Int
        var pushes: Int
        var reserved: Int
        /// When the bucket will be full; nil if it is.
        var fullAtMilliseconds: Int64?
    }

    struct Pace: Equatable {
        /// The present spacing.
        var spacingMilliseconds: Int64
        /// How many doublings of the spacing, caused by 429s, are in force.
        var stretchLevel: Int
        /// When the next push may be sent; nil: at once.
        var nextPushAtMilliseconds: Int64?
    }

    var app: String
    var activity: String
    var nowMilliseconds: Int64
    /// The policy whose numbers the budget and the pace use.
    var policy: String
    var token: Token?
    /// When the token was registered. Without a token: when the last one was unregistered or retired.
    var registeredAtMilliseconds: Int64?
    var allowsFrequentUpdates = false
    var newest: Newest?
    var sent: Sent?
    /// The digest of what the activity shows; nil if it is not known.
    var shownDigest: UInt64?
    var held: HeldCommand?
    var pace: Pace
    var budget: Budget
    /// The end of the eight hours after the activity's start; nil before its first admission or registration.
    var updatesUntilMilliseconds: Int64?
    /// When the lifetime of the activity's policy is over; nil if no policy limits it.
    var lifetimeEndsMilliseconds: Int64?
}

/// A command that Redis keeps: either there is no token, or a newer command carries its alert and is not known to have been sent yet.
struct HeldCommand {
    var version: Version
    /// The command as Redis keeps it, in the form of a record of the commands topic.
    var record: JSONValue
    var carriesAlert: Bool

    var event: String { record["aps"]?["event"]?.text ?? "command" }
    var timestampMilliseconds: Int64 { UnixSeconds.milliseconds(ofSeconds: version.timestamp) }
    /// When the held command expires, UNIX milliseconds; nil: Redis holds it for as long as it keeps the activity.
    var expirationMilliseconds: Int64? { record["expiration"]?.whole.map(UnixSeconds.milliseconds) }
    var contentState: JSONValue? { record["aps"]?["content-state"] }
    var alert: JSONValue? { record["aps"]?["alert"] }
}
