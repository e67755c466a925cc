import LiveActivity

/// The permissions that Redis gave, recorded at once, to compare with what the phones received.
struct SimulatedPace {
    /// By activity and the sequence of an alert's command: when Redis learned that APNs has accepted the alert.
    var answered: [String: [Int: Int64]] = [:]
    /// By activity and version: the last send verdict.
    var admitted: [String: [Version: Int64]] = [:]
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

    /// A send verdict, or a push that was handed out.
    struct Sending {
        var at: Int64
        var version: Version
        /// The number of the worker, among all workers of the run.
        var worker = -1
    }

    var draws: [String: [Draw]] = [:]
    /// When each activity's start was permitted: the activity's bucket is full then.
    var births: [String: [Version: Int64]] = [:]
    /// By device: the draws of permitted starts.
    var startDraws: [String: [StartDraw]] = [:]
    /// By activity: the last draw for its start.
    var lastStartDraws: [String: Int64] = [:]
    /// Activities whose start arrived.
    private(set) var startsArrived: Set<String> = []
    var lastVerdicts: [String: Sending] = [:]
    var lastSendings: [String: Sending] = [:]

    mutating func started(_ activity: String) { startsArrived.insert(activity) }

    /// The pushes left in a bucket after draws at exactly these times; nil if a draw exceeded the bucket.
    static func left(in bucket: Policy.Bucket, after draws: some Sequence<Int64>, at now: Int64) -> Int? {
        var fullAt: Int64 = 0
        var left = bucket.pushes
        for time in draws {
            left = bucket.pushes - missing(bucket, fullAt, time)
            guard left > 0 else { return nil }
            fullAt = max(fullAt, time) + bucket.intervalMilliseconds
        }
        return bucket.pushes - missing(bucket, fullAt, now)
    }

    private static func missing(_ bucket: Policy.Bucket, _ fullAt: Int64, _ now: Int64) -> Int {
        let interval = bucket.intervalMilliseconds
        return Int((max(0, fullAt - now) + interval - 1) / interval)
    }
}
