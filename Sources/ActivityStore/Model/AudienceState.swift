import LiveActivity

/// What Redis stores about an audience in its hash, in the model of the script `audience`.
package struct AudienceState: Sendable {
    /// The audience's newest version, whether it was admitted to be sent, or got the verdict `unchanged` and was not
    /// sent.
    struct NewestVersion: Sendable {
        var version: Version
        var isSettled: Bool
    }

    /// The newest version that was admitted to be sent.
    struct AdmittedVersion: Sendable {
        var version: Version
        var digest: UInt64
        var isEnd: Bool
        var isStart: Bool
        var grant: AudienceGrant
        var admittedAtMilliseconds: Int64
        var body: [UInt8]
        var expirationSeconds: Int64
    }

    /// A version's fan-out: how many ranges and broadcasts it has, and the results of those that are finished.
    struct Fanout: Sendable {
        var version: Version
        var rangeCount: UInt16
        var broadcastCount: UInt8 = 0
        var admittedAtMilliseconds: Int64
        var finishedBroadcasts: [APNsEnvironment: (outcome: MemberOutcome, times: ResponseTimes)] = [:]
        var broadcastCounts = MemberOutcomeCounts()
        /// The counts and times of the finished ranges, by the range's index. Empty once `totals` is known.
        var finishedRanges: [UInt16: (counts: MemberOutcomeCounts, times: ResponseTimes)] = [:]
        var totals: (counts: MemberOutcomeCounts, times: ResponseTimes)?
    }

    private struct RangeState: Sendable {
        var claim: UInt64
        var checkpointText: [UInt8]
    }

    var newestVersion: NewestVersion?
    var admittedVersion: AdmittedVersion?
    var newestStart: Version?
    /// The channels that the keeper of channels (`ChannelKeeper`) has written into the hash.
    private(set) var channels = AudienceChannels()
    private(set) var fanouts: [Fanout] = []
    private var ranges: [SegmentRange: RangeState] = [:]
    private var budgetFullAtMilliseconds: Int64 = 0
    private var frequentBudgetFullAtMilliseconds: Int64 = 0
    /// When the hash expires, server milliseconds; nil if nothing is stored for the audience.
    private(set) var expiresAtMilliseconds: Int64?

    mutating func removeExpired(nowMilliseconds: Int64) {
        if let expiresAtMilliseconds, expiresAtMilliseconds <= nowMilliseconds { self = AudienceState() }
    }

    mutating func perform(
        _ operation: AudienceCall<[UInt8]>.Operation,
        nowMilliseconds: Int64
    ) -> AudienceReply<[UInt8]> {
        switch operation {
        case .admit(let admission): return admit(admission, nowMilliseconds: nowMilliseconds)
        case .settle(let version):
            if newestVersion?.version == version, newestVersion?.isSettled == false {
                newestVersion?.isSettled = true
                renewExpiry(nowMilliseconds)
            }
            return AudienceReply(.settled)
        case .readNewestState: return makeNewestStateReply(nowMilliseconds: nowMilliseconds)
        case .claim(let range, let claim): return claimRange(range, claim: claim, nowMilliseconds: nowMilliseconds)
        case .checkpoint(let range, let claim, let text):
            return recordCheckpoint(range, claim: claim, text, nowMilliseconds: nowMilliseconds)
        case .finishRange(let range, let version, let counts, let times):
            return finishRange(range, version, counts, times, nowMilliseconds: nowMilliseconds)
        case .finishBroadcast(let broadcast, let version, let outcome, let times):
            return finishBroadcast(broadcast, version, outcome, times, nowMilliseconds: nowMilliseconds)
        case .readDirectory, .readPage, .append: preconditionFailure("an operation on a segment")
        }
    }

    /// Sets or removes a channel, as `ChannelKeeper` does after it has created or deleted one. A removal does not renew
    /// the expiry of the audience's hash.
    mutating func setChannel(_ channel: AudienceChannel?, in environment: APNsEnvironment, nowMilliseconds: Int64) {
        removeExpired(nowMilliseconds: nowMilliseconds)
        if environment == .production { channels.production = channel } else { channels.sandbox = channel }
        if channel != nil { renewExpiry(nowMilliseconds) }
    }

    private mutating func renewExpiry(_ nowMilliseconds: Int64) {
        expiresAtMilliseconds = nowMilliseconds + StoreLimits.activityExpiryMilliseconds
    }

    // MARK: - Admission

    private mutating func admit(_ call: AudienceAdmission<[UInt8]>, nowMilliseconds: Int64) -> AudienceReply<[UInt8]> {
        if let newestVersion {
            if let verdict = findRefusal(call, newestVersion) { return AudienceReply(verdict) }
            if let admittedVersion, isRepeat(call, admittedVersion) {
                return admitRepeatedCommand(admittedVersion, nowMilliseconds: nowMilliseconds)
            }
        }
        if !call.isStart, !call.isEnd, newestVersion?.isSettled ?? false, admittedVersion?.digest == call.digest {
            newestVersion = NewestVersion(version: call.version, isSettled: true)
            renewExpiry(nowMilliseconds)
            return AudienceReply(.unchanged)
        }
        if !call.isStart, let admittedVersion {
            let waitMilliseconds =
                admittedVersion.admittedAtMilliseconds + call.pace.spacingMilliseconds - nowMilliseconds
            // If the clock was set back, the spacing does not apply.
            if waitMilliseconds > 0 && nowMilliseconds >= admittedVersion.admittedAtMilliseconds {
                var reply = AudienceReply<[UInt8]>(.wait)
                reply.waitMilliseconds = waitMilliseconds
                return reply
            }
        }
        let grant = drawAndGrant(call, nowMilliseconds: nowMilliseconds)
        newestVersion = NewestVersion(version: call.version, isSettled: false)
        if call.isStart { newestStart = call.version }
        admittedVersion = AdmittedVersion(
            version: call.version,
            digest: call.digest,
            isEnd: call.isEnd,
            isStart: call.isStart,
            grant: grant,
            admittedAtMilliseconds: nowMilliseconds,
            body: call.isStart ? [] : call.body,
            expirationSeconds: call.expirationSeconds
        )
        fanouts.removeAll { $0.version == call.version && $0.rangeCount == grant.rangeCount }
        fanouts.add(
            Fanout(
                version: call.version,
                rangeCount: grant.rangeCount,
                broadcastCount: broadcastCount(isStart: call.isStart),
                admittedAtMilliseconds: nowMilliseconds
            )
        )
        renewExpiry(nowMilliseconds)
        return makeSendReply(grant)
    }

    /// Returns on how many channels a command is broadcast: on all of the audience's. A start is not broadcast, because
    /// a channel cannot start activities.
    private func broadcastCount(isStart: Bool) -> UInt8 { isStart ? 0 : UInt8(channels.count) }

    /// Repeats the reply to an admitted command. Stores how many broadcasts the command has now, because a channel of
    /// the audience may have been added or removed since.
    private mutating func admitRepeatedCommand(_ admittedVersion: AdmittedVersion, nowMilliseconds: Int64)
        -> AudienceReply<[UInt8]>
    {
        let broadcastCount = broadcastCount(isStart: admittedVersion.isStart)
        let index = fanouts.firstIndex {
            $0.version == admittedVersion.version && $0.rangeCount == admittedVersion.grant.rangeCount
        }
        if let index, fanouts[index].totals == nil, fanouts[index].broadcastCount != broadcastCount {
            fanouts[index].broadcastCount = broadcastCount
            renewExpiry(nowMilliseconds)
        }
        return makeSendReply(admittedVersion.grant)
    }

    /// Returns the verdict that refuses a command. Nil if the command may become the newest version, or if the command
    /// is the newest version and not settled yet.
    private func findRefusal(_ call: AudienceAdmission<[UInt8]>, _ newestVersion: NewestVersion) -> AudienceVerdict? {
        let hasEnded = admittedVersion?.isEnd ?? false
        if let admittedVersion, isRepeat(call, admittedVersion), newestVersion.version == call.version {
            return newestVersion.isSettled ? .duplicate : nil
        }
        if call.isStart { return call.version > newestVersion.version ? nil : .superseded }
        if hasEnded { return .ended }
        // A newer update does not supersede an end. A newer start does, because the end belongs to the life before this
        // start.
        if call.isEnd { return newestStart.map { call.version < $0 } ?? false ? .superseded : nil }
        if newestVersion.version == call.version { return newestVersion.isSettled ? .duplicate : .superseded }
        return newestVersion.version > call.version ? .superseded : nil
    }

    /// Whether the call repeats the admitted command: both have the same version and kind (update, end or start).
    private func isRepeat(_ call: AudienceAdmission<[UInt8]>, _ admittedVersion: AdmittedVersion) -> Bool {
        admittedVersion.version == call.version && admittedVersion.isEnd == call.isEnd
            && admittedVersion.isStart == call.isStart
    }

    /// Returns the grant of a command that may be sent: its timestamp, its priorities and its number of ranges. Draws
    /// on the budgets. If the number of ranges changes, removes the checkpoints of the former ranges.
    private mutating func drawAndGrant(_ call: AudienceAdmission<[UInt8]>, nowMilliseconds: Int64) -> AudienceGrant {
        let lastAssignedTimestamp = admittedVersion?.grant.timestamp ?? 0
        var grant = AudienceGrant(
            timestamp: max(call.version.timestamp, min(lastAssignedTimestamp + 1, Limits.timestampMax)),
            priority: PushPriority.low,
            frequentUpdatesPriority: PushPriority.low,
            isDemoted: false,
            rangeCount: chooseRangeCountAndRemoveCheckpoints(call, nowMilliseconds: nowMilliseconds)
        )
        if call.requestsHighPriority {
            if drawIfAllowed(call.pace.budget, &budgetFullAtMilliseconds, call, nowMilliseconds: nowMilliseconds) {
                grant.priority = PushPriority.high
            }
            let hasDrawnFrequentBudget = drawIfAllowed(
                call.pace.frequentBudget,
                &frequentBudgetFullAtMilliseconds,
                call,
                nowMilliseconds: nowMilliseconds
            )
            if hasDrawnFrequentBudget { grant.frequentUpdatesPriority = PushPriority.high }
            grant.isDemoted = grant.priority == PushPriority.low || grant.frequentUpdatesPriority == PushPriority.low
        }
        return grant
    }

    /// Draws a push for this command and returns true, if the bucket has one left. Otherwise returns false, and cuts
    /// `fullAtMilliseconds` if it is later than any empty bucket needs.
    private func drawIfAllowed(
        _ bucket: Policy.Bucket,
        _ fullAtMilliseconds: inout Int64,
        _ call: AudienceAdmission<[UInt8]>,
        nowMilliseconds: Int64
    ) -> Bool {
        let pushesLeftCount = bucket.pushesLeft(
            fullAtMilliseconds: fullAtMilliseconds,
            nowMilliseconds: nowMilliseconds
        )
        guard pushesLeftCount > (call.mayUseReserve ? 0 : bucket.reservedForAlerts) else {
            // The script decides the same: search for `decision: budget`.
            fullAtMilliseconds = min(
                fullAtMilliseconds,
                bucket.fullAtMillisecondsMax(nowMilliseconds: nowMilliseconds)
            )
            return false
        }
        fullAtMilliseconds = bucket.fullAfterDrawAtMilliseconds(
            fullAtMilliseconds: fullAtMilliseconds,
            nowMilliseconds: nowMilliseconds
        )
        return true
    }

    /// Returns the number of ranges for a command: as many as the newest fan-out under way among the last 64, because
    /// ranges of two numbers would overlap; otherwise the number that the call asks for. Older fan-outs do not count,
    /// because they probably never finish.
    ///
    /// If the number differs from that of the last command, removes the checkpoints of the former ranges.
    private mutating func chooseRangeCountAndRemoveCheckpoints(
        _ call: AudienceAdmission<[UInt8]>,
        nowMilliseconds: Int64
    ) -> UInt16 {
        let fanoutUnderWay = fanouts.suffix(AudienceHashLimits.otherFanoutsMax)
            .last { $0.isUnderWay(nowMilliseconds: nowMilliseconds) }
        let count = fanoutUnderWay?.rangeCount ?? call.rangeCount
        if let admittedVersion, admittedVersion.grant.rangeCount != count {
            for range in ranges.keys where range.rangeCount != count { ranges[range]?.checkpointText = [] }
        }
        return count
    }

    private func makeSendReply(_ grant: AudienceGrant) -> AudienceReply<[UInt8]> {
        var reply = AudienceReply<[UInt8]>(.send)
        reply.grant = grant
        reply.channels = channels
        return reply
    }

    private func makeNewestStateReply(nowMilliseconds: Int64) -> AudienceReply<[UInt8]> {
        guard let admittedVersion, !admittedVersion.isStart,
            nowMilliseconds / 1_000 <= admittedVersion.expirationSeconds,
            nowMilliseconds - admittedVersion.admittedAtMilliseconds
                <= AudienceHashLimits.joinerBodyAgeMillisecondsMax
        else { return AudienceReply(.unknown) }
        var reply = AudienceReply<[UInt8]>(.send)
        reply.newestVersion = admittedVersion.version
        reply.timestamp = admittedVersion.grant.timestamp
        reply.expirationSeconds = admittedVersion.expirationSeconds
        reply.isEnd = admittedVersion.isEnd
        reply.bytes = admittedVersion.body
        return reply
    }

    // MARK: - Ranges

    /// The newest admitted version. Nil if there is none, or if this version is a start, because a start replaces no
    /// state that activities show.
    private var newestVersionForActivities: Version? { admittedVersion.flatMap { $0.isStart ? nil : $0.version } }

    private mutating func claimRange(_ range: SegmentRange, claim: UInt64, nowMilliseconds: Int64) -> AudienceReply<
        [UInt8]
    > {
        var reply = AudienceReply<[UInt8]>(.claimed)
        reply.newestVersion = newestVersionForActivities
        reply.bytes = ranges[range]?.checkpointText ?? []
        ranges[range] = RangeState(claim: claim, checkpointText: ranges[range]?.checkpointText ?? [])
        renewExpiry(nowMilliseconds)
        return reply
    }

    /// Records a checkpoint if the range still has this claim. Otherwise replies `claimedByAnother`, or `claimLost` if
    /// the range has no claim.
    private mutating func recordCheckpoint(
        _ range: SegmentRange,
        claim: UInt64,
        _ text: [UInt8],
        nowMilliseconds: Int64
    ) -> AudienceReply<[UInt8]> {
        var reply = AudienceReply<[UInt8]>(.claimedByAnother)
        reply.newestVersion = newestVersionForActivities
        guard let rangeState = ranges[range] else {
            reply.verdict = .claimLost
            return reply
        }
        guard rangeState.claim == claim else { return reply }
        ranges[range] = RangeState(claim: claim, checkpointText: text)
        renewExpiry(nowMilliseconds)
        reply.verdict = .settled
        return reply
    }

    private mutating func finishRange(
        _ range: SegmentRange,
        _ version: Version,
        _ counts: MemberOutcomeCounts,
        _ times: ResponseTimes,
        nowMilliseconds: Int64
    ) -> AudienceReply<[UInt8]> {
        guard let index = findOrAddFanout(of: version, rangeCount: range.rangeCount, nowMilliseconds: nowMilliseconds)
        else { return makeUncountedReply(rangeCount: range.rangeCount) }
        if fanouts[index].totals == nil {
            fanouts[index].finishedRanges[range.index] = (counts, times)
            renewExpiry(nowMilliseconds)
        }
        return sumUpAndReply(index)
    }

    private mutating func finishBroadcast(
        _ broadcast: FinishedBroadcast,
        _ version: Version,
        _ outcome: MemberOutcome,
        _ times: ResponseTimes,
        nowMilliseconds: Int64
    ) -> AudienceReply<[UInt8]> {
        guard
            let index = findOrAddFanout(
                of: version,
                rangeCount: broadcast.rangeCount,
                nowMilliseconds: nowMilliseconds
            )
        else { return makeUncountedReply(rangeCount: broadcast.rangeCount) }
        if fanouts[index].totals == nil {
            if fanouts[index].broadcastCount == 0 { fanouts[index].broadcastCount = broadcast.broadcastCount }
            fanouts[index].finishedBroadcasts[broadcast.environment] = (outcome, times)
            renewExpiry(nowMilliseconds)
        }
        return sumUpAndReply(index)
    }

    /// Returns the index of a fan-out. Adds it if it is missing, for example because Redis lost the hash. Nil if there
    /// is no room: another fan-out, which has all its counts, would have to be removed (K27).
    private mutating func findOrAddFanout(of version: Version, rangeCount: UInt16, nowMilliseconds: Int64) -> Int? {
        if let index = fanouts.firstIndex(where: { $0.version == version && $0.rangeCount == rangeCount }) {
            return index
        }
        let fanout = Fanout(version: version, rangeCount: rangeCount, admittedAtMilliseconds: nowMilliseconds)
        let countedRangeCount =
            fanouts.countRangesUnderWay(nowMilliseconds: nowMilliseconds) + fanout.countedRangeCount
        guard countedRangeCount <= AudienceHashLimits.rangesUnderWayMax else { return nil }
        fanouts.add(fanout)
        return fanouts.count - 1
    }

    /// Returns the reply about a range or broadcast that is not counted. It says that all ranges are unfinished, so the
    /// version gets no totals.
    private func makeUncountedReply(rangeCount: UInt16) -> AudienceReply<[UInt8]> {
        var reply = AudienceReply<[UInt8]>(.finished)
        reply.unfinishedPartCount = Int(rangeCount)
        return reply
    }

    /// Returns the reply about a finished range or broadcast. If all parts of the version are now finished, first
    /// computes the totals.
    private mutating func sumUpAndReply(_ index: Int) -> AudienceReply<[UInt8]> {
        let unfinishedPartCount =
            Int(fanouts[index].rangeCount) + Int(fanouts[index].broadcastCount) - fanouts[index].finishedRanges.count
            - fanouts[index].finishedBroadcasts.count
        if fanouts[index].totals == nil, unfinishedPartCount <= 0 { fanouts[index].computeTotals() }
        var reply = AudienceReply<[UInt8]>(.finished)
        if let (totals, times) = fanouts[index].totals {
            reply.totals = totals
            reply.responseTimes = times
            reply.broadcastCounts = fanouts[index].broadcastCounts
        } else {
            reply.unfinishedPartCount = unfinishedPartCount
        }
        return reply
    }
}
