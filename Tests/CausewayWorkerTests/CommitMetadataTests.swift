import Delivery
import Kafka
import Testing

@testable import CausewayWorker

/// A commit says whether its partition has perhaps no marks yet. (R24)
@Suite struct CommitMetadataTests {
    @Test(arguments: [[], [5..<6, 8..<20]] as [[Range<Int64>]])
    func `The settled offsets are read as they were written, with and without the note`(ranges: [Range<Int64>]) {
        let text = SettledOffsetsText.encode(ranges, above: 3)
        for isUnmarked in [false, true] {
            let metadata = CommitMetadata.compose(settledOffsetsText: text, isUnmarked: isUnmarked)
            #expect(CommitMetadata.hasUnmarkedNote(metadata) == isUnmarked)
            #expect(CommitMetadata.extractSettledOffsetsText(from: metadata) == text)
        }
    }

    @Test func `Metadata that is as long as a broker accepts has no note`() {
        let longText = [UInt8](repeating: UInt8(ascii: "1"), count: SettledOffsetsText.bytesMax)
        #expect(CommitMetadata.compose(settledOffsetsText: longText, isUnmarked: true) == longText)
        let shorterText = Array(longText.dropLast())
        let metadata = CommitMetadata.compose(settledOffsetsText: shorterText, isUnmarked: true)
        #expect(metadata.count == SettledOffsetsText.bytesMax)
        #expect(CommitMetadata.extractSettledOffsetsText(from: metadata) == shorterText)
    }

    @Test(
        arguments: [
            // (where reading begins, the metadata of the last commit, whether the partition may lack marks)
            (.beginning, nil, true), (.offset(0), nil, true), (.offset(7), [], false), (.offset(7), [0x2D], true),
            // The coordinator has not said what was committed.
            (nil, nil, true),
            // `auto.offset.reset: latest`
            (nil, [], false), (nil, [0x2D], true),
            // Nothing is settled; or a record above offset 0 is settled.
            (.offset(0), [], true), (.offset(0), [0x2D, 0x31], true), (.offset(0), [0x31], false),
        ] as [(SeekPosition?, [UInt8]?, Bool)]
    )
    func `A partition may lack marks if it is new, if its last commit says so, or if nothing is known`(
        startPosition: SeekPosition?,
        metadata: [UInt8]?,
        mayLackMarks: Bool
    ) {
        let committedOffset = metadata.map { CommittedOffset(offset: 7, metadata: $0) }
        #expect(
            CommitMetadata.mayLackMarks(startPosition: startPosition, committedOffset: committedOffset) == mayLackMarks
        )
    }

    @Test func `A commit names settled records if its text does, with and without the note`() {
        let text = SettledOffsetsText.encode([5..<6], above: 0)
        for isUnmarked in [false, true] {
            func namesSettledRecords(_ settledOffsetsText: [UInt8], _ offset: Int64) -> Bool {
                let metadata = CommitMetadata.compose(settledOffsetsText: settledOffsetsText, isUnmarked: isUnmarked)
                return CommitMetadata.namesSettledRecords(CommittedOffset(offset: offset, metadata: metadata))
            }
            #expect(namesSettledRecords(text, 0))
            #expect(!namesSettledRecords(text, 1), "the text is for another offset")
            #expect(!namesSettledRecords([], 0))
        }
        #expect(!CommitMetadata.namesSettledRecords(nil))
    }
}
