/// Limits the memory of a core: says how much a record needs, and returns unused memory to the system.
extension Delivery {
    /// An estimate of the bytes that one more record needs: its slot, its places in queues, one change of audiences,
    /// and two activities, because the lane may have twice as many activities as records
    /// (`activityCountThatStopsReceiving`). The blocks with the record's texts, token and body are not included.
    public static var bytesPerRecord: Int {
        Records.slotBytes + 116 + PendingMembershipChanges.bytesPerChange + 2 * Activities.bytesPerActivity
    }

    /// The core deallocates unused blocks when they have more bytes than `usedBlockBytesMax` divided by this number.
    /// `MemoryBudget` reserves the same number of bytes for unused blocks.
    private static var unusedBytesDivisor: Int { 4 }
    /// The shortest interval between two deallocations. They must be rare, because each visits every free block.
    private static var deallocationIntervalMilliseconds: Int64 { 1_000 }

    /// If much block memory is unused, returns to the system each chunk (`Arena`) in which every block is free. Such
    /// chunks are usual after a backlog, or when the size of most records has changed.
    mutating func deallocateUnusedBlocks(now: Moment) {
        guard
            records.allocatedBlockBytes - records.usedBlockBytes > configuration.usedBlockBytesMax
                / Self.unusedBytesDivisor,
            now.monotonicMilliseconds >= deallocatedBlocksAtMilliseconds + Self.deallocationIntervalMilliseconds
        else { return }
        deallocatedBlocksAtMilliseconds = now.monotonicMilliseconds
        records.deallocateFreeChunks()
    }
}
