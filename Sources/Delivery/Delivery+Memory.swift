/// How much memory a core needs, and what it gives back.
extension Delivery {
    /// The memory for each record that the core may hold, without the record's blocks: the slot, its places in the queues of
    /// calls, productions, deferrals and commands to audiences, its change of audiences, and two activities.
    public static var bytesPerRecord: Int {
        Records.slotBytes + 116 + PendingMembershipChanges.bytesPerChange + 2 * Activities.bytesPerActivity
    }

    /// Unused blocks are given back when they are more than this part of `blockBytesMax`.
    private static var sparePart: Int { 4 }
    /// Giving blocks back visits every free block, so it happens rarely.
    private static var releaseIntervalMilliseconds: Int64 { 1_000 }

    /// Gives back blocks that were needed for records of another size, or for a backlog that has ended.
    mutating func releaseSpareBlocks(now: Moment) {
        guard records.keptBytes - records.blockBytes > configuration.blockBytesMax / Self.sparePart,
            now.monotonicMilliseconds >= blocksReleasedMilliseconds + Self.releaseIntervalMilliseconds
        else { return }
        blocksReleasedMilliseconds = now.monotonicMilliseconds
        records.releaseFreeBlocks()
    }
}
