import Delivery
import LiveActivity

/// What identifies a round (``RoundSlot``): its app, its audience's digest, its range, and whether it sends starts.
struct RoundKey: Hashable, BitwiseCopyable {
    var appIndex: UInt16
    var digest: AudienceDigest
    var range: SegmentRange
    /// Whether the round sends starts to devices. Updates and ends go to activities, in another round of the range, so
    /// that neither round delays the other.
    var isForStarts: Bool
}

/// Names a round by the index of its slot in `Audiences.rounds`.
typealias RoundIndex = SlabIndex<RoundSlot>

/// A round: the work on one range of an audience (``SegmentRange``). It takes each version (``RangeVersionSlot``) to
/// the range's members, as ``RoundProgress`` shows. (R28)
struct RoundSlot: LinkedSlot {
    /// What a round does or waits for. The *previous owner* is the worker that had the round's partition before. *The
    /// checkpoint* is the one in the store's reply to the claim or, without one, the last that the round recorded.
    ///
    ///     claiming ─► running                           claim granted; no version is under way in the checkpoint
    ///     claiming ─► awaitingVersions                  claim granted; the checkpoint has versions under way
    ///     claiming ─► awaitingClaim                     the store may lack members
    ///     awaitingVersions ─► running                   wait over; the checkpoint has no parked members
    ///     awaitingVersions ─► restoring                 wait over; the checkpoint has parked members
    ///     restoring ─► running                          the parked members are read again
    ///     running ─► ending                             no version is left
    ///     ending ─► running                             a version arrives
    ///     restoring, running ─► awaitingClaim           the claim or the round is lost
    ///     awaitingClaim ─► claiming                     the round is claimed again
    ///     claiming, awaitingVersions, restoring, running ─► draining    the partition is being revoked
    ///     awaitingClaim ─► abandoned                    the partition is being revoked
    ///     ending, draining ─► abandoned                 the claim or the round is lost
    ///     every phase except abandoned ─► abandoned     the partition is released
    ///     awaitingVersions ─► slot freed                all versions that have arrived are settled
    ///     ending, draining ─► slot freed                the last checkpoint is recorded, or none is needed
    ///     abandoned ─► slot freed                       nothing of the round is in flight or unacknowledged
    ///
    /// ``enter(_:)`` traps on any other change.
    enum Phase: UInt8, BitwiseCopyable {
        /// The core claims the range in the store, which replies with the checkpoint of the partition's previous owner,
        /// if there is one.
        case claiming
        /// The partition's previous owner had versions under way, and their records have not arrived yet. The round
        /// waits for these records for a limited time.
        case awaitingVersions
        /// The partition's previous owner had parked members. The core reads these members from the store again, and
        /// parks them.
        case restoring
        /// The round sends its versions to the members.
        case running
        /// The round has no version left. A last checkpoint is being recorded.
        case ending
        /// The round's partition is being revoked. After the pushes in flight have their responses, a last checkpoint
        /// is recorded, if the round has changed.
        case draining
        /// The round must be claimed again, for one of three reasons:
        /// - Another worker has claimed it: a previous owner made a late claim, or this lane does not know yet that its
        ///   partition was revoked.
        /// - The store has lost the round or this lane's claim.
        /// - The round begins, and the store may lack its members.
        ///
        /// The core claims the round again when three conditions hold: the pause is over, no push, call or result of
        /// the old claim is under way, and the missing members are back (or the wait for them has reached its limit).
        case awaitingClaim
        /// Another worker may own the range, so no push is sent and no outcome is recorded any more.
        case abandoned

        fileprivate func canChange(to next: Phase) -> Bool {
            switch (self, next) {
            case (.abandoned, _): false
            case (_, .abandoned): true
            case (.claiming, .awaitingVersions), (.claiming, .running), (.claiming, .awaitingClaim): true
            case (.claiming, .draining): true
            case (.awaitingVersions, .restoring), (.awaitingVersions, .running), (.awaitingVersions, .draining): true
            case (.restoring, .running), (.restoring, .awaitingClaim), (.restoring, .draining): true
            case (.running, .ending), (.running, .awaitingClaim), (.running, .draining): true
            case (.ending, .running): true
            case (.awaitingClaim, .claiming): true
            default: false
            }
        }
    }

    let key: RoundKey
    var audienceIdentifier: HeapBytes
    /// The index of the partition of the fan-out topic that the round belongs to, in the core's table of partitions.
    var partitionIndex: UInt32
    /// The epoch of this assignment of the partition.
    var assignmentEpoch: UInt32
    private(set) var phase = Phase.claiming
    var claim: RoundClaim
    var versions = RoundVersions()
    var progress: RoundProgress
    var pages = RoundPages()
    var members = RoundMembers()
    var queuePlaces = RoundQueuePlaces()
    /// The next round in the page queue of the app (``AppWork``).
    var nextInList = RoundIndex.null
    var checkpoints = RoundCheckpoints()
    /// Whether a claim or a checkpoint of the round has no reply yet. Until the reply comes, the round sends no other
    /// checkpoint, and is not freed.
    var isClaimOrCheckpointOutstanding = false
    /// When the round's timer fires (monotonic milliseconds); `.max` if none is set. A timer in the ``TimerQueue`` with
    /// another time is obsolete.
    var timerDueMilliseconds: Int64 = .max

    var appIndex: UInt16 { key.appIndex }
    var digest: AudienceDigest { key.digest }
    var range: SegmentRange { key.range }
    /// Whether the members are devices. For each device, the core writes a command that starts an activity.
    var isForStarts: Bool { key.isForStarts }

    /// The digest under which the store keeps the round's claim and checkpoint. A round of starts has a digest of its
    /// own, because the range may have a round of updates at the same time: the audience's digest, changed by a fixed
    /// number (`STARTS!!` in ASCII).
    var storeKeyDigest: AudienceDigest {
        isForStarts ? AudienceDigest(value: digest.value ^ 0x5354_4152_5453_2121) : digest
    }

    func freeBytes() {
        audienceIdentifier.free()
        checkpoints.freeBytes()
    }

    /// Changes the phase. Traps if the current phase does not lead to `next`, or if the round would send before the
    /// parked members of the partition's previous owner are read again.
    mutating func enter(_ next: Phase) {
        precondition(phase.canChange(to: next), "a round cannot enter this phase from the one it is in")
        precondition(
            next != .running || checkpoints.restored.nextParkedPosition == nil,
            "a round cannot send before the previous owner's parked members are read again"
        )
        phase = next
    }

    /// Ends the phase `awaitingVersions`: the round sends, or first reads again the members that the previous owner of
    /// the partition had parked.
    mutating func endWaitForVersions() {
        enter(checkpoints.restored.nextParkedPosition == nil ? .running : .restoring)
    }

    /// Prepares a round for a new claim, which the caller must queue at once: the call already counts as outstanding.
    /// Keeps the versions; forgets the positions, the newest settled and newest admitted version, and the checkpoint of
    /// the partition's previous owner. Call it only while none of the round's pushes is in flight.
    mutating func prepareNewClaim(number: UInt64) {
        enter(.claiming)
        claim.beginNewClaim(number: number)
        versions.forgetNewestVersions()
        progress.moveAllPositions(to: 0)
        checkpoints.prepareNewClaim()
        isClaimOrCheckpointOutstanding = true
    }
}
