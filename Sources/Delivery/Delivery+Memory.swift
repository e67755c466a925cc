/// What a core needs of memory, and gives back.
extension Delivery {
    /// For each record that it may hold, beside the record's blocks: its slot, its places in the queues of calls, productions,
    /// deferrals and commands to audiences, its change of audiences, and the two activities that may be known for each record.
    public static var bytesPerRecord: Int {
        Records.slotBytes + 116 + Memberships.bytesPerChange + 2 * Activities.bytesPerActivity
    }

    /// Of `blockBytesMax`: kept blocks that nobody uses are given back when they are more than this part.
    private static var sparePart: Int { 4 }
    /// Giving back looks at every free block.
    private static var releaseIntervalMilliseconds: Int64 { 1_000 }

    /// Blocks that were needed for another size of record, or for a backlog that is over, are given back.
    mutating func releaseSpareBlocks(now: Moment) {
        guard records.keptBytes - records.blockBytes > configuration.blockBytesMax / Self.sparePart,
            now.monotonicMilliseconds >= blocksReleasedMilliseconds + Self.releaseIntervalMilliseconds
        else { return }
        blocksReleasedMilliseconds = now.monotonicMilliseconds
        records.releaseFreeBlocks()
    }
}
