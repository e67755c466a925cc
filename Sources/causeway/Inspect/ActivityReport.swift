import ActivityStore
import LiveActivity

import enum CausewayRecords.JSONValue

/// The known facts about one activity. Times are UNIX milliseconds by Redis' clock, except those that a record states,
/// such as the time of a registration.
struct ActivityReport {
    struct Token: Equatable {
        /// A ``TokenFingerprint``, never the token itself.
        var fingerprint: String
        var environment: APNsEnvironment
    }

    /// The newest version that was admitted.
    struct NewestVersion: Equatable {
        var version: Version
        var isEnd: Bool
        var phase: ActivityInspection.VersionPhase
    }

    struct SentVersion: Equatable {
        /// The last `aps.timestamp` that Redis assigned, UNIX seconds. This number can be above the command's own
        /// timestamp (R11). If Redis has lost its data, it can be the time at which a worker read the activity's token
        /// again.
        var timestamp: Int64
        var atMilliseconds: Int64
    }

    /// How much of a budget is left: of an activity's budget for pushes at priority 10, or of a device's budget for
    /// starts (`Policy.Bucket`).
    struct Budget: Equatable {
        var remainingDrawCount: Int
        /// The draws of a full budget: `pushes` of the bucket.
        var drawsMax: Int
        /// How many of the `drawsMax` draws are reserved for alerts and ends: `reservedForAlerts` of the bucket.
        var reservedDrawCount: Int
        /// When all draws will be available again; nil if they are now.
        var fullAtMilliseconds: Int64?
    }

    struct Pace: Equatable {
        /// The spacing between two pushes at present.
        var spacingMilliseconds: Int64
        /// How many times the spacing is doubled at present, because APNs responded with 429. The number falls again
        /// with time.
        var spacingDoublingCount: Int
        /// When the next push may be sent; nil if it may be sent at once.
        var nextPushAtMilliseconds: Int64?
    }

    var app: String
    var activity: String
    var nowMilliseconds: Int64
    /// The name of the policy that `pace` and `budget` are calculated with.
    var policyName: String
    var token: Token?
    /// The time of the last registration or unregistration; nil if there was none. When Redis retires the token, or
    /// removes an ended activity from its audiences, it adds 1 ms. The same registration, read again, is then too old
    /// to restore the token or the audiences.
    var registeredAtMilliseconds: Int64?
    var allowsFrequentUpdates = false
    /// How many audiences the activity is in. Redis has only digests of their names. What the activity got through an
    /// audience is not in this report.
    var audienceCount = 0
    var newestVersion: NewestVersion?
    var lastSentVersion: SentVersion?
    /// The digest of the content that the activity shows; nil if the content is unknown.
    var shownDigest: UInt64?
    var heldCommand: HeldCommand?
    var pace: Pace
    var budget: Budget
    /// Updates are sent until this time: eight hours after the activity's beginning, as far as Redis knows it. Nil
    /// before the first admission or registration.
    var updatesUntilMilliseconds: Int64?
    /// When the activity's lifetime ends according to the timetable. Nil if the timetable does not have the activity,
    /// or was not read.
    var lifetimeEndsAtMilliseconds: Int64?
}

/// A command that Redis keeps for one of three reasons:
/// - Its activity or device has no token.
/// - A worker is sending the command.
/// - A newer command carries its alert and is not settled yet.
struct HeldCommand {
    var version: Version
    /// The command as Redis keeps it, in the form of a record of the commands topic.
    var commandJSON: JSONValue
    var hasAlert: Bool

    var event: String { commandJSON["aps"]?["event"]?.text ?? "command" }
    var timestampMilliseconds: Int64 { UnixSeconds.milliseconds(ofSeconds: version.timestamp) }
    /// When the held command expires, UNIX milliseconds. Nil: Redis keeps the command as long as the activity or
    /// device.
    var expiresAtMilliseconds: Int64? { commandJSON["expiration"]?.integerValue.map(UnixSeconds.milliseconds) }
    var contentState: JSONValue? { commandJSON["aps"]?["content-state"] }
    var alert: JSONValue? { commandJSON["aps"]?["alert"] }
}
