/// The maximum ages of commands, alerts and registrations. A command's age counts from `aps.timestamp`, a
/// registration's age from its own time. All times are UNIX times. The cores apply these rules, and `causeway replay`
/// predicts with them what the cores would decide. (R20)
package enum AgeRules {
    /// The maximum age of an update: the system ends an activity after this time (Apple, "ActivityKit"), so an older
    /// update changes nothing. If an update's stale date gives its `apns-expiration`, this is at most this time from
    /// now.
    package static let updateAgeSecondsMax: Int64 = 8 * 3_600
    /// The maximum age of an end, and of the registration of an activity: the Lock Screen shows no activity for longer
    /// than this, whether the activity has ended or not (Apple, "ActivityKit").
    package static let endAgeSecondsMax: Int64 = 12 * 3_600

    /// Returns when a start expires: when it has the greatest age that its policy permits, or at its own expiration if
    /// that is earlier.
    ///
    /// - Parameters:
    ///   - ownExpirationSeconds: the command's own expiration; -1: it has none.
    ///   - startAgeSecondsMax: `expiration.startSeconds` of the policy.
    package static func startExpirationSeconds(
        timestamp: Int64,
        ownExpirationSeconds: Int64,
        startAgeSecondsMax: Int64
    ) -> Int64 {
        let policyExpirationSeconds = timestamp + startAgeSecondsMax
        return ownExpirationSeconds < 0
            ? policyExpirationSeconds : min(ownExpirationSeconds, policyExpirationSeconds)
    }

    /// Whether an expiration is past.
    ///
    /// - Parameter expirationSeconds: the expiration to check; -1: there is none.
    @inline(__always)
    package static func isExpired(_ expirationSeconds: Int64, nowSeconds: Int64) -> Bool {
        expirationSeconds >= 0 && expirationSeconds < nowSeconds
    }

    /// Whether an alert is too old to ring.
    ///
    /// - Parameters:
    ///   - timestamp: the timestamp of the alert's own command.
    ///   - alertAgeSecondsMax: `expiration.alertSeconds` of the policy.
    package static func isAlertTooOld(timestamp: Int64, alertAgeSecondsMax: Int64, nowSeconds: Int64) -> Bool {
        nowSeconds - timestamp > alertAgeSecondsMax
    }

    /// The age at which a push-to-start token counts as expired: 90 days after its registration. Redis forgets a device
    /// whose hash has not changed for the same time (`StoreLimits.deviceExpiryMilliseconds`).
    private static let pushToStartTokenAgeMillisecondsMax: Int64 = 90 * 86_400_000

    /// Whether a registration or unregistration is so old that it is useless: its activity has ended, or its
    /// push-to-start token counts as expired. Kafka keeps the last record of each key forever (log compaction), so in
    /// time most of them are this old. If workers wrote them all to Redis, Redis would get a key for each of them.
    ///
    /// - Parameter registeredAtWallMilliseconds: when the token was registered or unregistered. To decide whether Redis
    ///   gets the record, pass the record's time if it is later: the clock of a phone may be behind, although its
    ///   activity is alive.
    package static func isRegistrationExpired(
        registeredAtWallMilliseconds: Int64,
        isPushToStart: Bool,
        nowWallMilliseconds: Int64
    ) -> Bool {
        let ageMillisecondsMax = isPushToStart ? pushToStartTokenAgeMillisecondsMax : endAgeSecondsMax * 1_000
        return nowWallMilliseconds - registeredAtWallMilliseconds > ageMillisecondsMax
    }

    /// Returns when an update or end expires, UNIX seconds: at its own expiration, or, if it has none, when it is too
    /// old to change what a phone shows (``isStateTooOld(timestamp:isEnd:nowSeconds:)``). Until then a fault of the
    /// service only delays the update or end. (R18)
    ///
    /// - Parameter ownExpirationSeconds: the command's own expiration; -1: it has none.
    @inline(__always)
    package static func stateExpirationSeconds(timestamp: Int64, isEnd: Bool, ownExpirationSeconds: Int64) -> Int64 {
        if ownExpirationSeconds >= 0 { return ownExpirationSeconds }
        return timestamp + (isEnd ? endAgeSecondsMax : updateAgeSecondsMax)
    }

    /// Whether an update or end is too old to change what a phone shows: the system has ended the activity, or the Lock
    /// Screen no longer shows it. Such a command is finished as `expired` if Redis has no version of the activity, or
    /// when it would be sent without an expiration of its own.
    @inline(__always)
    package static func isStateTooOld(timestamp: Int64, isEnd: Bool, nowSeconds: Int64) -> Bool {
        nowSeconds - timestamp > (isEnd ? endAgeSecondsMax : updateAgeSecondsMax)
    }
}
