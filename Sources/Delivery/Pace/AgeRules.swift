/// How old something may be when it is sent (design §6, "Nothing old"), in one place: the core goes by it, and so does what says beforehand
/// what the core would do. Ages count from `aps.timestamp`; all times are UNIX seconds.
package enum AgeRules {
    /// The system updates no activity that is older (Apple, "ActivityKit"). An update is not stored for longer, whatever its stale date.
    package static let updateSecondsMost: Int64 = 8 * 3_600
    /// The Lock Screen shows no activity for longer, ended or not (Apple, "ActivityKit").
    package static let endSecondsMost: Int64 = 12 * 3_600

    /// A start is good for as long as its policy says, or less.
    /// - Parameter expiration: the command's own; -1 for none.
    package static func startExpiration(timestamp: Int64, expiration: Int64, startSeconds: Int64) -> Int64 {
        let seconds = timestamp + startSeconds
        return expiration < 0 ? seconds : min(expiration, seconds)
    }

    /// - Parameter expiration: -1 for none.
    @inline(__always)
    package static func isExpired(_ expiration: Int64, now: Int64) -> Bool { expiration >= 0 && expiration < now }

    /// - Parameter timestamp: of the command that brought the alert.
    package static func isAlertOld(timestamp: Int64, alertSeconds: Int64, now: Int64) -> Bool {
        now - timestamp > alertSeconds
    }

    /// Milliseconds for which a push-to-start token is kept.
    private static let pushToStartMilliseconds: Int64 = 90 * 86_400_000

    /// Whatever it registered has ended by itself: a compacted topic has all that ever were.
    package static func isRegistrationOver(
        registeredAtMilliseconds: Int64,
        isPushToStart: Bool,
        nowMilliseconds: Int64
    ) -> Bool {
        let lifetime = isPushToStart ? pushToStartMilliseconds : endSecondsMost * 1_000
        return nowMilliseconds - registeredAtMilliseconds > lifetime
    }

    /// The update or end is older than the system lets an activity live, or shows it: where nothing is known of its activity it is over.
    @inline(__always)
    package static func isOld(timestamp: Int64, isEnd: Bool, now: Int64) -> Bool {
        now - timestamp > (isEnd ? endSecondsMost : updateSecondsMost)
    }
}
