import LiveActivity

/// Counts the outcomes of commands from their results. Each command counts once:
///
/// - Of a command to an audience, only the result of the whole command counts, not the results of its ranges and
///   broadcasts.
/// - For a start to an audience, the worker writes a command to each device. The results of these commands count only
///   as pushes.
/// - A result that the next worker repeats after a crash counts once: both results name the command's record.
/// - A held command counts at its result `held`. Its second result, when the token registers, does not count it again.
///
/// Use this type only in runs in which APNs refuses no push to a member of an audience: the result of this member would
/// count as the result of the whole command.
struct ResultTally {
    /// Limits for the partition and the offset that a result names. `hasResultByPartitionAndOffset` grows to the
    /// highest partition and offset, so a faulty result could otherwise fill the memory.
    static let partitionsMax = 4_096
    static let offsetsPerPartitionMax = 100_000_000

    /// By the partition and offset of a command's record: whether the command has a result.
    private var hasResultByPartitionAndOffset: [[Bool]] = []
    private var outcomeCounts = [Int](repeating: 0, count: Outcome.allCases.count)
    private var fanoutCounts = [Int](repeating: 0, count: FanoutOutcome.allCases.count)
    private let addressees: SeasonFeed.Addressees
    /// Commands that have a result, or that are counted in another command's result.
    private(set) var commandCount = 0
    /// Results for commands that already had a result.
    private(set) var repeatedResultCount = 0
    /// Commands that were held and that have a second result, because their token registered.
    private(set) var releasedCommandCount = 0
    /// Results that could not be read, or that name a partition beyond `partitionsMax` or an offset beyond
    /// `offsetsPerPartitionMax`.
    private(set) var unreadableRecordCount = 0
    private(set) var pushCount = 0
    private(set) var priority10PushCount = 0
    /// Pushes that were sent at priority 5 instead of 10.
    private(set) var demotionCount = 0
    /// The number of attempts after the first one, summed over all accepted pushes.
    private(set) var retryCount = 0
    /// When APNs last accepted a push to an activity or device, or responded to a push of a fan-out. UNIX milliseconds;
    /// 0 before the first time.
    private(set) var lastResponseAtMilliseconds: Int64 = 0
    /// The times from a command's record to APNs' response. For a command to an audience: to APNs' last response.
    private(set) var freshness = DurationHistogram()

    init(of addressees: SeasonFeed.Addressees = .activities) { self.addressees = addressees }

    subscript(outcome: Outcome) -> Int { outcomeCounts[Int(outcome.rawValue)] }

    /// Returns how many commands to audiences have this outcome of their fan-out.
    func fanoutCount(of outcome: FanoutOutcome) -> Int { fanoutCounts[Int(outcome.rawValue)] }

    /// Counts one record of the results topic.
    ///
    /// - Parameter isFreshnessCounted: whether the command counts in ``freshness``. False before the season, because
    ///   the worker may still be starting.
    mutating func add(_ result: ScannedResult, isFreshnessCounted: Bool) {
        guard result.hasOutcomeAndSource, result.sourcePartition < Self.partitionsMax,
            result.sourceOffset < Self.offsetsPerPartitionMax
        else {
            unreadableRecordCount += 1
            return
        }
        if result.isOfRange || result.namesChannel { return }
        guard result.isFromCommandsTopic else {
            releasedCommandCount += 1
            addSuperseded(result)
            if result.outcome == .accepted { addPush(result, isFreshnessCounted: false) }
            return
        }
        guard noteFirstResult(result) else {
            repeatedResultCount += 1
            return
        }
        if addressees == .audiences, !result.namesAudience {
            if result.outcome == .accepted { addPush(result, isFreshnessCounted: false) }
            return
        }
        commandCount += 1
        addSuperseded(result)
        if result.namesAudience, let outcome = result.fanoutOutcome {
            fanoutCounts[Int(outcome.rawValue)] += 1
            addFanout(result, isFreshnessCounted: isFreshnessCounted)
        } else if let outcome = result.outcome {
            outcomeCounts[Int(outcome.rawValue)] += 1
            if outcome == .accepted { addPush(result, isFreshnessCounted: isFreshnessCounted) }
        }
    }

    /// Notes that the command has a result. Returns false if the command already had a result.
    private mutating func noteFirstResult(_ result: ScannedResult) -> Bool {
        let offset = Int(result.sourceOffset)
        while hasResultByPartitionAndOffset.count <= result.sourcePartition { hasResultByPartitionAndOffset.append([]) }
        if hasResultByPartitionAndOffset[result.sourcePartition].count <= offset {
            let missingElementCount =
                max(offset + 1, 2 * hasResultByPartitionAndOffset[result.sourcePartition].count)
                - hasResultByPartitionAndOffset[result.sourcePartition].count
            hasResultByPartitionAndOffset[result.sourcePartition]
                .append(contentsOf: repeatElement(false, count: missingElementCount))
        }
        guard !hasResultByPartitionAndOffset[result.sourcePartition][offset] else { return false }
        hasResultByPartitionAndOffset[result.sourcePartition][offset] = true
        return true
    }

    private mutating func addFanout(_ result: ScannedResult, isFreshnessCounted: Bool) {
        pushCount += result.deliveredMemberCount
        lastResponseAtMilliseconds = max(lastResponseAtMilliseconds, result.responseAtMilliseconds)
        // Count the duration only if this version reached all members. If a newer version overtook it, some members got
        // only the newer one.
        guard result.fanoutOutcome == .reachedAllMembers else { return }
        addFreshness(result, isFreshnessCounted)
    }

    /// Counts the commands that this result's command superseded, and that have no result of their own.
    private mutating func addSuperseded(_ result: ScannedResult) {
        commandCount += result.supersededCommandCount
        outcomeCounts[Int(Outcome.superseded.rawValue)] += result.supersededCommandCount
    }

    private mutating func addPush(_ result: ScannedResult, isFreshnessCounted: Bool) {
        pushCount += 1
        if result.priority == 10 { priority10PushCount += 1 }
        if result.isDemoted { demotionCount += 1 }
        lastResponseAtMilliseconds = max(lastResponseAtMilliseconds, result.responseAtMilliseconds)
        retryCount += max(0, result.attemptCount - 1)
        addFreshness(result, isFreshnessCounted)
    }

    private mutating func addFreshness(_ result: ScannedResult, _ isFreshnessCounted: Bool) {
        guard isFreshnessCounted, result.recordTimestampMilliseconds > 0, result.responseAtMilliseconds > 0 else {
            return
        }
        freshness.add(milliseconds: result.responseAtMilliseconds - result.recordTimestampMilliseconds)
    }
}
