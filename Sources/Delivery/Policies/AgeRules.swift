/// The maximum ages of what is sent and registered. The core follows these rules, and so does other code that predicts
/// the core's decisions. The age of a command counts from `aps.timestamp`, the age of a registration from its own
/// time. Times are UNIX seconds and ages are seconds, unless a name says milliseconds. (R20)
package enum AgeRules {
    /// The system ends an activity after this time (Apple, "ActivityKit"), so an older update changes nothing. This
    /// time also limits an `apns-expiration` that comes from a stale date. An update that is admitted in time may still
    /// arrive later, because of its retries.
    package static let updateAgeSecondsMax: Int64 = 8 * 3_600
    /// The Lock Screen shows no activity for longer than this, whether the activity has ended or not (Apple,
    /// "ActivityKit").
    package static let endAgeSecondsMax: Int64 = 12 * 3_600

    /// Returns when a start expires: at the end of its policy's `startSeconds`, or at its own expiration if
    /// that is earlier.
    /// - Parameter expiration: the command's own expiration; -1: it has none.
    package static func startExpiration(timestamp: Int64, expiration: Int64, startSeconds: Int64) -> Int64 {
        let seconds = timestamp + startSeconds
        return expiration < 0 ? seconds : min(expiration, seconds)
    }

    /// Whether an expiration is past.
    /// - Parameter expiration: the expiration to check; -1: there is none.
    @inline(__always)
    package static func isExpired(_ expiration: Int64, now: Int64) -> Bool { expiration >= 0 && expiration < now }

    /// Whether an alert is too old to ring.
    /// - Parameter timestamp: the timestamp of the command that brought the alert.
    package static func isAlertTooOld(timestamp: Int64, alertSeconds: Int64, now: Int64) -> Bool {
        now - timestamp > alertSeconds
    }

    /// How long a push-to-start token counts as useful after its registration: 90 days. Redis forgets a device after
    /// the same time without an event (`StoreLimits.deviceExpiryMilliseconds`).
    private static let pushToStartAgeMillisecondsMax: Int64 = 90 * 86_400_000

    /// Whether a registration is so old that it is useless: its activity has ended, or its push-to-start token counts
    /// as expired. A compacted topic keeps the last registration of each key, so in time most of them are this old.
    package static func isRegistrationExpired(
        registeredAtMilliseconds: Int64,
        isPushToStart: Bool,
        nowMilliseconds: Int64
    ) -> Bool {
        let ageMillisecondsMax = isPushToStart ? pushToStartAgeMillisecondsMax : endAgeSecondsMax * 1_000
        return nowMilliseconds - registeredAtMilliseconds > ageMillisecondsMax
    }

    /// Whether an update is so old that the system has ended its activity, or an end so old that the Lock Screen no
    /// longer shows its activity. If Redis also has no version of the activity, the command ends as `expired`.
    @inline(__always)
    package static func isStateTooOld(timestamp: Int64, isEnd: Bool, now: Int64) -> Bool {
        now - timestamp > (isEnd ? endAgeSecondsMax : updateAgeSecondsMax)
    }
}
