/// Limits the memory of a core: says how much a record needs, and frees unused blocks.
extension Delivery {
    /// An estimate of the bytes that one more record needs, without the record's blocks: its slot, its entries in the
    /// queues, its change of audiences, and two activities.
    public static var bytesPerRecord: Int {
        Records.slotBytes + 116 + PendingMembershipChanges.bytesPerChange + 2 * Activities.bytesPerActivity
    }

    /// Unused blocks are freed when their bytes exceed `usedBlockBytesMax` divided by this number. `MemoryBudget`
    /// reserves just as much memory for unused blocks.
    private static var spareBytesDivisor: Int { 4 }
    /// The shortest interval between two releases. A release visits every free block, so it must be rare.
    private static var releaseIntervalMilliseconds: Int64 { 1_000 }

    /// Frees blocks that nothing uses any more, for example after a backlog or after records of another size.
    mutating func releaseSpareBlocks(now: Moment) {
        guard
            records.allocatedBlockBytes - records.usedBlockBytes > configuration.usedBlockBytesMax
                / Self.spareBytesDivisor,
            now.monotonicMilliseconds >= lastBlockReleaseAtMilliseconds + Self.releaseIntervalMilliseconds
        else { return }
        lastBlockReleaseAtMilliseconds = now.monotonicMilliseconds
        records.releaseFreeBlocks()
    }
}
