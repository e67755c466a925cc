/// The memory that a core needs, and the freeing of blocks that it no longer needs.
extension Delivery {
    /// The memory for each record that the core may hold, without the record's blocks: the slot, its places
    /// in the queues of calls, productions, deferrals and commands to audiences, its change of audiences, and
    /// two activities.
    public static var bytesPerRecord: Int {
        Records.slotBytes + 116 + PendingMembershipChanges.bytesPerChange + 2 * Activities.bytesPerActivity
    }

    /// Unused blocks are freed when they exceed `blockBytesMax` divided by this number.
    private static var sparePart: Int { 4 }
    /// Freeing blocks visits every free block, so it happens rarely.
    private static var releaseIntervalMilliseconds: Int64 { 1_000 }

    /// Frees blocks that were needed for records of another size, or for a backlog that has ended.
    mutating func releaseSpareBlocks(now: Moment) {
        guard records.keptBytes - records.blockBytes > configuration.blockBytesMax / Self.sparePart,
            now.monotonicMilliseconds >= blocksReleasedMilliseconds + Self.releaseIntervalMilliseconds
        else { return }
        blocksReleasedMilliseconds = now.monotonicMilliseconds
        records.releaseFreeBlocks()
    }
}
