/// Limits the memory of a core: says how much a record needs, and returns unused memory to the system.
extension Delivery {
    /// An estimate of the bytes that one more record needs: its slot, its places in queues, one change of audiences,
    /// and two activities, because the lane may have twice as many activities as records
    /// (`activityCountThatStopsReceiving`). The blocks with the record's texts, token and body are not included.
    public static var bytesPerRecord: Int {
        Records.slotBytes + 116 + PendingMembershipChanges.bytesPerChange + 2 * Activities.bytesPerActivity
    }

    /// The bytes that `usedBlockBytesMax` limits: the blocks with the records' texts, tokens and bodies, and the part
    /// of long activity ids that `bytesPerRecord` does not include.
    var usedBlockBytes: Int { records.usedBlockBytes + activities.unusualIdentifierBytes }

    /// Whether the lane may allocate no more memory for blocks. Then it receives nothing until its records have settled
    /// and chunks (`Arena`) are free. Usually the core deallocates unused chunks long before. But a chunk with a single
    /// block in use stays, for example after the size of most records has changed. (R4)
    var isBlockMemoryFull: Bool { allocatedBlockBytes >= configuration.allocatedBlockBytesMax }
    private var allocatedBlockBytes: Int { records.allocatedBlockBytes + activities.unusualIdentifierChunkBytes }

    /// The core deallocates unused blocks when they have more bytes than `usedBlockBytesMax` divided by this number.
    /// `MemoryBudget` reserves more bytes than these for unused blocks.
    private static var unusedBytesDivisor: Int { 4 }
    /// The shortest interval between two deallocations. They must be rare, because each visits every free block.
    private static var deallocationIntervalMilliseconds: Int64 { 1_000 }

    /// Returns to the system each chunk (`Arena`) in which every block is free, if much block memory is unused, or if
    /// no more may be allocated. Such chunks are usual after a backlog, or when the size of most records has changed.
    mutating func deallocateUnusedBlocks(now: Moment) {
        guard
            allocatedBlockBytes - usedBlockBytes > configuration.usedBlockBytesMax / Self.unusedBytesDivisor
                || isBlockMemoryFull,
            now.monotonicMilliseconds >= deallocatedBlocksAtMilliseconds + Self.deallocationIntervalMilliseconds
        else { return }
        deallocatedBlocksAtMilliseconds = now.monotonicMilliseconds
        records.deallocateFreeChunks()
        activities.deallocateFreeChunks()
    }
}
