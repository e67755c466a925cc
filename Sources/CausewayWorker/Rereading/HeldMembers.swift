/// Whether Redis holds the members of all audiences: decided from the marks of all partitions of the registrations topic, whichever worker
/// reads them. ``StoreWatch`` asks and tells.
struct HeldMembers {
    /// A partition may have no owner for a while, and a reader may be slow. Audiences do not wait for their members longer than this.
    static let waitMillisecondsMax: Int64 = 600_000

    /// When a look first found members missing; nil: the last look found all of them.
    private(set) var missingSinceMilliseconds: Int64?
    private var isWaitOver = false

    enum Verdict: Equatable {
        case held
        case missing
        /// Members have been missing for ``waitMillisecondsMax``: audiences go on without them. `isNew`: since this look.
        case waitIsOver(isNew: Bool)
    }

    /// - Parameters:
    ///   - primaries: by primary its run id, and the marks of all partitions of registrations.
    ///   - now: when the look began, monotonic.
    mutating func look(_ primaries: [(runIdentifier: String, marks: [PartitionMark?])], now: Int64) -> Verdict {
        let areHeld = primaries.allSatisfy { primary in
            primary.marks.allSatisfy { $0?.isWhole(on: primary.runIdentifier) ?? false }
        }
        guard !areHeld else {
            (missingSinceMilliseconds, isWaitOver) = (nil, false)
            return .held
        }
        let since = missingSinceMilliseconds ?? now
        missingSinceMilliseconds = since
        guard now - since >= Self.waitMillisecondsMax else { return .missing }
        defer { isWaitOver = true }
        return .waitIsOver(isNew: !isWaitOver)
    }
}

extension PartitionMark {
    /// Nothing of the partition is missing on the primary of this run id, and nobody reads the partition once more.
    fileprivate func isWhole(on runIdentifier: String) -> Bool { isOf(runIdentifier) && reader == nil }
}
