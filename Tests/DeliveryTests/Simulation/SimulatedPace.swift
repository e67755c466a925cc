import LiveActivity

/// What Redis allowed, written down when it did, to be held against what the phones received.
struct SimulatedPace {
    /// By activity and the sequence of an alert's command: when Redis was told that APNs has accepted the alert.
    var answered: [String: [Int: Int64]] = [:]
    /// By activity and version: the last send verdict.
    var admitted: [String: [Version: Int64]] = [:]
    /// A draw on the budget of an activity.
    struct Draw {
        var at: Int64
        var version: Version
        var mayUseReserve: Bool
    }

    /// A start that was allowed to an activity on a device.
    struct StartDraw {
        var at: Int64
        var activity: String
    }

    /// A send verdict, or a push that was handed out.
    struct Sending {
        var at: Int64
        var version: Version
        /// Which of all workers that there were.
        var worker = -1
    }

    var draws: [String: [Draw]] = [:]
    /// When each activity's start was allowed: its bucket is full then.
    var births: [String: [Version: Int64]] = [:]
    /// By device: the draws by which starts were allowed.
    var startDraws: [String: [StartDraw]] = [:]
    /// By activity: the last draw for its start.
    var lastStartDraws: [String: Int64] = [:]
    /// Activities whose start arrived.
    private(set) var startsArrived: Set<String> = []
    var lastVerdicts: [String: Sending] = [:]
    var lastSendings: [String: Sending] = [:]

    mutating func started(_ activity: String) { startsArrived.insert(activity) }

    /// What a bucket has left, when nothing was drawn from it but at these times; nil if one of the draws was too many.
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
