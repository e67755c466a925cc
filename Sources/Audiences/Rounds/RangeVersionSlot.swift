import Delivery
import LiveActivity

/// Names a range version by the index of its slot in `Audiences.rangeVersions`.
typealias RangeVersionIndex = SlabIndex<RangeVersionSlot>

/// A range version, in short a version: what one command to an audience brings to the members of one range
/// (``SegmentRange``). The slot has the fan-out record that brought the version. (R28)
struct RangeVersionSlot: LinkedSlot {
    /// *Next* names the phases that may follow; ``enter(_:)`` traps on every other. `received` follows only when the
    /// round is claimed again. The slot is freed in one of three cases:
    /// - The version settles.
    /// - The version is dropped with its round.
    /// - Another slot of the same version takes over the partition and offset of its record
    ///   (``FanoutRecord/copyPartitionAndOffset(of:)``).
    enum Phase: UInt8, BitwiseCopyable {
        /// The version waits until the core has claimed its round. Each version begins in this phase. Next: `underWay`;
        /// `finishing` if the version is late (``RangeVersionSlot/isLate``). The version settles at once if the round
        /// has it already, or has settled it or a newer one.
        case received
        /// The version is on its way through its members. Next: `awaitingCheckpoint`; `received`.
        case underWay
        /// All members that the version had to reach have their outcomes. The version waits until a checkpoint with its
        /// counts is recorded, so that a new owner after a crash reports the same counts. Next: `finishing`;
        /// `received`.
        case awaitingCheckpoint
        /// The store is adding the version's counts to those of its command, and Kafka is getting the version's result.
        /// Next: `finished`. A late version settles instead.
        case finishing
        /// The store has acknowledged the version's counts, and Kafka its result. The version settles after the round's
        /// older versions, or at once if a newer version has replaced it. Next: `received`.
        case finished

        fileprivate func canChange(to next: Phase) -> Bool {
            switch (self, next) {
            case (.received, .underWay), (.received, .finishing): true
            case (.underWay, .awaitingCheckpoint), (.underWay, .received): true
            case (.awaitingCheckpoint, .finishing), (.awaitingCheckpoint, .received): true
            case (.finishing, .finished): true
            case (.finished, .received): true
            default: false
            }
        }
    }

    var round: RoundIndex
    /// The next version in the round's list (``RoundVersions``).
    var nextInList = RangeVersionIndex.null
    private(set) var phase = Phase.received
    /// Whether the version is late: its record came after that of a newer version, and the partition's previous owner
    /// did not have the version under way. A late version is sent to no member. Its outcome is `superseded`.
    var isLate = false
    var record: FanoutRecord
    /// Used only for a start: the priority of the start commands that the core produces for the devices.
    var priority: UInt8
    /// Used only for a start: the name of the policy in these start commands; empty if the command names none.
    var policyName: HeapBytes
    /// Only for a start: the template of the activities' ids in these start commands (``ActivityIdentifierTemplate``).
    var activityTemplate: HeapBytes
    /// Only for a start to an audience that has or should have channels: the beginning of the `aps` dictionary that the
    /// start command of each device gets. The core adds the device's ``StartedActivityAddress`` and the closing brace.
    /// This text is the dictionary of the command without `input-push-token`, which is an address itself.
    ///
    /// Empty for any other start, and for one that names a channel itself: each device then gets the dictionary
    /// unchanged.
    var apsWithoutAddress = HeapBytes.none
    /// A second body of this version. It differs from the record's body only in the alert:
    /// - If the version has an alert of its own, the second body has none. It is sent when the alert is too old.
    /// - Otherwise the second body carries the alert of an older version. It is sent to the members from
    ///   `carriedAlertStartPosition` to below `carriedAlertEndPosition`.
    var alternativeBody = HeapBytes.none
    /// Where the carried alert is in `alternativeBody`; `.absent` if no alert is carried.
    var carriedAlertByteRange = ByteRange.absent
    /// The positions of the members that get the carried alert, from the start position to below the end position. Both
    /// are 0 if no alert is carried.
    ///
    /// `carriedAlertEndPosition` is one whole lap above `carriedAlertStartPosition`, which is the start position of the
    /// older version that brought the alert. If the older version was closed before the end of this lap, the members
    /// that it did not reach get its alert with the version of this slot.
    var carriedAlertStartPosition: UInt64 = 0
    var carriedAlertEndPosition: UInt64 = 0

    /// The version's window: the positions of the members that the version must reach, from `startPosition` to below
    /// `endPosition` (``RoundProgress``).
    var startPosition: UInt64 = 0
    var endPosition: UInt64 = 0
    /// How many of the range's members have each outcome of the version.
    var counts = MemberOutcomeCounts()
    /// When APNs first and last responded to a push of the version in this range.
    var times = ResponseTimes()
    /// The counts of the whole command, if this range was the last to finish. Set before the result of the whole
    /// command is queued.
    var totals = AudienceTotals()
    /// The value of ``RoundCheckpoints/revision`` when the version entered the phase `awaitingCheckpoint`. The
    /// version's result is written only after a checkpoint with this revision is recorded. (R29)
    var completionRevision: UInt64 = 0
    /// In the phase `finishing`: how many calls to Redis and records for Kafka are not acknowledged yet. These are the
    /// version's counts, its result, and perhaps the result of the whole command. (R9)
    var unacknowledgedCount: UInt8 = 0

    /// Whether a newer version replaced this one before it had reached all members. Also true if this one is late
    /// (`isLate`), because a newer one reaches every member. The outcome is then `superseded`.
    var isSuperseded = false

    var isCarryingAlert: Bool { carriedAlertEndPosition > 0 }
    /// Whether the push of this version to the member at a position carries the alert of an older version.
    func bringsCarriedAlert(to position: UInt64) -> Bool {
        position >= carriedAlertStartPosition && position < carriedAlertEndPosition
    }
    func windowContains(_ position: UInt64) -> Bool { position >= startPosition && position < endPosition }

    /// Changes the phase. Traps if the current phase does not lead to `next`.
    mutating func enter(_ next: Phase) {
        precondition(phase.canChange(to: next), "a version cannot enter this phase from the one it is in")
        phase = next
    }

    /// Forgets how far the version has come, and the alert that it carries, because its round is claimed again. Frees
    /// `alternativeBody`, whose bytes the caller must no longer count. The checkpoint in the reply to the claim will
    /// say how far the version has come.
    mutating func forgetProgress(ownAlertAgeSecondsMax: Int64) {
        if phase != .received { enter(.received) }
        alternativeBody.free()
        alternativeBody = .none
        carriedAlertByteRange = .absent
        (carriedAlertStartPosition, carriedAlertEndPosition) = (0, 0)
        record.alertVersion = record.instruction.carriedAlertVersion ?? record.version
        record.alertAgeSecondsMax = ownAlertAgeSecondsMax
        (startPosition, endPosition) = (0, 0)
        counts = MemberOutcomeCounts()
        times = ResponseTimes()
        isSuperseded = false
    }

    var occupiedBytes: Int {
        MemoryLayout<Self>.size + record.occupiedBytes + alternativeBody.count + policyName.count
            + activityTemplate.count + apsWithoutAddress.count
    }

    func freeBytes() {
        record.freeBytes()
        for bytes in [policyName, activityTemplate, apsWithoutAddress, alternativeBody] { bytes.free() }
    }
}
