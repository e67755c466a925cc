import LiveActivity

/// The checkpoints of a round (``RoundSlot``): the previous owner's, from which the round continues, and those that the
/// round records. The previous owner is the worker that had the round's partition before. (R29)
struct RoundCheckpoints: BitwiseCopyable {
    var restored = RestoredCheckpoint.none
    /// Grows with every change that a checkpoint contains. The end of a version at revision 12 is recorded, for
    /// example, when `recordedRevision` is at least 12.
    var revision: UInt64 = 0
    /// The revision up to which all changes are recorded, or need not be recorded any more. A change need not be
    /// recorded for one of three reasons:
    /// - Its checkpoint was too long, or the store refused the checkpoint.
    /// - The round is claimed again. It then continues from a recorded checkpoint.
    /// - The round is drained before it has sent anything since its claim. The checkpoint of the partition's previous
    ///   owner must then stay in the store.
    var recordedRevision: UInt64 = 0
    /// The value of `revision` when the last checkpoint was composed.
    var composedRevision: UInt64 = 0
    var textBeingRecorded = HeapBytes.none
    /// The text of the last recorded checkpoint. The round continues from it if the store has lost the checkpoint.
    var recordedText = HeapBytes.none
    /// When the round's claim last succeeded, or the round last asked the store to record a checkpoint, whichever came
    /// later (monotonic milliseconds). The next checkpoint is due at the next multiple of the interval. `.min`: no
    /// claim has succeeded yet.
    var claimOrCheckpointAtMilliseconds: Int64 = .min

    /// Whether the round has changes that no recorded checkpoint has.
    var hasUnrecordedChanges: Bool { revision != recordedRevision }

    /// Forgets the checkpoint of the partition's previous owner, and which changes are not recorded yet.
    mutating func prepareNewClaim() {
        restored.free()
        restored = .none
        recordedRevision = revision
        claimOrCheckpointAtMilliseconds = .min
    }

    func freeBytes() {
        restored.free()
        textBeingRecorded.free()
        recordedText.free()
    }
}

/// The contents of the checkpoint of the partition's previous owner, until the round has used them.
struct RestoredCheckpoint: BitwiseCopyable {
    var text: HeapBytes
    /// The newest version that the partition's previous owner had under way; its timestamp is 0 if there was none.
    var newestVersion = Version.zero
    /// The positions of the parked members of the partition's previous owner, ascending, eight bytes each. The members
    /// at the first `readPositionCount` positions have been read again.
    var parkedPositions: HeapBytes
    var readPositionCount = 0
    /// For how many of the members at the unread positions the round has reserved places (`readParkedMembersAgain`):
    /// for all of them or for none.
    var reservedMemberCount = 0

    static var none: RestoredCheckpoint { RestoredCheckpoint(text: .none, parkedPositions: .none) }

    var unreadPositionCount: Int { parkedPositions.count / 8 - readPositionCount }
    /// The next position whose parked members must be read again; nil if there is none.
    var nextParkedPosition: UInt64? {
        unreadPositionCount > 0
            ? parkedPositions.bytes.load(fromByteOffset: readPositionCount * 8, as: UInt64.self) : nil
    }

    func free() {
        text.free()
        parkedPositions.free()
    }
}
