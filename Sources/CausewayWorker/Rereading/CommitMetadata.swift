import Delivery
import Kafka

/// The metadata of a commit. It says which records above the committed offset are settled (`SettledOffsetsText`). A
/// note at its beginning says that the partition perhaps has no marks yet (``PartitionMark``).
///
/// A worker may commit before it has reached Redis for the first time: for example, an invalid record needs no Redis.
/// Without the note, the partition's next owner would find no marks, would take them for lost, and would report that
/// Redis has lost all its data. (R24)
enum CommitMetadata {
    /// The first byte of the metadata if the partition perhaps has no marks yet. No text of `SettledOffsetsText` begins
    /// with this byte.
    private static let unmarkedNote = UInt8(ascii: "-")

    /// Returns the metadata of a commit. Leaves out the note that the partition is unmarked if there is no room for it.
    static func compose(settledOffsetsText: [UInt8], isUnmarked: Bool) -> [UInt8] {
        isUnmarked && settledOffsetsText.count < SettledOffsetsText.bytesMax
            ? [unmarkedNote] + settledOffsetsText : settledOffsetsText
    }

    static func hasUnmarkedNote(_ metadata: [UInt8]) -> Bool { metadata.first == unmarkedNote }

    /// Whether a partition may lack marks at its assignment, for one of three reasons: the group has settled none of
    /// its records yet, the last commit has the note, or the group coordinator has not said what was committed.
    ///
    /// Known issue (K9): in a cluster, commits have no note any more when all primaries that replied have marks. A
    /// primary that was unreachable then has no marks, and later seems to have lost them.
    ///
    /// - Parameters:
    ///   - startPosition: where reading begins; nil if it is unknown, or if librdkafka chooses it, as with
    ///     `auto.offset.reset: latest`.
    ///   - committedOffset: what the group had committed; nil if it had committed nothing, or if this is unknown.
    static func mayLackMarks(startPosition: SeekPosition?, committedOffset: CommittedOffset?) -> Bool {
        switch startPosition {
        // At offset 0, metadata that is not empty and has no note names settled records. A worker commits it only if
        // the marks are written, or if the note had no room.
        case .beginning, .offset(0): committedOffset.map { hasUnmarkedNote($0.metadata) || $0.metadata.isEmpty } ?? true
        case nil where committedOffset == nil: true
        default: committedOffset.map { hasUnmarkedNote($0.metadata) } ?? false
        }
    }

    static func extractSettledOffsetsText(from metadata: [UInt8]) -> [UInt8] {
        hasUnmarkedNote(metadata) ? Array(metadata.dropFirst()) : metadata
    }

    /// Whether a commit names settled records above its offset; false if nothing was committed.
    static func namesSettledRecords(_ committedOffset: CommittedOffset?) -> Bool {
        guard let committedOffset else { return false }
        let settledRanges = extractSettledOffsetsText(from: committedOffset.metadata)
            .withUnsafeBytes { SettledOffsetsText.decode($0, committedOffset: committedOffset.offset) }
        return settledRanges?.isEmpty == false
    }
}
