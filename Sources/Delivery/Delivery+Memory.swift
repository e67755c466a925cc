/// Limits the memory of a core: says how much a record needs, and returns unused memory to the system.
extension Delivery {
    /// An estimate of the bytes that one more record needs: its slot, its places in queues, one change of audiences,
    /// and two activities, because the lane may have twice as many activities as records
    /// (`activityCountThatStopsReceiving`). The blocks with the record's texts, token and body are not included.
    public static var bytesPerRecord: Int {
        Records.slotBytes + 116 + PendingMembershipChanges.bytesPerChange + 2 * Activities.bytesPerActivity
    }

    /// The bytes that `usedBlockBytesMax` limits: the blocks in use with the records' texts, tokens and bodies, and what
    /// long ids of activities need beyond `bytesPerRecord`.
    var usedBlockBytes: Int { records.usedBlockBytes + activities.additionalIdentifierBytes }

    /// Whether the chunks of blocks, in use or free, have as many bytes as they may have. Usually the core deallocates
    /// unused chunks long before. But a chunk with a single block in use stays, for example after the size of most
    /// records has changed. Then the lane receives nothing until its records have settled and chunks are free. (R4)
    var areBlocksAllocated: Bool { allocatedBlockBytes >= configuration.allocatedBlockBytesMax }
    private var allocatedBlockBytes: Int { records.allocatedBlockBytes + activities.additionalAllocatedBytes }

    /// The core deallocates unused blocks when they have more bytes than `usedBlockBytesMax` divided by this number.
    /// `MemoryBudget` reserves more bytes than these for unused blocks.
    private static var unusedBytesDivisor: Int { 4 }
    /// The shortest interval between two deallocations. They must be rare, because each visits every free block.
    private static var deallocationIntervalMilliseconds: Int64 { 1_000 }

    /// If much block memory is unused, or no more may be allocated, returns to the system each chunk (`Arena`) in which every block is free. Such
    /// chunks are usual after a backlog, or when the size of most records has changed.
    mutating func deallocateUnusedBlocks(now: Moment) {
        guard
            allocatedBlockBytes - usedBlockBytes > configuration.usedBlockBytesMax / Self.unusedBytesDivisor
                || areBlocksAllocated,
            now.monotonicMilliseconds >= deallocatedBlocksAtMilliseconds + Self.deallocationIntervalMilliseconds
        else { return }
        deallocatedBlocksAtMilliseconds = now.monotonicMilliseconds
        records.deallocateFreeChunks()
        activities.deallocateFreeChunks()
    }
}
