import LiveActivity

/// What has become of the commands, from their result records.
///
/// Commands to audiences have one result each. One for each range of members and one for each broadcast are not counted. The start to an audience becomes
/// commands to its devices, which the worker writes: their results are counted as pushes only.
///
/// A result names the record it stands for, so each is counted once: a worker that died may write a result again. A command that was
/// held for want of a token has its result; the push that follows when the token comes is of the registration's record.
struct Tally {
    static let partitionsMax = 4_096
    static let offsetsPerPartitionMax = 100_000_000

    /// By partition and offset of the commands topic: whether there is a result.
    private var settled: [[Bool]] = []
    private var counts = [Int](repeating: 0, count: Outcome.allCases.count)
    private var roundCounts = [Int](repeating: 0, count: RoundOutcome.allCases.count)
    private let addressees: SeasonFeed.Addressees
    /// Commands that have a result, or are counted in one.
    private(set) var commands = 0
    /// Results for commands that had theirs already.
    private(set) var repeated = 0
    /// Commands that were held, and sent when their token came.
    private(set) var released = 0
    /// Records on the results topic that could not be read.
    private(set) var unreadable = 0
    private(set) var pushes = 0
    private(set) var pushesAtPriority10 = 0
    /// Pushes that asked for priority 10 and went at 5.
    private(set) var demotions = 0
    /// More requests than one for a push.
    private(set) var retries = 0
    /// UNIX milliseconds; 0 before the first.
    private(set) var lastAnsweredMilliseconds: Int64 = 0
    /// From the command's record to APNs' answer; of an audience, to the last member's.
    private(set) var freshness = Histogram()

    init(of addressees: SeasonFeed.Addressees = .activities) { self.addressees = addressees }

    subscript(outcome: Outcome) -> Int { counts[Int(outcome.rawValue)] }

    /// Of commands to audiences that were fanned out.
    func rounds(_ outcome: RoundOutcome) -> Int { roundCounts[Int(outcome.rawValue)] }

    /// - Parameter countsFreshness: false for what was sent before all parts were up.
    mutating func add(_ result: ResultSummary, countsFreshness: Bool) {
        guard result.isComplete, result.sourcePartition < Self.partitionsMax,
            result.sourceOffset < Self.offsetsPerPartitionMax
        else {
            unreadable += 1
            return
        }
        if result.isOfRange || result.isOfBroadcast { return }
        guard result.isFromCommands else {
            released += 1
            addSuperseded(result)
            if result.outcome == .accepted { addPush(result, countsFreshness: false) }
            return
        }
        guard isNoted(result) else {
            repeated += 1
            return
        }
        if addressees == .audiences, !result.isOfAudience {
            if result.outcome == .accepted { addPush(result, countsFreshness: false) }
            return
        }
        commands += 1
        addSuperseded(result)
        if result.isOfAudience, let outcome = result.roundOutcome {
            roundCounts[Int(outcome.rawValue)] += 1
            addRound(result, countsFreshness: countsFreshness)
        } else if let outcome = result.outcome {
            counts[Int(outcome.rawValue)] += 1
            if outcome == .accepted { addPush(result, countsFreshness: countsFreshness) }
        }
    }

    /// False if its command has its result already.
    private mutating func isNoted(_ result: ResultSummary) -> Bool {
        let offset = Int(result.sourceOffset)
        while settled.count <= result.sourcePartition { settled.append([]) }
        if settled[result.sourcePartition].count <= offset {
            let missing =
                max(offset + 1, 2 * settled[result.sourcePartition].count) - settled[result.sourcePartition].count
            settled[result.sourcePartition].append(contentsOf: repeatElement(false, count: missing))
        }
        guard !settled[result.sourcePartition][offset] else { return false }
        settled[result.sourcePartition][offset] = true
        return true
    }

    private mutating func addRound(_ result: ResultSummary, countsFreshness: Bool) {
        pushes += result.membersDelivered
        lastAnsweredMilliseconds = max(lastAnsweredMilliseconds, result.answerMilliseconds)
        // Of what was overtaken the last phones have shown something newer.
        guard result.roundOutcome == .delivered else { return }
        addFreshness(result, countsFreshness)
    }

    private mutating func addSuperseded(_ result: ResultSummary) {
        commands += result.superseded
        counts[Int(Outcome.superseded.rawValue)] += result.superseded
    }

    private mutating func addPush(_ result: ResultSummary, countsFreshness: Bool) {
        pushes += 1
        if result.priority == 10 { pushesAtPriority10 += 1 }
        if result.isDemoted { demotions += 1 }
        lastAnsweredMilliseconds = max(lastAnsweredMilliseconds, result.answerMilliseconds)
        retries += max(0, result.attempts - 1)
        addFreshness(result, countsFreshness)
    }

    private mutating func addFreshness(_ result: ResultSummary, _ countsFreshness: Bool) {
        guard countsFreshness, result.recordMilliseconds > 0, result.answerMilliseconds > 0 else { return }
        freshness.add(milliseconds: result.answerMilliseconds - result.recordMilliseconds)
    }
}
