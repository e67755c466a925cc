public import Delivery

/// Members that wait for a push while the partition of their registration moves.
///
/// Another worker may own the partition meanwhile, and may read that a member has left its audience. So the core gives
/// up the push a minute later (K24). But most rebalances give the partition back to this lane within seconds, because
/// the assignor gives up all partitions first. Then the wait has no limit again, unless another worker may have settled
/// records of the partition meanwhile.
extension Audiences {
    /// How long the core still tries to send the push after the registration's partition has moved.
    private static var giveUpMovedJoinerAfterMilliseconds: Int64 { 60_000 }

    /// Limits the wait of the members whose registrations came from this partition of the registrations topic. Called
    /// when the partition moves, but not when this lane reads it again.
    ///
    /// - Parameter settledEndOffset: below this offset, all records of the partition are settled.
    public mutating func limitJoinerWaits(
        ofRegistrationsPartition partition: Int32,
        settledEndOffset: Int64,
        now: Moment
    ) {
        forEachChange(ofRegistrationsPartition: partition) { slot in
            // An earlier move has limited this wait, and another worker may have settled records since. So the limit
            // and the offset of that move still apply, even if the partition has come back.
            guard slot.waitEndMilliseconds == .max else { return }
            slot.waitEndMilliseconds = now.monotonicMilliseconds + Self.giveUpMovedJoinerAfterMilliseconds
            slot.settledEndOffset = settledEndOffset
        }
    }

    /// Removes the limits that ``limitJoinerWaits(ofRegistrationsPartition:settledEndOffset:now:)`` has set for this
    /// partition, if no other worker can have settled a record that this lane had not settled. Called when the lane
    /// gets the partition.
    ///
    /// Another worker may have settled such a record, and may have died before it committed the offset. So a limit
    /// stays if the group could have noticed such a death before the partition comes back.
    ///
    /// - Parameters:
    ///   - offset: where the lane begins to read.
    ///   - areLaterRecordsSettled: whether the lane will skip some of the records from this offset on.
    public mutating func continueJoinerWaits(
        ofRegistrationsPartition partition: Int32,
        from offset: Int64,
        areLaterRecordsSettled: Bool,
        now: Moment
    ) {
        guard !areLaterRecordsSettled else { return }
        let sessionMilliseconds = configuration.consumerSessionMilliseconds
        forEachChange(ofRegistrationsPartition: partition) { slot in
            let movedAtMilliseconds = slot.waitEndMilliseconds - Self.giveUpMovedJoinerAfterMilliseconds
            guard offset <= slot.settledEndOffset, now.monotonicMilliseconds - movedAtMilliseconds < sessionMilliseconds
            else { return }
            slot.waitEndMilliseconds = .max
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
