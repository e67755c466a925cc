public import Delivery

/// Joiners (`Audiences+Joiners`) that wait for a push, while Kafka takes the partition of their registration from
/// this lane: the partition *moves*.
///
/// Another worker may then own the partition, and may read that a member has left its audience. So the core gives up
/// the push a minute later (K24). But in most rebalances this lane loses the partition only for seconds: each worker
/// first gives up all its partitions, and usually gets them again. When the partition is back, the wait has no limit
/// again, unless another worker may have settled records of the partition.
extension Audiences {
    /// How long the core still tries to send the push after the registration's partition has moved.
    private static var giveUpMovedJoinerAfterMilliseconds: Int64 { 60_000 }

    /// Limits the wait of the joiners whose registrations came from this partition of the registrations topic. Called
    /// when the partition moves, but not when this lane keeps the partition and reads it again.
    ///
    /// - Parameter settledEndOffset: below this offset, all records of the partition are settled.
    public mutating func limitJoinerWaits(
        ofRegistrationsPartition partition: Int32,
        settledEndOffset: Int64,
        now: Moment
    ) {
        forEachChange(ofRegistrationsPartition: partition) { slot in
            // If an earlier move has limited this wait, keep the limit and the offset of that move. Another worker may
            // have settled records since then, even if the partition was back meanwhile.
            guard slot.partitionMoveWaitEndMilliseconds == .max else { return }
            slot.partitionMoveWaitEndMilliseconds = now.monotonicMilliseconds + Self.giveUpMovedJoinerAfterMilliseconds
            slot.settledEndOffsetAtMove = settledEndOffset
        }
    }

    /// Called when the lane gets the partition. Removes the limits that
    /// ``limitJoinerWaits(ofRegistrationsPartition:settledEndOffset:now:)`` has set, if surely no other worker has
    /// settled a record that this lane had not settled: the lane reads on at or below the offset at which it stopped,
    /// and the partition was away for less than the session timeout. After that time, another worker might have settled
    /// a record and died before it committed.
    ///
    /// - Parameters:
    ///   - offset: where the lane begins to read.
    ///   - areLaterRecordsSettled: whether the lane will skip some of the records from this offset on. If so, no limit
    ///     is removed.
    public mutating func continueJoinerWaits(
        ofRegistrationsPartition partition: Int32,
        from offset: Int64,
        areLaterRecordsSettled: Bool,
        now: Moment
    ) {
        guard !areLaterRecordsSettled else { return }
        let sessionTimeoutMilliseconds = configuration.consumerSessionTimeoutMilliseconds
        forEachChange(ofRegistrationsPartition: partition) { slot in
            let movedAtMilliseconds = slot.partitionMoveWaitEndMilliseconds - Self.giveUpMovedJoinerAfterMilliseconds
            guard offset <= slot.settledEndOffsetAtMove,
                now.monotonicMilliseconds - movedAtMilliseconds < sessionTimeoutMilliseconds
            else { return }
            slot.partitionMoveWaitEndMilliseconds = .max
        }
    }

    private mutating func forEachChange(
        ofRegistrationsPartition partition: Int32,
        _ body: (inout MembershipChangeSlot) -> Void
    ) {
        for rawIndex in 0..<membershipChanges.indexBound {
            let change = MembershipChangeIndex(rawValue: rawIndex)
            guard membershipChanges.isInUse(change), membershipChanges[change].partition == partition else { continue }
            body(&membershipChanges[change])
        }
    }
}
