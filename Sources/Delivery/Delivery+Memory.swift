/// Limits the memory of a core: says how much a record needs, and returns unused memory to the system.
extension Delivery {
    /// An estimate of the bytes that one more record needs for its slot, its entries in queues, its change of
    /// audiences, and two activities. The record's blocks are not included.
    public static var bytesPerRecord: Int {
        Records.slotBytes + 116 + PendingMembershipChanges.bytesPerChange + 2 * Activities.bytesPerActivity
    }

    /// Unused blocks are deallocated when their bytes exceed `usedBlockBytesMax` divided by this number. `MemoryBudget`
    /// reserves just as much memory for unused blocks.
    private static var spareBytesDivisor: Int { 4 }
    /// The shortest interval between two deallocations. They must be rare, because each visits every free block.
    private static var deallocationIntervalMilliseconds: Int64 { 1_000 }

    /// Deallocates the chunks in which every block is free, for example after a backlog or after records of another
    /// size.
    mutating func deallocateSpareBlocks(now: Moment) {
        guard
            records.allocatedBlockBytes - records.usedBlockBytes > configuration.usedBlockBytesMax
                / Self.spareBytesDivisor,
            now.monotonicMilliseconds >= deallocatedBlocksAtMilliseconds + Self.deallocationIntervalMilliseconds
        else { return }
        deallocatedBlocksAtMilliseconds = now.monotonicMilliseconds
        records.deallocateFreeBlocks()
    }
}
