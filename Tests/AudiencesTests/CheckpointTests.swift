import LiveActivity
import Numbers
import Testbed
import Testing

@testable import Audiences

/// The text of a checkpoint: what is written is read again, it fits the store's limit, and damaged text does no
/// harm. (R29)
@Suite struct CheckpointTests {
    private func decode(_ text: [UInt8]) -> Checkpoint? { text.withUnsafeBytes { Checkpoint($0) } }

    /// A segment has `1 << 32` positions. So the tests write a position as `2 << 32`, for example: the first position
    /// of the third segment.
    private func makeEntry(_ number: Int, start: UInt64, length: UInt64? = nil) -> Checkpoint.Entry {
        var entry = Checkpoint.Entry(
            version: Version(timestamp: RoundHarness.startSeconds + Int64(number), sequence: UInt64(number)),
            startPosition: start,
            positionCount: length
        )
        for outcome in MemberOutcome.allCases { entry.counts[outcome] = UInt32(number * 1_000) }
        entry.times = ResponseTimes(
            firstResponseAtMilliseconds: RoundHarness.startMilliseconds + Int64(number),
            lastResponseAtMilliseconds: RoundHarness.startMilliseconds + 9_000
        )
        return entry
    }

    @Test func `A checkpoint is read as it was written`() throws {
        var checkpoint = Checkpoint(
            completedPosition: 7 << 32,
            newestSettledVersion: Version(timestamp: RoundHarness.startSeconds, sequence: .max)
        )
        #expect(decode(try #require(checkpoint.encode())) == checkpoint)
        checkpoint.entries = [
            makeEntry(1, start: 0), makeEntry(2, start: 5 << 32, length: 17), makeEntry(3, start: 7 << 32, length: 0),
        ]
        checkpoint.parkedPositions = [0, 1, 1, 6 << 32, (7 << 32) - 1]
        #expect(decode(try #require(checkpoint.encode())) == checkpoint)
    }

    /// The round has as many open versions as a round may have, and so many parked members that it sends pushes only to
    /// them. The parked members are spread over the largest range.
    @Test func `The checkpoint of a full round fits`() throws {
        var checkpoint = Checkpoint(
            completedPosition: 3 << 40,
            newestSettledVersion: Version(timestamp: RoundHarness.startSeconds, sequence: 1)
        )
        for number in 0..<Audiences.versionsPerRoundMax {
            checkpoint.entries.append(makeEntry(number, start: (2 << 40) + (UInt64(number) << 32)))
        }
        checkpoint.parkedPositions = (0..<UInt64(AudiencesConfiguration.parkedCountThatHaltsRound))
            .map { (2 << 40) + ($0 << 32) }
        let text = try #require(checkpoint.encode())
        #expect(text.count <= AudienceLimits.checkpointBytesMax)
        #expect(decode(text) == checkpoint)
    }

    @Test func `A checkpoint that does not fit is not written`() {
        var checkpoint = Checkpoint(
            completedPosition: 3 << 40,
            newestSettledVersion: Version.zero
        )
        checkpoint.entries = (0..<200).map { makeEntry($0, start: 0) }
        #expect(checkpoint.encode() == nil)
    }

    /// Bytes from the store may be damaged. They must neither trap nor be read as positions that the round has not
    /// reached.
    @Test func `Hostile text is refused or harmless`() throws {
        var checkpoint = Checkpoint(
            completedPosition: 7 << 32,
            newestSettledVersion: Version(timestamp: RoundHarness.startSeconds, sequence: 3)
        )
        checkpoint.entries = [makeEntry(1, start: 0), makeEntry(2, start: 5 << 32, length: 17)]
        checkpoint.parkedPositions = [1, 6 << 32]
        let text = try #require(checkpoint.encode())
        var random = SplitMix64(simulationSeed: 16)
        var acceptedCount = 0
        for _ in 0..<20_000 {
            var hostile = text
            for _ in 0...random.number(0...3) {
                hostile[random.number(0...hostile.count - 1)] = UInt8(random.number(0...255))
            }
            if random.chance(100) { hostile.removeLast(random.number(0...hostile.count - 1)) }
            guard let checkpoint = decode(hostile) else { continue }
            acceptedCount += 1
            #expect(checkpoint.entries.allSatisfy { $0.startPosition <= checkpoint.completedPosition })
            #expect(
                checkpoint.entries.allSatisfy {
                    $0.startPosition + ($0.positionCount ?? 0) <= checkpoint.completedPosition
                }
            )
            #expect(
                checkpoint.parkedPositions.allSatisfy { $0 < checkpoint.completedPosition }
                    && checkpoint.parkedPositions == checkpoint.parkedPositions.sorted()
            )
            #expect(checkpoint.completedPosition <= 1 << 62)
        }
        #expect(acceptedCount > 0)
        #expect(decode([]) == nil)
        #expect(decode(Array("not a checkpoint".utf8)) == nil)
    }
}
