import LiveActivity

/// Counts the outcomes of the commands from their result records. Each command counts once:
///
/// - A command to an audience has one result for the whole command, one for each range and one for each broadcast. Only
///   the result for the whole command counts.
/// - For a start to an audience, the worker writes a command to each device. The results of these commands count only
///   as pushes.
/// - A worker that dies may leave a result that the next worker writes again. A result names the record of its command,
///   so the second one is recognized.
/// - The result of a held command is `held`. When its token registers, its push has another result, which names the
///   registration's record. This result does not count the command again.
///
/// Use the tally only in a run in which APNs refuses no member of an audience. The result of a refused member would
/// count as the result of the whole command.
struct ResultTally {
    /// Limits for the partition and the offset that a result names. `hasResultByPartitionAndOffset` has a flag for
    /// each, so a faulty result could otherwise fill the memory.
    static let partitionsMax = 4_096
    static let offsetsPerPartitionMax = 100_000_000

    /// Whether a command has a result, by the partition and offset of its record.
    private var hasResultByPartitionAndOffset: [[Bool]] = []
    private var outcomeCounts = [Int](repeating: 0, count: Outcome.allCases.count)
    private var fanoutCounts = [Int](repeating: 0, count: FanoutOutcome.allCases.count)
    private let addressees: SeasonFeed.Addressees
    /// Commands that have a result, or that are counted in another command's result.
    private(set) var commandCount = 0
    /// Results for commands that already had a result.
    private(set) var repeatedResultCount = 0
    /// Commands that were held, and got a second result when their token registered.
    private(set) var releasedCommandCount = 0
    /// Records on the results topic that could not be read, or that name a partition or an offset beyond
    /// `partitionsMax` and `offsetsPerPartitionMax`.
    private(set) var unreadableRecordCount = 0
    private(set) var pushCount = 0
    private(set) var priority10PushCount = 0
    /// Pushes that requested priority 10 and were sent at 5.
    private(set) var demotionCount = 0
    /// Attempts after the first one, of all pushes that APNs accepted.
    private(set) var retryCount = 0
    /// When APNs last accepted a push to an activity or device, or responded to a push of a fan-out. UNIX milliseconds;
    /// 0: not yet.
    private(set) var lastResponseAtMilliseconds: Int64 = 0
    /// The time from the command's record to APNs' response; for an audience, to the response for the last
    /// member.
    private(set) var freshness = DurationHistogram()

    init(of addressees: SeasonFeed.Addressees = .activities) { self.addressees = addressees }

    subscript(outcome: Outcome) -> Int { outcomeCounts[Int(outcome.rawValue)] }

    /// Returns the number of commands to audiences that were fanned out and had this outcome.
    func fanoutCount(of outcome: FanoutOutcome) -> Int { fanoutCounts[Int(outcome.rawValue)] }

    /// - Parameter isFreshnessCounted: whether ``freshness`` includes the command. False before the season, because the
    ///   worker may still be starting when the first commands are sent.
    mutating func add(_ result: ResultSummary, isFreshnessCounted: Bool) {
        guard result.isComplete, result.sourcePartition < Self.partitionsMax,
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

    /// Notes that the command has a result. Returns false if it already had one.
    private mutating func noteFirstResult(_ result: ResultSummary) -> Bool {
        let offset = Int(result.sourceOffset)
        while hasResultByPartitionAndOffset.count <= result.sourcePartition { hasResultByPartitionAndOffset.append([]) }
        if hasResultByPartitionAndOffset[result.sourcePartition].count <= offset {
            let missingFlagCount =
                max(offset + 1, 2 * hasResultByPartitionAndOffset[result.sourcePartition].count)
                - hasResultByPartitionAndOffset[result.sourcePartition].count
            hasResultByPartitionAndOffset[result.sourcePartition]
                .append(contentsOf: repeatElement(false, count: missingFlagCount))
        }
        guard !hasResultByPartitionAndOffset[result.sourcePartition][offset] else { return false }
        hasResultByPartitionAndOffset[result.sourcePartition][offset] = true
        return true
    }

    private mutating func addFanout(_ result: ResultSummary, isFreshnessCounted: Bool) {
        pushCount += result.deliveredMemberCount
        lastResponseAtMilliseconds = max(lastResponseAtMilliseconds, result.responseAtMilliseconds)
        // Count the duration only if this version reached all members. If a newer version overtook it, some
        // members got only the newer one.
        guard result.fanoutOutcome == .delivered else { return }
        addFreshness(result, isFreshnessCounted)
    }

    private mutating func addSuperseded(_ result: ResultSummary) {
        commandCount += result.supersededCommandCount
        outcomeCounts[Int(Outcome.superseded.rawValue)] += result.supersededCommandCount
    }

    private mutating func addPush(_ result: ResultSummary, isFreshnessCounted: Bool) {
        pushCount += 1
        if result.priority == 10 { priority10PushCount += 1 }
        if result.isDemoted { demotionCount += 1 }
        lastResponseAtMilliseconds = max(lastResponseAtMilliseconds, result.responseAtMilliseconds)
        retryCount += max(0, result.attemptCount - 1)
        addFreshness(result, isFreshnessCounted)
    }

    private mutating func addFreshness(_ result: ResultSummary, _ isFreshnessCounted: Bool) {
        guard isFreshnessCounted, result.recordTimestampMilliseconds > 0, result.responseAtMilliseconds > 0 else {
            return
        }
        freshness.add(milliseconds: result.responseAtMilliseconds - result.recordTimestampMilliseconds)
    }
}
