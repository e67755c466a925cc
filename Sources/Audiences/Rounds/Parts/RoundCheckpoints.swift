import LiveActivity

/// The checkpoints of a round (``RoundSlot``): the last owner's, from which the round continues, and those that the
/// round records. The last owner is the worker that had the round's partition before. (R29)
struct RoundCheckpoints: BitwiseCopyable {
    var restored = RestoredCheckpoint.none
    /// A number that grows with every change that a checkpoint contains. It tells whether a change, such as the end of
    /// a version, is recorded yet: an end at revision 12 is recorded once `recordedRevision` is at least 12.
    var revision: UInt64 = 0
    /// The revision up to which all changes are recorded, or need not be recorded any more. There are three reasons why
    /// they need not be recorded:
    /// - Their checkpoint was too long, or the store refused it.
    /// - The round is claimed again. It then continues from a recorded checkpoint.
    /// - The round is drained before it has sent anything since its claim. The last owner's checkpoint must then stay
    ///   in the store.
    var recordedRevision: UInt64 = 0
    /// The revision in the last checkpoint that was composed.
    var composedRevision: UInt64 = 0
    /// The text of the checkpoint that is being recorded.
    var textBeingRecorded = HeapBytes.none
    /// The text of the last recorded checkpoint. If the store has lost its own copy, the round continues from this one.
    var recordedText = HeapBytes.none
    /// The last moment at which the round's claim succeeded, or the round asked the store to record a checkpoint
    /// (monotonic milliseconds). The next checkpoint is due at the next multiple of the interval. `.min`: no claim has
    /// succeeded yet.
    var claimedOrRequestedAtMilliseconds: Int64 = .min

    /// Whether the round has changes that no recorded checkpoint has.
    var hasUnrecordedChanges: Bool { revision != recordedRevision }

    /// Forgets the last owner's checkpoint, and which changes are not recorded yet.
    mutating func prepareNewClaim() {
        restored.free()
        restored = .none
        recordedRevision = revision
        claimedOrRequestedAtMilliseconds = .min
    }

    func freeBytes() {
        restored.free()
        textBeingRecorded.free()
        recordedText.free()
    }
}

/// The contents of the last owner's checkpoint, until the round has used them.
struct RestoredCheckpoint: BitwiseCopyable {
    var text: HeapBytes
    /// The newest version that the last owner had under way; with the timestamp 0: none.
    var newestVersion = Version.zero
    /// The positions of the last owner's parked members, ascending, eight bytes each. The members at the first
    /// `readPositionCount` positions have been read again.
    var parkedPositions: HeapBytes
    var readPositionCount = 0

    static var none: RestoredCheckpoint { RestoredCheckpoint(text: .none, parkedPositions: .none) }

    var parkedPositionCount: Int { parkedPositions.count / 8 }
    /// The next position whose parked members must be read again; nil if there is none.
    var nextParkedPosition: UInt64? {
        readPositionCount < parkedPositionCount
            ? parkedPositions.bytes.load(fromByteOffset: readPositionCount * 8, as: UInt64.self) : nil
    }

    func free() {
        text.free()
        parkedPositions.free()
    }
}
