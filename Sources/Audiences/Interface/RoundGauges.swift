import Delivery
public import LiveActivity

/// The present state of one app's rounds, for its metrics.
public struct RoundGauges: Sendable, Equatable, BitwiseCopyable {
    /// Rounds that have versions under way.
    public var rounds = 0
    /// Members that wait for another attempt, or whose next attempt is under way.
    public var membersParked = 0
    /// When the command of the oldest version under way was admitted, UNIX milliseconds; nil if no version is
    /// under way.
    public var oldestVersionMilliseconds: Int64?
    /// Since when members wait for their turn in a round (UNIX milliseconds): the admission time of the command
    /// that found no member of its range waiting. Of several rounds, the earliest time counts; nil if every
    /// round has reached all its members.
    ///
    /// If commands come faster than a round reaches all members, no single command is old, but there are always
    /// members without the newest state. So this time does not change while members wait. Parked members do not
    /// count: a phone that APNs answers with 429 for hours must not raise an alert.
    public var oldestRoundMilliseconds: Int64?

    public init() {}
}

extension Audiences {
    /// Returns how many turns of members are over since the worker started, by `MemberOutcome.rawValue`. A
    /// member counts once each time that a round passes it, even if several versions were under way.
    public func memberOutcomeCounts(of application: Int) -> InlineArray<6, UInt64> {
        queues[application].memberOutcomeCounts
    }

    /// Returns the number of changes that audiences have acknowledged since the worker started, by
    /// `MembershipChangeKind.rawValue`.
    public func membershipChangeCounts(of application: Int) -> InlineArray<3, UInt64> {
        queues[application].membershipChangeCounts
    }

    /// Adds the present numbers of each app. `oldestRoundMilliseconds` also includes the records that were
    /// passed over, because no member has got their states yet.
    public func addGauges(to gauges: inout [RoundGauges]) {
        partitions.forEachAssigned { partition in
            guard partition.pointee.phase == .assigned else { return }
            for record in partition.pointee.passedOverRecords.lowestRecords {
                let application = Int(record.application)
                gauges[application].oldestRoundMilliseconds = min(
                    gauges[application].oldestRoundMilliseconds ?? .max,
                    record.admittedMilliseconds
                )
            }
        }
        for round in 0..<rounds.indexBound where rounds.isInUse(round) {
            let application = Int(rounds[round].application)
            gauges[application].membersParked += Int(rounds[round].parkedCount)
            let oldest = rounds[round].oldestVersion
            guard oldest != .max else { continue }
            gauges[application].rounds += 1
            let admitted = versions[oldest].record.instruction.admittedMilliseconds
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

    /// Returns since when members of the round wait for their turn; nil if the turn of every member is over, or if the
    /// round's partition is being revoked. Parked members do not count: they are few, and block no other member.
    private func unreachedSince(_ round: UInt32) -> Int64? {
        switch rounds[round].phase {
        case .claiming, .awaitingVersions: versions[rounds[round].oldestVersion].record.instruction.admittedMilliseconds
        case .restoring, .running, .lost: hasReachedAllMembers(round) ? nil : rounds[round].unreachedSinceMilliseconds
        case .closing, .draining, .abandoned: nil
        }
    }

    private func hasReachedAllMembers(_ round: UInt32) -> Bool { rounds[round].watermark >= readEnd(of: round) }

    /// Called before a version joins a round. If members still wait for an older version, the time since when
    /// members wait stays as it is. Otherwise it is the time at which the new version's command was admitted.
    mutating func updateUnreachedSince(_ round: UInt32, by version: UInt32) {
        guard hasReachedAllMembers(round) else { return }
        rounds[round].unreachedSinceMilliseconds = versions[version].record.instruction.admittedMilliseconds
    }
}

/// The content of a result for a command to an audience, for one range or for all ranges and broadcasts.
public struct AudienceResultContent: Sendable, BitwiseCopyable {
    public var outcome: RoundOutcome
    /// The timestamp of the command's record, and when APNs last answered one of its pushes. UNIX milliseconds; -1 if
    /// there is none.
    public var recordMilliseconds: Int64
    public var lastResponseMilliseconds: Int64
    /// The partition and offset of the result's fan-out record. The result over all ranges and broadcasts has
    /// those of the record that ended last. The partition is -1 if the lane has released it.
    public var partition: Int32
    public var offset: Int64
    /// When the fan-out record was received. UNIX milliseconds.
    public var receivedMilliseconds: Int64
    public var event: Event
    public var priority: UInt8
    /// Members whose turn is over.
    public var memberCount: UInt32
}

extension Audiences {
    /// Returns the index of the app that a production belongs to.
    public func application(of production: AudienceProduction) -> Int {
        let application =
            switch production.kind {
            case .fanout: audiences[commands[production.index].audience].application
            case .rangeResult, .commandResult: rounds[versions[production.index].round].application
            case .broadcastResult, .broadcastTotals: channels[broadcasts[production.index].channel].key.application
            case .memberResult, .invalidation: refusedMembers[production.index].application
            case .start: pages[PageMemberIndex(value: production.index).page].application
            }
        return Int(application)
    }

    /// Returns the content of a range's result, or of a result over all ranges and broadcasts; nil for other
    /// productions. The caller must ask before ``productionReported(_:_:now:)``, which may free the content.
    public func resultContent(of production: AudienceProduction) -> AudienceResultContent? {
        switch production.kind {
        case .rangeResult:
            let slot = versions[production.index]
            return resultContent(slot.record, slot.counts, slot.times, isSuperseded: slot.isSuperseded)
        case .commandResult:
            let slot = versions[production.index]
            return resultContent(slot.record, slot.totals.members, slot.totals.times, isSuperseded: slot.isSuperseded)
        case .broadcastTotals:
            let slot = broadcasts[production.index]
            let isSuperseded = slot.outcome == .superseded
            return resultContent(slot.record, slot.totals.members, slot.totals.times, isSuperseded: isSuperseded)
        case .fanout, .memberResult, .invalidation, .start, .broadcastResult: return nil
        }
    }

    private func resultContent(
        _ record: FanoutRecord,
        _ members: MemberCounts,
        _ times: RoundTimes,
        isSuperseded: Bool
    ) -> AudienceResultContent {
        AudienceResultContent(
            outcome: isSuperseded ? .superseded : members.outcome,
            recordMilliseconds: record.instruction.recordMilliseconds,
            lastResponseMilliseconds: times.lastResponseMilliseconds,
            partition: partitions.partition(record.partition, epoch: record.epoch)?.pointee.number ?? -1,
            offset: record.offset,
            receivedMilliseconds: record.receivedMilliseconds,
            event: record.event,
            priority: record.instruction.grant.priority,
            memberCount: UInt32(clamping: members.total)
        )
    }
}
