import LiveActivity

/// The checkpoints of a round (``RoundSlot``): the previous owner's, from which the round continues, and those that the
/// round records. The previous owner is the worker that had the round's partition before. (R29)
struct RoundCheckpoints: BitwiseCopyable {
    var restored = RestoredCheckpoint.none
    /// Grows with every change that a checkpoint must contain. For example, if a version ends at revision 12, its end
    /// is recorded when `recordedRevision` is at least 12.
    var revision: UInt64 = 0
    /// The revision up to which all changes are recorded, or need not be recorded any more. A change need not be
    /// recorded for one of three reasons:
    /// - The checkpoint with the change was too long, or the store refused it.
    /// - The round is claimed again. It then continues from a checkpoint that was recorded before the change.
    /// - The round is drained before it has sent anything since its claim. The checkpoint of the partition's previous
    ///   owner must then stay in the store.
    var recordedRevision: UInt64 = 0
    /// The value of `revision` when the last checkpoint was composed.
    var composedRevision: UInt64 = 0
    var textBeingRecorded = HeapBytes.none
    /// The text of the last recorded checkpoint. If the store has lost the checkpoint when the range is claimed again,
    /// the round continues from this text.
    var recordedText = HeapBytes.none
    /// When the round's claim last succeeded, or a checkpoint of the round was last queued for the store, whichever
    /// came later (monotonic milliseconds). `.min`: the current claim has not succeeded yet. The next checkpoint is due
    /// at the next multiple of ``AudiencesConfiguration/checkpointIntervalMilliseconds``.
    var claimOrCheckpointAtMilliseconds: Int64 = .min

    /// Whether the round has changes that must still be recorded in a checkpoint.
    var hasUnrecordedChanges: Bool { revision != recordedRevision }

    /// Forgets the checkpoint of the partition's previous owner. Changes that are not recorded yet need not be recorded
    /// any more, because the round will continue from a recorded checkpoint.
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

/// The contents of the checkpoint from which a round continues after its claim, until the round has used them. Usually
/// the partition's previous owner has recorded this checkpoint. After a lost claim, this worker may have recorded it.
struct RestoredCheckpoint: BitwiseCopyable {
    var text: HeapBytes
    /// The newest version that is under way in the checkpoint; its timestamp is 0 if there is none.
    var newestVersion = Version.zero
    /// The positions of the parked members in the checkpoint, ascending, eight bytes each. The members at the first
    /// `readPositionCount` positions have been read again.
    var parkedPositions: HeapBytes
    var readPositionCount = 0
    /// The number of places in the table of parked members that the round has reserved for the members at unread
    /// positions (`readParkedMembersAgain`): one for each of these positions, or 0.
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
