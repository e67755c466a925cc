import LiveActivity

/// What Redis permitted and what the workers sent. The checks compare this with what the phones received.
struct PaceHistory {
    /// When Redis learned that APNs accepted an alert, by activity and the sequence of the alert's command.
    var alertAcceptedAtMilliseconds: [String: [Int: Int64]] = [:]
    /// When Redis last replied `send` to an update or end, by activity and version.
    var admittedAtMilliseconds: [String: [Version: Int64]] = [:]
    /// A draw on the budget of an activity.
    struct Draw {
        var atMilliseconds: Int64
        var version: Version
        var mayUseReserve: Bool
    }

    /// A permitted start of an activity on a device.
    struct StartDraw {
        var atMilliseconds: Int64
        /// The id of the start's command.
        var command: String
    }

    /// When a push was permitted (Redis' verdict `send`), or when a worker took it from its core.
    struct TimedPush {
        var atMilliseconds: Int64
        var version: Version
        /// For a push: the number of its worker, among all workers of the run. For a verdict: -1.
        var worker = -1
    }

    var draws: [String: [Draw]] = [:]
    /// When Redis first permitted a start, by activity and version. The activity's budget is full at this time.
    var startPermittedAtMilliseconds: [String: [Version: Int64]] = [:]
    /// The draws of permitted starts, by device.
    var startDraws: [String: [StartDraw]] = [:]
    /// The time of the last draw for a start, by the id of its command.
    var lastStartDrawAtMilliseconds: [String: Int64] = [:]
    /// The starts that reached their phone, by the ids of their commands.
    private(set) var arrivedStarts: Set<String> = []
    /// By activity: the last push that Redis permitted, and below it the last one that a worker took from its core.
    var lastPermittedPushes: [String: TimedPush] = [:]
    var lastSentPushes: [String: TimedPush] = [:]

    mutating func noteArrivedStart(_ command: String) { arrivedStarts.insert(command) }

    /// Returns how many pushes a budget has left after draws at the given times; nil if a draw found it empty.
    static func pushesLeft(in bucket: Policy.Bucket, after draws: some Sequence<Int64>, at now: Int64) -> Int? {
        var fullAtMilliseconds: Int64 = 0
        var remainingPushes = bucket.pushes
        for time in draws {
            remainingPushes = bucket.pushes - missingPushes(bucket, fullAtMilliseconds, time)
            guard remainingPushes > 0 else { return nil }
            fullAtMilliseconds = max(fullAtMilliseconds, time) + bucket.intervalMilliseconds
        }
        return bucket.pushes - missingPushes(bucket, fullAtMilliseconds, now)
    }

    private static func missingPushes(_ bucket: Policy.Bucket, _ fullAtMilliseconds: Int64, _ now: Int64) -> Int {
        let intervalMilliseconds = bucket.intervalMilliseconds
        return Int((max(0, fullAtMilliseconds - now) + intervalMilliseconds - 1) / intervalMilliseconds)
    }
}
