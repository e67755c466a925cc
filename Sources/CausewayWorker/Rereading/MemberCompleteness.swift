import Audiences

/// Decides whether Redis has the members of all audiences, or has lost some. (R26)
///
/// Redis has all members if the marks of all partitions of the registrations topic show no loss, whichever workers own
/// the partitions. ``StoreWatch`` reads the marks, and tells the lanes the result.
///
/// Two things stay lost even when all members are back: how far an audience's timestamp was raised (R11), and the
/// member counts of ended ranges, if other ranges of their command have not ended.
struct MemberCompleteness {
    /// The longest time that audiences wait for their members. Without this limit the wait could be very long: a
    /// partition of the registrations topic may have no owner for a while, or its rereading may be slow.
    static let waitMillisecondsMax = Audiences.memberWaitMillisecondsMax

    /// When a poll of ``StoreWatch`` first found members missing. Nil: no members are known to be missing.
    private(set) var missingSinceMilliseconds: Int64?
    private var isWaitOver = false

    enum Status: Equatable {
        case complete
        case missing
        /// Members have been missing for ``waitMillisecondsMax``, so audiences continue without them. `isFirstReport`:
        /// this poll is the first that finds the wait over.
        case waitIsOver(isFirstReport: Bool)
    }

    /// Notes what one poll found, and returns whether members are missing.
    ///
    /// - Parameters:
    ///   - primaries: for each primary that replied, its run id and the marks of all partitions of the registrations
    ///     topic.
    ///   - nowMilliseconds: when the poll began. Monotonic milliseconds.
    mutating func updateStatus(_ primaries: [(runIdentifier: String, marks: [PartitionMark?])], nowMilliseconds: Int64)
        -> Status
    {
        let areComplete = primaries.allSatisfy { primary in
            primary.marks.allSatisfy { $0?.isComplete(on: primary.runIdentifier) ?? false }
        }
        guard !areComplete else {
            (missingSinceMilliseconds, isWaitOver) = (nil, false)
            return .complete
        }
        let sinceMilliseconds = missingSinceMilliseconds ?? nowMilliseconds
        missingSinceMilliseconds = sinceMilliseconds
        guard nowMilliseconds - sinceMilliseconds >= Self.waitMillisecondsMax else { return .missing }
        defer { isWaitOver = true }
        return .waitIsOver(isFirstReport: !isWaitOver)
    }
}

extension PartitionMark {
    /// Whether the mark is complete: the primary with this run id has everything that the partition's records wrote,
    /// and no worker is reading the partition again.
    fileprivate func isComplete(on runIdentifier: String) -> Bool {
        isFromRun(runIdentifier) && rereadingIdentifier == nil
    }
}
