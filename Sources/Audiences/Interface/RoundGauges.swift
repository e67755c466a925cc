import Delivery
public import LiveActivity

/// What stands in the rounds of one app, for its metrics.
public struct RoundGauges: Sendable, Equatable, BitwiseCopyable {
    /// Rounds that have versions under way.
    public var rounds = 0
    /// Members that wait to be sent again.
    public var membersParked = 0
    /// When the command of the oldest version under way was admitted, UNIX milliseconds; nil: there is none.
    public var oldestVersionMilliseconds: Int64?
    /// When the command was admitted with which the oldest round began that has not reached all its members since, UNIX milliseconds; nil: each has.
    public var oldestRoundMilliseconds: Int64?

    public init() {}
}

extension Audiences {
    /// Members that had their turn since the start, by `MemberCounts.Outcome.rawValue`. A member counts once for each round that reaches it.
    public func membersCounted(of application: Int) -> InlineArray<6, UInt64> { lines[application].members }

    /// Changes of members that their audiences know of, since the start, by `MembershipChangeKind.rawValue`.
    public func changesCounted(of application: Int) -> InlineArray<3, UInt64> { lines[application].changes }

    /// Adds what stands now, by app. A version that was passed over has members to reach.
    public func addGauges(to gauges: inout [RoundGauges]) {
        partitions.forEachAssigned { partition in
            for passedOver in partition.passedOver.lowest {
                let application = Int(passedOver.application)
                gauges[application].oldestRoundMilliseconds = min(
                    gauges[application].oldestRoundMilliseconds ?? .max,
                    passedOver.admittedMilliseconds
                )
            }
        }
        for round in 0..<rounds.indexBound where rounds.isInUse(round) {
            let application = Int(rounds[round].application)
            gauges[application].membersParked += Int(rounds[round].parkedCount)
            let oldest = rounds[round].oldest
            guard oldest != .max else { continue }
            gauges[application].rounds += 1
            let admitted = versions[oldest].order.admittedMilliseconds
            gauges[application].oldestVersionMilliseconds = min(
                gauges[application].oldestVersionMilliseconds ?? .max,
                admitted
            )
            if let since = unreachedSince(round) {
                gauges[application].oldestRoundMilliseconds = min(
                    gauges[application].oldestRoundMilliseconds ?? .max,
                    since
                )
            }
        }
    }

    /// Nil: every member has had its turn. Those that are sent again are few, and hold up no other.
    private func unreachedSince(_ round: UInt32) -> Int64? {
        switch rounds[round].phase {
        case .claiming, .awaitingVersions: versions[rounds[round].oldest].order.admittedMilliseconds
        case .restoring, .running, .lost: hasReachedAll(round) ? nil : rounds[round].unreachedSinceMilliseconds
        case .closing, .draining, .abandoned: nil
        }
    }

    private func hasReachedAll(_ round: UInt32) -> Bool { rounds[round].watermark >= readEnd(of: round) }

    /// A version is about to join a round. It begins the round, unless members wait for the one before.
    mutating func noteBegun(_ round: UInt32, by version: UInt32) {
        guard hasReachedAll(round) else { return }
        rounds[round].unreachedSinceMilliseconds = versions[version].order.admittedMilliseconds
    }
}

/// What a result says of a command to an audience, in one range or in all.
public struct FinishedRound: Sendable, BitwiseCopyable {
    public var outcome: RoundOutcome
    /// UNIX milliseconds: of the command's record, and of the last answer of its members; -1 if there is none.
    public var recordMilliseconds: Int64
    public var lastAnswerMilliseconds: Int64
    /// Of the range that says it: of a command, the last one.
    public var partition: Int32
    public var offset: Int64
    /// Of its fan-out record, UNIX milliseconds.
    public var receivedMilliseconds: Int64
    public var event: Event
    public var priority: UInt8
    /// Members that had their turn.
    public var members: UInt32
}

extension Audiences {
    /// The app that a production is of.
    public func application(of production: AudienceProduction) -> Int {
        let application =
            switch production.kind {
            case .fanout: audiences[commands[production.index].audience].application
            case .rangeResult, .commandResult: rounds[versions[production.index].round].application
            case .broadcastResult, .broadcastTotals: channels[broadcasts[production.index].channel].key.application
            case .memberResult, .invalidation: notices[production.index].application
            case .start: pages[StartPlace(value: production.index).page].application
            }
        return Int(application)
    }

    /// What a range's or a command's result says; nil of other productions. To be asked before ``produced(_:_:now:)``.
    public func finished(by production: AudienceProduction) -> FinishedRound? {
        switch production.kind {
        case .rangeResult:
            let version = versions[production.index]
            return finished(version, version.counts, version.times)
        case .commandResult:
            let version = versions[production.index]
            return finished(version, version.totals, version.totalTimes)
        case .broadcastTotals:
            let slot = broadcasts[production.index]
            return FinishedRound(
                outcome: slot.outcome == .superseded ? .superseded : slot.totals.outcome,
                recordMilliseconds: slot.order.recordMilliseconds,
                lastAnswerMilliseconds: slot.totalTimes.lastAnswerMilliseconds,
                partition: partitions.current(slot.partition, epoch: slot.epoch)?.pointee.number ?? -1,
                offset: slot.offset,
                receivedMilliseconds: slot.receivedMilliseconds,
                event: slot.event,
                priority: slot.order.grant.priority,
                members: UInt32(clamping: slot.totals.total)
            )
        case .fanout, .memberResult, .invalidation, .start, .broadcastResult: return nil
        }
    }

    private func finished(_ version: VersionSlot, _ members: MemberCounts, _ times: RoundTimes) -> FinishedRound {
        FinishedRound(
            outcome: version.isOvertaken ? .superseded : members.outcome,
            recordMilliseconds: version.order.recordMilliseconds,
            lastAnswerMilliseconds: times.lastAnswerMilliseconds,
            partition: partitions.current(version.partition, epoch: version.epoch)?.pointee.number ?? -1,
            offset: version.offset,
            receivedMilliseconds: version.receivedMilliseconds,
            event: version.event,
            priority: version.order.grant.priority,
            members: UInt32(clamping: members.total)
        )
    }
}
