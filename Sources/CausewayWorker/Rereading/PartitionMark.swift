/// What stands on each primary of Redis about one partition: how far the primary has what the partition's records have written there.
///
/// The partition's worker writes it, and it is lost, or falls back, with all else that the primary holds. As text: the run id, the offset and
/// the reader's number, `-` for what is not there.
struct PartitionMark: Equatable {
    /// The primary's run id when the mark was written; empty if the primary does not tell it.
    var runIdentifier: String
    /// What the records below this offset have written is there; nil: nothing is known to be.
    var heldBelow: Int64?
    /// Who is reading the records from there on once more; nil: nobody, and nothing is missing.
    var reader: UInt64?

    init(runIdentifier: String, heldBelow: Int64?, reader: UInt64? = nil) {
        self.runIdentifier = runIdentifier
        self.heldBelow = heldBelow
        self.reader = reader
    }

    /// Nil if it is not as written here: then it says nothing.
    init?(_ text: String) {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 3 else { return nil }
        runIdentifier = words[0] == "-" ? "" : String(words[0])
        heldBelow = Int64(words[1])
        reader = UInt64(words[2], radix: 16)
        guard heldBelow != nil || words[1] == "-", reader != nil || words[2] == "-", heldBelow ?? 0 >= 0 else {
            return nil
        }
    }

    /// Whether the process of this run id wrote it. A primary that does not tell its run id can only be seen to be empty.
    func isOf(_ run: String) -> Bool { runIdentifier.isEmpty || run.isEmpty || runIdentifier == run }

    var text: String {
        let run = runIdentifier.isEmpty ? "-" : runIdentifier
        let reader = reader.map { String($0, radix: 16) } ?? "-"
        return "\(run) \(heldBelow.map { String($0) } ?? "-") \(reader)"
    }
}

/// One partition of this worker, as the Kafka thread knows it.
struct PartitionStanding: Equatable, Sendable {
    /// Index of the topic in the consumer's list.
    var topic: Int32
    var partition: Int32
    /// The assignment's number.
    var assignment: UInt32
    /// Where reading began with the assignment; nil: not known yet.
    var beganAt: Int64?
    /// Every record below is settled; never below where a rereading ends.
    var settledBelow: Int64
    /// The rereading that was begun last, and whether it has come to its end.
    var rereading: (reader: UInt64, isComplete: Bool)?

    static func == (left: PartitionStanding, right: PartitionStanding) -> Bool {
        left.topic == right.topic && left.partition == right.partition && left.assignment == right.assignment
            && left.beganAt == right.beganAt && left.settledBelow == right.settledBelow
            && left.rereading?.reader == right.rereading?.reader
            && left.rereading?.isComplete == right.rereading?.isComplete
    }
}

/// What a look at the marks of one partition comes to. Decides only; ``StoreWatch`` asks and writes.
enum MarkStep: Equatable {
    /// Nothing is missing, or what is missing is being read.
    case keep
    /// How far these primaries have the partition's records is to be noted.
    case note([Int])
    /// Nothing of the partition was ever written to these primaries: marks are to be put there.
    case introduce([Int])
    /// These primaries miss records from `from` on; nil: all. `isEmptied`: one of them had no mark.
    case reread([Int], from: Int64?, isEmptied: Bool)
    /// These primaries have everything again.
    case complete([Int])

    /// - Parameters:
    ///   - primaries: by primary its run id and the mark that it has.
    ///   - isFirstLook: the partition has not been looked at since its assignment.
    static func next(
        _ standing: PartitionStanding,
        primaries: [(runIdentifier: String, mark: PartitionMark?)],
        isFirstLook: Bool
    ) -> MarkStep {
        let own = standing.rereading?.reader
        let missing = primaries.indices.filter { isMissing(primaries[$0], own) }
        if !missing.isEmpty {
            // A group that is new to the partition reads it from its first record on: there is nothing to be read once more.
            if isFirstLook, standing.rereading == nil, standing.beganAt == 0,
                missing.allSatisfy({ primaries[$0].mark == nil })
            {
                return .introduce(missing)
            }
            let offsets = missing.map { primaries[$0].mark?.heldBelow }
            let from = offsets.contains(nil) ? nil : offsets.compactMap(\.self).min()
            return .reread(missing, from: from, isEmptied: missing.contains { primaries[$0].mark == nil })
        }
        let reading = primaries.indices.filter { primaries[$0].mark?.reader != nil }
        if !reading.isEmpty { return standing.rereading?.isComplete == true ? .complete(reading) : .keep }
        let behind = primaries.indices.filter { primaries[$0].mark?.heldBelow ?? 0 < standing.settledBelow }
        return behind.isEmpty ? .keep : .note(behind)
    }

    private static func isMissing(_ primary: (runIdentifier: String, mark: PartitionMark?), _ own: UInt64?) -> Bool {
        guard let mark = primary.mark else { return true }
        return !mark.isOf(primary.runIdentifier) || mark.reader != nil && mark.reader != own
    }
}
