import Testing

@testable import CausewayWorker

/// ``MarkAction`` decides what a worker does about one partition, given the partition's marks on all primaries. (R24)
@Suite struct MarkActionTests {
    private func status(
        startOffset: Int64? = 40,
        settledEndOffset: Int64 = 100,
        _ rereading: (identifier: UInt64, isComplete: Bool)? = nil
    ) -> PartitionRereadingStatus {
        PartitionRereadingStatus(
            topic: 0,
            partition: 3,
            assignmentNumber: 7,
            startOffset: startOffset,
            settledEndOffset: settledEndOffset,
            rereading: rereading
        )
    }

    /// - Parameter primaries: the run id and the mark of each primary. The text of a mark has three words: a run id, an
    ///   offset, and the identifier of a rereading in hexadecimal (`1a` is 26). A missing word is `-`.
    private func next(
        _ status: PartitionRereadingStatus,
        _ primaries: (runIdentifier: String, text: String?)...,
        isFirstCheck: Bool = false
    ) -> MarkAction {
        let marks = primaries.map { ($0.runIdentifier, $0.text.flatMap { PartitionMark($0) }) }
        return MarkAction.next(for: status, primaries: marks, isFirstCheck: isFirstCheck)
    }

    @Test func `Nothing is done for an unchanged primary`() {
        #expect(next(status(), ("a", "a 100 -")) == .nothing)
        #expect(next(status(), ("a", "a 100 -"), ("b", "b 100 -")) == .nothing)
        #expect(next(status(), ("a", "a 99 -"), ("b", "b 100 -")) == .advance([0]))
    }

    /// The topic was deleted and created again, or the previous owner had committed less than it had settled.
    @Test func `A mark above the settled offset is lowered`() {
        let statusOfNewLog = status(startOffset: 0, settledEndOffset: 5)
        #expect(next(statusOfNewLog, ("a", "a 501 -"), isFirstCheck: true) == .lower([0]))
        #expect(next(statusOfNewLog, ("a", "a 501 -")) == .lower([0]), "Redis refused the first write")
        #expect(next(status(), ("a", "a 100 -"), ("b", "b 120 -")) == .lower([1]))
        #expect(next(statusOfNewLog, ("a", "a 4 -"), ("b", "b 501 -"), isFirstCheck: true) == .lower([1]))
        #expect(next(statusOfNewLog, ("a", "a 4 -"), ("b", "b 5 -"), isFirstCheck: true) == .advance([0]))
        // A loss comes first. The Kafka thread finds that offset 501 is not in the log (`RereadingStart`).
        #expect(
            next(statusOfNewLog, ("b", "a 501 -"), isFirstCheck: true)
                == .reread([0], from: 501, isPrimaryEmptied: false)
        )
    }

    @Test func `For an empty primary everything is read again`() {
        #expect(next(status(), ("a", nil)) == .reread([0], from: nil, isPrimaryEmptied: true))
        #expect(next(status(), ("a", "a 100 -"), ("b", nil)) == .reread([1], from: nil, isPrimaryEmptied: true))
        #expect(next(status(), ("a", nil), isFirstCheck: true) == .reread([0], from: nil, isPrimaryEmptied: true))
        // A mark that cannot be read counts as missing.
        #expect(next(status(), ("a", "a -1 -")) == .reread([0], from: nil, isPrimaryEmptied: true))
    }

    @Test func `For a new server process the possibly missing records are read again`() {
        #expect(next(status(), ("b", "a 90 -")) == .reread([0], from: 90, isPrimaryEmptied: false))
        #expect(next(status(), ("b", "a 90 -"), ("d", "c 80 -")) == .reread([0, 1], from: 80, isPrimaryEmptied: false))
        #expect(next(status(), ("b", "a 90 -"), ("c", nil)) == .reread([0, 1], from: nil, isPrimaryEmptied: true))
    }

    /// The new rereading replaces the present one. So it must also bring back what the first primary lacks. Otherwise
    /// the first primary's mark would name another rereading than the present one, and each rereading would cause the
    /// next.
    @Test func `A loss of another primary during a rereading begins one rereading for both`() {
        let rereadingStatus = status((26, false))
        #expect(
            next(rereadingStatus, ("a", "a 90 1a"), ("b", nil)) == .reread([0, 1], from: nil, isPrimaryEmptied: true)
        )
        #expect(
            next(rereadingStatus, ("a", "a 90 1a"), ("c", "b 80 -"))
                == .reread([0, 1], from: 80, isPrimaryEmptied: false)
        )
        #expect(
            next(rereadingStatus, ("a", "a 90 1a"), ("b", "b 95 -"), ("d", "c 99 -"))
                == .reread([0, 2], from: 90, isPrimaryEmptied: false)
        )
    }

    /// The Redis user may have no right to read the run id.
    @Test func `A primary without a run id counts as unchanged`() {
        #expect(next(status(), ("", "a 100 -")) == .nothing)
        #expect(next(status(), ("a", "- 100 -")) == .nothing)
        #expect(next(status(), ("", nil)) == .reread([0], from: nil, isPrimaryEmptied: true))
    }

    @Test func `A group that is new to a partition misses no records`() {
        #expect(next(status(startOffset: 0), ("a", nil), isFirstCheck: true) == .writeFirstMarks([0]))
        // The first check wrote a mark. If the mark is missing at a later check, Redis has lost it.
        #expect(next(status(startOffset: 0), ("a", nil)) == .reread([0], from: nil, isPrimaryEmptied: true))
        #expect(
            next(status(startOffset: nil), ("a", nil), isFirstCheck: true)
                == .reread([0], from: nil, isPrimaryEmptied: true)
        )
        // A partition that is already being read again is not new to the group, so a missing mark is a loss.
        let rereadingStatus = status(startOffset: 0, (1, false))
        #expect(
            next(rereadingStatus, ("a", nil), isFirstCheck: true) == .reread([0], from: nil, isPrimaryEmptied: true)
        )
    }

    /// Redis has lost the marks, and the partition has moved before its previous owner noticed this. The previous owner
    /// has committed offset 0, and has settled records above it, which would not be read otherwise.
    @Test func `A group that has settled records above offset 0 is not new to the partition`() {
        var statusWithSettledRecords = status(startOffset: 0, settledEndOffset: 0)
        statusWithSettledRecords.hasSettledRecordsAtStart = true
        #expect(
            next(statusWithSettledRecords, ("a", nil), isFirstCheck: true)
                == .reread([0], from: nil, isPrimaryEmptied: true)
        )
        #expect(next(statusWithSettledRecords, ("a", "a 0 -"), isFirstCheck: true) == .nothing)
    }

    /// The previous owner has committed offset 40, but stopped before it had written marks.
    @Test func `Marks that were never written do not count as lost`() {
        var unmarkedStatus = status()
        unmarkedStatus.mayBeUnmarked = true
        #expect(
            next(unmarkedStatus, ("a", nil), ("b", nil), isFirstCheck: true)
                == .reread([0, 1], from: nil, isPrimaryEmptied: false)
        )
        #expect(next(unmarkedStatus, ("a", "a 100 -"), isFirstCheck: true) == .nothing)
        // Another primary has a mark, or the first check has written one. So the missing mark is lost.
        #expect(
            next(unmarkedStatus, ("a", nil), ("b", "b 100 -"), isFirstCheck: true)
                == .reread([0], from: nil, isPrimaryEmptied: true)
        )
        #expect(next(unmarkedStatus, ("a", nil)) == .reread([0], from: nil, isPrimaryEmptied: true))
    }

    @Test func `A rereading in progress is completed once`() {
        #expect(next(status((26, false)), ("a", "a - 1a")) == .nothing)
        #expect(next(status((26, false)), ("a", "a 90 1a"), ("b", "b 100 -")) == .nothing)
        #expect(next(status((26, true)), ("a", "a - 1a"), ("b", "b 100 -")) == .complete([0]))
    }

    @Test func `A rereading begins again after another loss`() {
        #expect(next(status((26, false)), ("a", nil)) == .reread([0], from: nil, isPrimaryEmptied: true))
        #expect(next(status((26, false)), ("b", "a 90 1a")) == .reread([0], from: 90, isPrimaryEmptied: false))
        #expect(next(status((26, true)), ("b", "a - 1a")) == .reread([0], from: nil, isPrimaryEmptied: false))
    }

    /// The worker that began the rereading has ended or lost the partition, so this worker begins the rereading again.
    @Test func `A rereading that another worker began is begun again`() {
        #expect(next(status(), ("a", "a - 1a"), isFirstCheck: true) == .reread([0], from: nil, isPrimaryEmptied: false))
        #expect(next(status((3, true)), ("a", "a 90 1a")) == .reread([0], from: 90, isPrimaryEmptied: false))
    }

    @Test func `A mark is read as it was written`() {
        for mark in [
            PartitionMark(runIdentifier: "0a1b", storedEndOffset: 0),
            .init(runIdentifier: "", storedEndOffset: nil, rereadingIdentifier: .max),
            .init(runIdentifier: "f", storedEndOffset: .max, rereadingIdentifier: 1),
        ] {
            #expect(PartitionMark(mark.text) == mark)
        }
        for text in ["", "a", "a 1", "a 1 - -", "a x -", "a 1 x", "a -5 -"] { #expect(PartitionMark(text) == nil) }
    }
}
