/// A partition's mark on one Redis primary. It says that the primary still has everything that the partition's records
/// below an offset wrote.
///
/// The partition's worker writes the mark only after Redis has replied to the records' calls. So a replica, a snapshot
/// or an append-only file that has the mark also has what those records wrote. If the primary loses data, the mark is
/// lost too, or has an older offset again.
///
/// The text form is the run id, the offset and the rereading's identifier, separated by spaces; `-` means that a part
/// is missing.
struct PartitionMark: Equatable {
    /// The primary's run id when the mark was written; empty if the primary does not report one.
    var runIdentifier: String
    /// The primary has everything that the records below this offset wrote; nil if this is unknown.
    var storedEndOffset: Int64?
    /// The rereading that brings back what the primary lacks. It begins at `storedEndOffset` or before. Nil: the
    /// primary lacks nothing, and the mark is called complete.
    var rereadingIdentifier: UInt64?

    init(runIdentifier: String, storedEndOffset: Int64?, rereadingIdentifier: UInt64? = nil) {
        self.runIdentifier = runIdentifier
        self.storedEndOffset = storedEndOffset
        self.rereadingIdentifier = rereadingIdentifier
    }

    /// Reads a mark. Returns nil for a text of another form, so that the mark is treated as missing.
    init?(_ text: String) {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 3 else { return nil }
        runIdentifier = words[0] == "-" ? "" : String(words[0])
        storedEndOffset = Int64(words[1])
        rereadingIdentifier = UInt64(words[2], radix: 16)
        guard storedEndOffset != nil || words[1] == "-", rereadingIdentifier != nil || words[2] == "-",
            storedEndOffset ?? 0 >= 0
        else {
            return nil
        }
    }

    /// Whether the mark was written during the primary's current run: a Redis server has a new run id after each start.
    /// True also if one of the run ids is unknown. Then the worker notices a lost mark, but no restart or replacement
    /// of the server.
    func isFromRun(_ currentRunIdentifier: String) -> Bool {
        runIdentifier.isEmpty || currentRunIdentifier.isEmpty || runIdentifier == currentRunIdentifier
    }

    var text: String {
        let run = runIdentifier.isEmpty ? "-" : runIdentifier
        let rereadingIdentifier = rereadingIdentifier.map { String($0, radix: 16) } ?? "-"
        return "\(run) \(storedEndOffset.map { String($0) } ?? "-") \(rereadingIdentifier)"
    }
}

/// What the Kafka thread publishes for ``StoreWatch`` about one of this worker's partitions.
struct PartitionRereadingStatus: Equatable, Sendable {
    /// The index of the topic in the consumer's list.
    var topic: Int32
    var partition: Int32
    /// The number of the assignment, which differs for each assignment of the process.
    var assignmentNumber: UInt32
    /// The offset where reading began in this assignment; nil: not known yet.
    var startOffset: Int64?
    /// All records below this offset are settled. A rereading does not lower this offset: the records that it reads
    /// again were settled before.
    var settledEndOffset: Int64
    /// The last rereading, and whether it is complete; nil: there was none. The Kafka thread publishes one that has
    /// begun. `StoreWatch` replaces it by a later one that it has requested.
    var rereading: (identifier: UInt64, isComplete: Bool)?
    /// Whether the partition may have no marks yet: at its assignment, ``CommitMetadata`` gave a reason for this doubt,
    /// and ``StoreWatch`` has written no marks since.
    var mayBeUnmarked = false
    /// Whether the commit at the assignment named settled records, although reading began at offset 0. Then the group
    /// is not new to the partition: these records are skipped, and Redis may have lost what they wrote.
    var hasSettledRecordsAtStart = false

    static func == (left: PartitionRereadingStatus, right: PartitionRereadingStatus) -> Bool {
        left.topic == right.topic && left.partition == right.partition
            && left.assignmentNumber == right.assignmentNumber
            && left.startOffset == right.startOffset && left.settledEndOffset == right.settledEndOffset
            && left.rereading?.identifier == right.rereading?.identifier
            && left.rereading?.isComplete == right.rereading?.isComplete
            && left.mayBeUnmarked == right.mayBeUnmarked
            && left.hasSettledRecordsAtStart == right.hasSettledRecordsAtStart
    }
}

/// What a worker must do about the marks of one partition. This type only decides; ``StoreWatch`` reads and writes the
/// marks. The arrays in the cases have indices of primaries. (R24)
enum MarkAction: Equatable {
    /// Do nothing: the primaries lack nothing and have the newest marks, or the rereading of the records is under way.
    case nothing
    /// Write newer marks to these primaries, because more of the partition's records are settled.
    case advance([Int])
    /// Write marks with the settled offset to these primaries, because their present marks are above it: the topic was
    /// created again, or the previous owner settled more than it committed.
    case lower([Int])
    /// Write the first marks to these primaries, which have none. Nothing is missing: reading began at offset 0, and
    /// the last commit named no settled record, so the consumer group has probably settled none before.
    case writeFirstMarks([Int])
    /// Read the partition again from offset `from` (nil: from the first record that is recent enough), because these
    /// primaries lack what the partition's records wrote. `isPrimaryEmptied`: at least one of these primaries has lost
    /// its mark, and so probably all its data.
    case reread([Int], from: Int64?, isPrimaryEmptied: Bool)
    /// Write complete marks to these primaries, because the rereading has brought back what they lacked.
    case complete([Int])

    /// Returns what to do about the marks of one partition.
    ///
    /// - Parameters:
    ///   - primaries: for each primary its run id and its mark.
    ///   - isFirstCheck: whether this is the first check since the partition was assigned.
    static func next(
        for status: PartitionRereadingStatus,
        primaries: [(runIdentifier: String, mark: PartitionMark?)],
        isFirstCheck: Bool
    ) -> MarkAction {
        let ownRereadingIdentifier = status.rereading?.identifier
        let primariesLackingRecords = primaries.indices.filter { lacksRecords(primaries[$0], ownRereadingIdentifier) }
        if !primariesLackingRecords.isEmpty {
            // A new consumer group begins at a partition's first record, so there is nothing to read again. If Redis
            // loses data in the group's first tenths of a second, before the first marks are written, no worker notices
            // the loss.
            if isFirstCheck, status.rereading == nil, status.startOffset == 0, !status.hasSettledRecordsAtStart,
                primariesLackingRecords.allSatisfy({ primaries[$0].mark == nil })
            {
                return .writeFirstMarks(primariesLackingRecords)
            }
            // The new rereading replaces the present one. So it must also bring back what the present one has not
            // brought back yet.
            let rereadPrimaries = primaries.indices.filter {
                primariesLackingRecords.contains($0) || primaries[$0].mark?.rereadingIdentifier != nil
            }
            let offsets = rereadPrimaries.map { primaries[$0].mark?.storedEndOffset }
            let firstMissingOffset = offsets.contains(nil) ? nil : offsets.compactMap(\.self).min()
            // Perhaps the previous owner stopped before it wrote the first marks. Missing marks then do not show that a
            // primary was emptied. But Redis may have lost data, so the records are read again anyway.
            let areMarksUnwritten = isFirstCheck && status.mayBeUnmarked && primaries.allSatisfy { $0.mark == nil }
            return .reread(
                rereadPrimaries,
                from: firstMissingOffset,
                isPrimaryEmptied: !areMarksUnwritten && primariesLackingRecords.contains { primaries[$0].mark == nil }
            )
        }
        let primariesWithIncompleteMark = primaries.indices.filter { primaries[$0].mark?.rereadingIdentifier != nil }
        if !primariesWithIncompleteMark.isEmpty {
            return status.rereading?.isComplete == true ? .complete(primariesWithIncompleteMark) : .nothing
        }
        // Lower each mark that is above the settled offset, because it may be wrong: if the topic was deleted and
        // created again, it is about the earlier log. If the previous owner settled more than it committed, the mark is
        // right, but lowering it does no harm: no rereading begins above the settled offset. Each check does this,
        // because Redis may refuse the write.
        let primariesWithHigherMark = primaries.indices.filter {
            primaries[$0].mark?.storedEndOffset ?? 0 > status.settledEndOffset
        }
        if !primariesWithHigherMark.isEmpty { return .lower(primariesWithHigherMark) }
        let outdatedPrimaries = primaries.indices.filter {
            primaries[$0].mark?.storedEndOffset ?? 0 < status.settledEndOffset
        }
        return outdatedPrimaries.isEmpty ? .nothing : .advance(outdatedPrimaries)
    }

    /// Whether the primary may lack what the partition's records wrote: it has no mark, or a mark of another run of the
    /// server, or an incomplete mark of another rereading.
    private static func lacksRecords(
        _ primary: (runIdentifier: String, mark: PartitionMark?),
        _ ownRereadingIdentifier: UInt64?
    )
        -> Bool
    {
        guard let mark = primary.mark else { return true }
        return !mark.isFromRun(primary.runIdentifier)
            || mark.rereadingIdentifier != nil && mark.rereadingIdentifier != ownRereadingIdentifier
    }
}
