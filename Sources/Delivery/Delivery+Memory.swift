/// Limits the memory of this core: says how much a record needs, and returns unused memory to the system.
extension Delivery {
    /// An estimate of the bytes that one more record needs, without the blocks for its texts, token and body. Two
    /// activities are counted for each record, because the lane may have twice as many activities as records
    /// (`activityCountThatStopsReceiving`).
    public static var bytesPerRecord: Int {
        Records.slotBytes + queuePlaceBytesPerRecord + PendingMembershipChanges.bytesPerChange
            + 2 * Activities.bytesPerActivity
    }
    /// The bytes of the counts of reports to the timetable: the same for any limit of records.
    package static var lifetimeReportCountBytes: Int { LifetimeReportCounts.byteCount }
    /// The maximum number of calls to Redis that a record has at a time. `Delivery.init` derives the limits of the
    /// queues of calls from it.
    static var storeCallsPerRecordMax: Int { 4 }

    /// The bytes of the places that one record may need in the core's queues at the same time.
    private static var queuePlaceBytesPerRecord: Int {
        let (callBytes, outgoingRecordBytes, indexBytes) = (8, 8, 4)
        // All calls of the record in each of the two queues of `storeQueue`, and one in `heldBackRegistrations`.
        let callPlaceCount = 2 * storeCallsPerRecordMax + 1
        // One place in each of the four queues of `outgoingRecords`.
        let outgoingRecordPlaceCount = 4
        // One place in `handovers`, in `rereadHandovers` and in the ready pushes of a pool.
        let indexPlaceCount = 3
        return callPlaceCount * callBytes + outgoingRecordPlaceCount * outgoingRecordBytes
            + indexPlaceCount * indexBytes
    }

    /// The bytes that `usedBlockBytesMax` limits: the blocks with the records' texts, tokens and bodies, and the part
    /// of long activity ids that `bytesPerRecord` does not include.
    var usedBlockBytes: Int { records.usedBlockBytes + activities.unusualIdentifierBytes }

    /// Whether the lane has allocated as much memory for blocks as it may. It then receives nothing until enough chunks
    /// (`Arena`) are free and deallocated. Usually the core deallocates free chunks before this limit is reached. But a
    /// chunk is not free while even one of its blocks is in use, and after the size of most records has changed, there
    /// may be many such chunks. (R4)
    var isBlockMemoryFull: Bool { allocatedBlockBytes >= configuration.allocatedBlockBytesMax }
    private var allocatedBlockBytes: Int { records.allocatedBlockBytes + activities.unusualIdentifierChunkBytes }

    /// The core deallocates unused blocks when they have more bytes than `usedBlockBytesMax` divided by this number.
    /// `MemoryBudget` reserves more bytes than this quotient for unused blocks.
    private static var unusedBytesDivisor: Int { 4 }
    /// The shortest interval between two deallocations. They must be rare, because each visits every free block.
    private static var deallocationIntervalMilliseconds: Int64 { 1_000 }

    /// Deallocates each chunk (`Arena`) in which every block is free, if much block memory is unused
    /// (`unusedBytesDivisor`), or if no more may be allocated (`isBlockMemoryFull`). Does this at most once in
    /// `deallocationIntervalMilliseconds`. Free chunks are usual after a backlog, or when the size of most records has
    /// changed.
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
