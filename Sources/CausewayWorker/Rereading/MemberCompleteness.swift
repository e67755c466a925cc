/// Decides whether Redis holds the members of all audiences. (R26)
///
/// The members are there when the marks of all partitions of the registrations topic are whole, whichever worker owns the partitions.
/// ``StoreWatch`` reads the marks and tells the lanes.
struct MemberCompleteness {
    /// The longest time that audiences wait for their members. A partition may have no owner for a while, and a reader may be slow.
    static let waitMillisecondsMax: Int64 = 600_000

    /// When a poll first found members missing; nil: the last poll found all of them.
    private(set) var missingSinceMilliseconds: Int64?
    private var isWaitOver = false

    enum Verdict: Equatable {
        case complete
        case missing
        /// Members have been missing for ``waitMillisecondsMax``, and audiences go on without them. `isNew`: this is the first such poll.
        case waitIsOver(isNew: Bool)
    }

    /// - Parameters:
    ///   - primaries: for each primary its run id, and the marks of all partitions of registrations.
    ///   - now: when the poll began. Monotonic milliseconds.
    mutating func evaluate(_ primaries: [(runIdentifier: String, marks: [PartitionMark?])], now: Int64) -> Verdict {
        let areComplete = primaries.allSatisfy { primary in
            primary.marks.allSatisfy { $0?.isWhole(on: primary.runIdentifier) ?? false }
        }
        guard !areComplete else {
            (missingSinceMilliseconds, isWaitOver) = (nil, false)
            return .complete
        }
        let since = missingSinceMilliseconds ?? now
        missingSinceMilliseconds = since
        guard now - since >= Self.waitMillisecondsMax else { return .missing }
        defer { isWaitOver = true }
        return .waitIsOver(isNew: !isWaitOver)
    }
}

extension PartitionMark {
    /// Whether the primary of this run id misses nothing of the partition, and nobody is reading the partition again.
    fileprivate func isWhole(on runIdentifier: String) -> Bool { isOf(runIdentifier) && reader == nil }
}
