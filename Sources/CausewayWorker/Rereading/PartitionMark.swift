/// A mark on each primary of Redis for one partition. It says how much of what the partition's records wrote the primary still has.
///
/// The partition's worker writes it. It is lost, or becomes older, together with everything else on the primary. It is written only after
/// the records' calls were answered, so a replica, a snapshot or an append-only file that has the mark also has what those records wrote.
///
/// As text: the run id, the offset and the reader's number, with `-` for a missing one.
struct PartitionMark: Equatable {
    /// The primary's run id when the mark was written; empty if the primary does not tell it.
    var runIdentifier: String
    /// The primary has everything that the records below this offset wrote; nil: nothing is known.
    var storedBelow: Int64?
    /// The number of the reader that reads the records from that offset again; nil: nothing is missing.
    var reader: UInt64?

    init(runIdentifier: String, storedBelow: Int64?, reader: UInt64? = nil) {
        self.runIdentifier = runIdentifier
        self.storedBelow = storedBelow
        self.reader = reader
    }

    /// Nil if the text is not of this form. Then the mark says nothing.
    init?(_ text: String) {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 3 else { return nil }
        runIdentifier = words[0] == "-" ? "" : String(words[0])
        storedBelow = Int64(words[1])
        reader = UInt64(words[2], radix: 16)
        guard storedBelow != nil || words[1] == "-", reader != nil || words[2] == "-", storedBelow ?? 0 >= 0 else {
            return nil
        }
    }

    /// Whether the mark was written to this run of the server. If the primary does not tell its run id, only an empty primary is noticed.
    func isOf(_ run: String) -> Bool { runIdentifier.isEmpty || run.isEmpty || runIdentifier == run }

    var text: String {
        let run = runIdentifier.isEmpty ? "-" : runIdentifier
        let reader = reader.map { String($0, radix: 16) } ?? "-"
        return "\(run) \(storedBelow.map { String($0) } ?? "-") \(reader)"
    }
}

/// The state of one of this worker's partitions, from the Kafka thread.
struct PartitionStatus: Equatable, Sendable {
    /// Index of the topic in the consumer's list.
    var topic: Int32
    var partition: Int32
    /// The assignment's number.
    var assignment: UInt32
    /// Where reading began in this assignment; nil: not known yet.
    var beganAt: Int64?
    /// Every record below this offset is settled. Never below the end of a rereading.
    var settledBelow: Int64
    /// The last rereading that began, and whether it is complete.
    var rereading: (reader: UInt64, isComplete: Bool)?

    static func == (left: PartitionStatus, right: PartitionStatus) -> Bool {
        left.topic == right.topic && left.partition == right.partition && left.assignment == right.assignment
            && left.beganAt == right.beganAt && left.settledBelow == right.settledBelow
            && left.rereading?.reader == right.rereading?.reader
            && left.rereading?.isComplete == right.rereading?.isComplete
    }
}

/// What must be done about the marks of one partition. This type only decides; ``StoreWatch`` reads and writes. (R24)
enum MarkStep: Equatable {
    /// Nothing is missing, or the missing records are being read.
    case keep
    /// Write to these primaries how far they have the partition's records.
    case note([Int])
    /// Nothing of the partition was ever written to these primaries: write the first marks.
    case introduce([Int])
    /// These primaries miss records from `from` on; nil: all records. `isEmptied`: one of them had no mark.
    case reread([Int], from: Int64?, isEmptied: Bool)
    /// These primaries have everything again.
    case complete([Int])

    /// - Parameters:
    ///   - primaries: for each primary its run id and its mark.
    ///   - isFirstCheck: whether the partition has not been checked since its assignment.
    static func next(
        _ status: PartitionStatus,
        primaries: [(runIdentifier: String, mark: PartitionMark?)],
        isFirstCheck: Bool
    ) -> MarkStep {
        let own = status.rereading?.reader
        let missing = primaries.indices.filter { isMissing(primaries[$0], own) }
        if !missing.isEmpty {
            // A group that is new to the partition begins at its first record, so there is nothing to read again. A loss before these
            // first marks, in the first tenths of a second of a new group, is not noticed.
            if isFirstCheck, status.rereading == nil, status.beganAt == 0,
                missing.allSatisfy({ primaries[$0].mark == nil })
            {
                return .introduce(missing)
            }
            let offsets = missing.map { primaries[$0].mark?.storedBelow }
            let from = offsets.contains(nil) ? nil : offsets.compactMap(\.self).min()
            return .reread(missing, from: from, isEmptied: missing.contains { primaries[$0].mark == nil })
        }
        let reading = primaries.indices.filter { primaries[$0].mark?.reader != nil }
        if !reading.isEmpty { return status.rereading?.isComplete == true ? .complete(reading) : .keep }
        let behind = primaries.indices.filter { primaries[$0].mark?.storedBelow ?? 0 < status.settledBelow }
        return behind.isEmpty ? .keep : .note(behind)
    }

    private static func isMissing(_ primary: (runIdentifier: String, mark: PartitionMark?), _ own: UInt64?) -> Bool {
        guard let mark = primary.mark else { return true }
        return !mark.isOf(primary.runIdentifier) || mark.reader != nil && mark.reader != own
    }
}
