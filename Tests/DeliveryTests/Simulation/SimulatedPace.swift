import LiveActivity

/// What Redis permitted and what the workers sent, to compare with what the phones received.
struct SimulatedPace {
    /// When Redis learned that APNs accepted an alert, by activity and the sequence of the alert's command.
    var alertAcceptances: [String: [Int: Int64]] = [:]
    /// When Redis last replied `send` to an update or end, by activity and version.
    var admissions: [String: [Version: Int64]] = [:]
    /// A draw on the budget of an activity.
    struct Draw {
        var at: Int64
        var version: Version
        var mayUseReserve: Bool
    }

    /// A permitted start of an activity on a device.
    struct StartDraw {
        var at: Int64
        var activity: String
    }

    /// A `send` verdict of Redis, or a push that the core offered.
    struct Sending {
        var at: Int64
        var version: Version
        /// The number of the worker that pushes, among all workers of the run; -1 for a verdict.
        var worker = -1
    }

    var draws: [String: [Draw]] = [:]
    /// When each activity's start was first permitted, by version. The activity's budget is full at this time.
    var births: [String: [Version: Int64]] = [:]
    /// The draws of permitted starts, by device.
    var startDraws: [String: [StartDraw]] = [:]
    /// The time of the last draw for an activity's start, by activity.
    var lastStartDraws: [String: Int64] = [:]
    /// Activities whose start reached the phone.
    private(set) var startsArrived: Set<String> = []
    var lastVerdicts: [String: Sending] = [:]
    var lastSendings: [String: Sending] = [:]

    mutating func noteStart(of activity: String) { startsArrived.insert(activity) }

    /// Returns the pushes left in a budget after draws at the given times; nil if a draw found the budget
    /// empty.
    static func pushesLeft(in bucket: Policy.Bucket, after draws: some Sequence<Int64>, at now: Int64) -> Int? {
        var fullAt: Int64 = 0
        var left = bucket.pushes
        for time in draws {
            left = bucket.pushes - missingPushes(bucket, fullAt, time)
            guard left > 0 else { return nil }
            fullAt = max(fullAt, time) + bucket.intervalMilliseconds
        }
        return bucket.pushes - missingPushes(bucket, fullAt, now)
    }

    private static func missingPushes(_ bucket: Policy.Bucket, _ fullAt: Int64, _ now: Int64) -> Int {
        let interval = bucket.intervalMilliseconds
        return Int((max(0, fullAt - now) + interval - 1) / interval)
    }
}
