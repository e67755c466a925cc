import Delivery
import LiveActivity

struct RoundKey: Hashable {
    var appIndex: UInt16
    var digest: AudienceDigest
    var range: SegmentRange
    /// Whether the round is for starts, which go to devices. Updates and ends go to activities, in another
    /// round of the range. So starts do not delay updates, and updates do not delay starts.
    var isForStarts: Bool
}

/// Names a round.
typealias RoundIndex = SlabIndex<RoundSlot>

/// The round of one range of an audience. (R28)
struct RoundSlot: BitwiseCopyable {
    /// Only ``enter(_:)`` changes a round's phase, and traps on a change that is not listed here. Each phase also leads to
    /// `abandoned`. In the comments, *Next* names the other next phases.
    enum Phase: UInt8, BitwiseCopyable {
        /// The core claims the range in the store, which replies with the last owner's checkpoint. Next: `running`;
        /// `awaitingVersions` if the checkpoint has versions; `lost` if the store may lack members; `draining`.
        case claiming
        /// The last owner had versions under way whose records have not arrived yet. The round waits for these
        /// records for a limited time. Next: `restoring` if the last owner had parked members, otherwise `running`;
        /// `draining`.
        case awaitingVersions
        /// The core reads the members again that the last owner had parked. Next: `running`; `lost`; `draining`.
        case restoring
        /// The round sends its versions to the members. Next: `restoring` if a record of the last owner's versions arrives
        /// after the wait for it; `closing`; `lost`; `draining`.
        case running
        /// The round has no version left. A last checkpoint is being recorded. Next: `running` or `restoring` if a
        /// version arrives. When the checkpoint is recorded, the slot is freed.
        case closing
        /// The round's partition is being revoked. After the pushes in flight have their responses, a last checkpoint
        /// is recorded, if the round has changed. Then the slot is freed.
        case draining
        /// The round must be claimed again, for one of three reasons:
        /// - Another worker has claimed it: an earlier owner made a late claim, or this lane does not know yet that its
        ///   partition was revoked.
        /// - The store has lost the round or this lane's claim.
        /// - The store may lack the members of a round that begins.
        ///
        /// The core claims the round after a pause, when the members are back or the longest wait is over, and no push
        /// is in flight. Next: `claiming`.
        case lost
        /// The round's partition was released, or was revoked while the round was lost. Or the round was lost while it
        /// closed or drained. No push is sent, and no outcome is recorded any more. When the pushes in flight have
        /// their responses, the slot is freed.
        case abandoned

        fileprivate func canChange(to next: Phase) -> Bool {
            switch (self, next) {
            case (.abandoned, _): false
            case (_, .abandoned): true
            case (.claiming, .awaitingVersions), (.claiming, .running), (.claiming, .lost), (.claiming, .draining): true
            case (.awaitingVersions, .restoring), (.awaitingVersions, .running), (.awaitingVersions, .draining): true
            case (.restoring, .running), (.restoring, .lost), (.restoring, .draining): true
            case (.running, .restoring), (.running, .closing), (.running, .lost), (.running, .draining): true
            case (.closing, .restoring), (.closing, .running): true
            case (.lost, .claiming): true
            default: false
            }
        }
    }

    var appIndex: UInt16
    var digest: AudienceDigest
    var range: SegmentRange
    /// Whether the members are devices. Each device gets a start of its own as a command.
    var isForStarts: Bool
    var identifier: HeapBytes
    var partition: UInt32
    var assignmentEpoch: UInt32
    private(set) var phase = Phase.claiming
    var claim: UInt64
    /// How often the round was lost since a claim was kept for long. The count ends at 7, because the pause before a
    /// claim then grows no further.
    var lossCount: UInt8 = 0
    /// When the round is, or was, claimed again after its last loss, monotonic milliseconds; `.max`: it was never lost.
    var nextClaimMilliseconds: Int64 = .max
    /// When the core found that the store had lost the round with its members, or may lack its members
    /// (monotonic milliseconds); `.min`: it has not found this.
    var membersLostSinceMilliseconds = Int64.min
    /// How many times the round has waited after the reply to a claim, because the store may lack members. A wait
    /// after the reply to a checkpoint is not counted. When the longest wait is over, this is set to its maximum. See
    /// ``Audiences/mayHaveLostMembers(_:_:)``.
    var memberWaitCount: UInt8 = 0
    /// The number of positions in one lap, which is one pass through the range's members. Positions never fall: a
    /// version that begins in the middle of a lap ends in the middle of the next one. (R28)
    var positionsPerLap: UInt64

    // The ends of the list of the round's versions, oldest first; `.null`: the list is empty. Records that are only
    // received follow in the order of arrival.
    var oldestVersion = VersionIndex.null
    var newestVersion = VersionIndex.null
    /// The number of versions whose record came after the record of a newer version, and that are not freed yet. The
    /// round is kept for them, although they are not in its list of versions.
    var lateVersionCount: UInt16 = 0
    /// The newest version that was settled in this round, here or by an earlier owner; with the timestamp 0: none.
    var newestSettledVersion = Version(timestamp: 0, sequence: 0)
    /// The newest version that the store has admitted (with the timestamp 0: none is known), and since when its record
    /// is missing (`.max`: it is not missing).
    var newestAdmittedVersion = Version(timestamp: 0, sequence: 0)
    var newerVersionMissingSinceMilliseconds: Int64 = .max

    /// The offset of the round's first record of its own partition that was passed over and is not being read again;
    /// `.max`: there is none. The round does not wait for this record, because only the end of older versions makes
    /// room for it.
    var passedOverOffset: Int64 = .max
    /// Whether a record, of any partition, was passed over while the round was being claimed. If so, the round does not
    /// wait for versions of the last owner.
    var hasPassedOverDuringClaim = false

    // Positions of the round.
    /// Every member below the watermark has its outcome or is parked.
    var watermark: UInt64 = 0
    /// One above the position of the last member that had its turn: the shell has got its push, its start is being
    /// produced, or the member needs neither.
    var sendPosition: UInt64 = 0
    /// The position from which the next page is read.
    var readPosition: UInt64 = 0
    /// Since when the round sends nothing although newer versions come (monotonic milliseconds); `.max`: not known.
    /// See ``Audiences/closeOlderVersionsIfPoolsUnavailable(of:now:)``.
    var stalledSinceMilliseconds: Int64 = .max
    /// Since when at least one member of the round waits for its turn: the admission time of the command that began
    /// the wait (UNIX milliseconds). Has a meaning only while a member waits. A metric shows it (``RoundGauges``).
    var unreachedMembersSinceWallMilliseconds: Int64 = 0

    // The ends of the list of pages, which has the order of their positions; `.null`: the list is empty.
    var firstPage = PageIndex.null
    var lastPage = PageIndex.null
    /// The page whose members have their turn now; `.null`: none.
    var sendPage = PageIndex.null
    var pageCount: UInt16 = 0
    /// The bytes of the largest page that the round has read; nil: it has read none yet.
    var largestPageBytes: Int?

    /// The bytes that the round's next page is expected to occupy. Members are spread evenly over segments,
    /// so the pages of one round have similar lengths; those of a small audience differ by a few members.
    var expectedPageBytes: Int {
        guard let largestPageBytes else { return PageSlot.expectedBytesMax }
        return min(PageSlot.expectedBytesMax, largestPageBytes + largestPageBytes / 2 + 1_024)
    }
    var awaitsPage = false

    // How many of the round's members are under way.
    var membersInFlight: UInt32 = 0
    /// The number of refused members whose results are being recorded, plus the number of parked members that
    /// are being read again.
    var membersAwaitingStoreCount: UInt32 = 0
    /// The first in the list of parked members; `.null`: none is parked.
    var firstParkedMember = ParkedMemberIndex.null
    var parkedMemberCount: UInt32 = 0
    /// The lowest position of a parked member; `.max`: none is parked. The round stops one lap above it, because the
    /// member there may be the parked one, and a member must not get two pushes at once. (R28)
    var lowestParkedPosition: UInt64 = .max
    /// By environment: the earliest time at which a parked member is due (monotonic milliseconds); `.max`: none waits
    /// for a time. Until then the list of parked members is not searched.
    var parkedDueMilliseconds: InlineArray<2, Int64> = .init(repeating: .max)

    // The round's places in two queues of its app: of rounds that may have something to send, and of rounds that need
    // a page. The next round is `.null` if this one is the last, or is not in the queue.
    var isQueued = false
    var nextInQueue = RoundIndex.null
    /// Whether the round is put at the front of its app's queue, because its pages were too old when it was the first
    /// there. If it waited at the end, the pages that are read again could again be too old when it is the first.
    var mustQueueFirst = false
    /// The number of pushes that the shell has got from the round since the round was put into the queue.
    var consecutivePushes: UInt16 = 0
    var nextAwaitingPage = RoundIndex.null
    var restoredCheckpoint = RestoredCheckpoint.none

    // Checkpoints.
    /// A number that grows with every change that a checkpoint records. So the round knows whether a change, such as
    /// the end of a version, is recorded.
    var revision: UInt64 = 0
    /// The revision up to which nothing more must be recorded. Set by each reply to a checkpoint, also if the store has
    /// refused the checkpoint; by a checkpoint that is too long for the store; also when the round is drained before it
    /// has sent anything since its claim, or is claimed again.
    var recordedRevision: UInt64 = 0
    /// The revision in the last checkpoint that was composed.
    var sentRevision: UInt64 = 0
    /// The checkpoint that is being recorded, and the last recorded one. If the store has lost its own copy,
    /// the round continues from the last recorded one.
    var sentCheckpointText = HeapBytes.none
    var recordedCheckpointText = HeapBytes.none
    /// When the round last asked the store to record a checkpoint, or its claim succeeded (monotonic milliseconds);
    /// `.min`: no claim has succeeded yet.
    var checkpointRequestedAtMilliseconds: Int64 = .min
    /// Whether a claim or a checkpoint of the round has no reply yet. Until the reply the round sends no other
    /// checkpoint, and is not freed.
    var isCallOutstanding = false
    /// When the round's timer fires (monotonic milliseconds); `.max` if none is set. An entry of the ``TimerQueue``
    /// with another time is stale.
    var timerDueMilliseconds: Int64 = .max

    /// The key under which the store keeps the round's claim and checkpoint. A range may have a round of starts and a
    /// round of updates at the same time, so each has its own key. The number is `STARTS!!` in ASCII.
    var progressDigest: AudienceDigest {
        isForStarts ? AudienceDigest(value: digest.value ^ 0x5354_4152_5453_2121) : digest
    }

    func freeBytes() {
        identifier.free()
        restoredCheckpoint.free()
        sentCheckpointText.free()
        recordedCheckpointText.free()
    }

    /// Traps if the present phase does not lead to `next`.
    mutating func enter(_ next: Phase) {
        precondition(phase.canChange(to: next), "a round cannot enter this phase from the one it is in")
        phase = next
    }

    /// Makes the round send, or first read the members again that the last owner had parked.
    mutating func enterRunningOrRestoring() {
        let next = restoredCheckpoint.nextParkedPosition == nil ? Phase.running : .restoring
        if phase != next { enter(next) }
    }

    /// Prepares a round to be claimed again. The round keeps its versions, and none of its pushes is in
    /// flight.
    mutating func beginAgain(claim: UInt64) {
        restoredCheckpoint.free()
        restoredCheckpoint = .none
        self.claim = claim
        enter(.claiming)
        membersLostSinceMilliseconds = .min
        (watermark, sendPosition, readPosition) = (0, 0, 0)
        newestSettledVersion = Version(timestamp: 0, sequence: 0)
        newestAdmittedVersion = newestSettledVersion
        newerVersionMissingSinceMilliseconds = .max
        recordedRevision = revision
        checkpointRequestedAtMilliseconds = .min
        isCallOutstanding = true
    }
}

/// The contents of the last owner's checkpoint, until the round has used them.
struct RestoredCheckpoint: BitwiseCopyable {
    var text: HeapBytes
    /// The newest version that the last owner had under way; with the timestamp 0: none.
    var newestVersion = Version(timestamp: 0, sequence: 0)
    /// The positions of the last owner's parked members, ascending. The members at the first `rereadPositionCount` of
    /// them have been read again.
    var parkedPositions: HeapBytes
    var rereadPositionCount = 0

    static var none: RestoredCheckpoint { RestoredCheckpoint(text: .none, parkedPositions: .none) }

    var parkedPositionCount: Int { parkedPositions.count / 8 }
    /// The next position whose parked members must be read again; nil if there is none.
    var nextParkedPosition: UInt64? {
        rereadPositionCount < parkedPositionCount
            ? parkedPositions.bytes.load(fromByteOffset: rereadPositionCount * 8, as: UInt64.self) : nil
    }

    func free() {
        text.free()
        parkedPositions.free()
    }
}
