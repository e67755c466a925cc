import Delivery
public import LiveActivity

/// The content of a result for a command to an audience: for one range (``SegmentRange``), or for all ranges and
/// broadcasts.
public struct AudienceResultContent: Sendable, BitwiseCopyable {
    public var outcome: FanoutOutcome
    /// The timestamp of the command's record, and when APNs last responded to a push of the range, or of all ranges and
    /// broadcasts. UNIX milliseconds; -1: there is no such time.
    public var recordTimestampMilliseconds: Int64
    public var lastResponseAtWallMilliseconds: Int64
    /// The partition and offset of the fan-out record whose range or broadcast the result is about. A result over all
    /// ranges and broadcasts names the fan-out record that ended last. The partition is -1 if the lane has released it.
    public var partition: Int32
    public var offset: Int64
    /// When the fan-out record was received, UNIX milliseconds.
    public var receivedAtWallMilliseconds: Int64
    public var event: Event
    public var priority: UInt8
    /// The number of members that the result counts: the sum over all outcomes.
    public var memberCount: UInt32
}

extension Audiences {
    public func appIndex(of outgoingRecord: OutgoingAudienceRecord) -> Int {
        let appIndex =
            switch outgoingRecord.kind {
            case .fanout: audiences[commands[outgoingRecord.command].audience].appIndex
            case .rangeResult, .commandResult: rounds[rangeVersions[outgoingRecord.rangeVersion].round].appIndex
            case .broadcastResult, .commandResultAfterBroadcast:
                channels[broadcasts[outgoingRecord.broadcast].channel].key.appIndex
            case .memberResult, .invalidation: refusedMembers[outgoingRecord.refusedMember].appIndex
            case .start: pages[outgoingRecord.pageMember.page].appIndex
            }
        return Int(appIndex)
    }

    /// Returns the content of a range's result, or of a result over all ranges and broadcasts; nil for other outgoing
    /// records. Call this before ``handleDeliveryReport(_:_:now:)``, which may free the slot with the content.
    public func resultContent(of outgoingRecord: OutgoingAudienceRecord) -> AudienceResultContent? {
        switch outgoingRecord.kind {
        case .rangeResult:
            let slot = rangeVersions[outgoingRecord.rangeVersion]
            return resultContent(slot.record, slot.counts, slot.times, isSuperseded: slot.isSuperseded)
        case .commandResult:
            let slot = rangeVersions[outgoingRecord.rangeVersion]
            return resultContent(
                slot.record,
                slot.totals.memberCounts,
                slot.totals.times,
                isSuperseded: slot.isSuperseded
            )
        case .commandResultAfterBroadcast:
            let slot = broadcasts[outgoingRecord.broadcast]
            let isSuperseded = slot.outcome == .superseded
            return resultContent(slot.record, slot.totals.memberCounts, slot.totals.times, isSuperseded: isSuperseded)
        case .fanout, .memberResult, .invalidation, .start, .broadcastResult: return nil
        }
    }

    private func resultContent(
        _ record: FanoutRecord,
        _ members: MemberOutcomeCounts,
        _ times: ResponseTimes,
        isSuperseded: Bool
    ) -> AudienceResultContent {
        let partition = partitions.partition(record.partitionIndex, assignmentEpoch: record.assignmentEpoch)
        return AudienceResultContent(
            outcome: isSuperseded ? .superseded : members.outcome,
            recordTimestampMilliseconds: record.instruction.recordTimestampMilliseconds,
            lastResponseAtWallMilliseconds: times.lastResponseAtMilliseconds,
            partition: partition?.pointee.number ?? -1,
            offset: record.offset,
            receivedAtWallMilliseconds: record.receivedAtWallMilliseconds,
            event: record.event,
            priority: record.instruction.grant.priority,
            memberCount: UInt32(clamping: members.total)
        )
    }
}
