import Delivery
import LiveActivity

/// Names a range version by the index of its slot in `Audiences.rangeVersions`.
typealias RangeVersionIndex = SlabIndex<RangeVersionSlot>

/// A range version: one version of an audience in one range, with its fan-out record. (R28)
struct RangeVersionSlot: BitwiseCopyable {
    enum Stage: UInt8, BitwiseCopyable {
        /// The version waits until the core has claimed its round.
        case received
        /// The version is on its way through its members.
        case underWay
        /// All members that the version had to reach have their outcomes. The counts wait for a checkpoint,
        /// so that a new owner after a crash reports the same counts.
        case awaitingCheckpoint
        /// The store is adding the version's counts to its command's counts, and Kafka is getting the
        /// version's result.
        case finishing
        /// The store and Kafka have acknowledged the version's counts and result. The version settles after the
        /// round's older versions, or at once if a newer version has replaced it.
        case finished
    }

    var round: RoundIndex
    /// The next version in the round's list (``RoundVersions``); `.null`: this is the last one.
    var nextVersion = RangeVersionIndex.null
    var stage = Stage.received
    /// Whether the version is late: its record came after that of a newer version, and the last owner did not have the
    /// version under way. A late version is sent to no member. Its outcome is `superseded`.
    var isLate = false
    var record: FanoutRecord
    // For a start: fields of the start commands that the core produces for the devices.
    var priority: UInt8
    var policyName: HeapBytes
    var activityTemplate: HeapBytes
    /// For a start to an audience with channels: Apple's `aps` dictionary without the parts that say how the
    /// activity gets its updates; the core adds these parts for each device. Empty: each device's start gets
    /// the dictionary unchanged.
    var dictionaryWithoutAddress = HeapBytes.none
    /// A second body. If the version has its own alert, the second body has no alert, and is sent when the alert is too
    /// old. Otherwise the second body has the alert of an older version, and is sent to the members from
    /// `carriedAlertFirstPosition` to below `carriedAlertEndPosition`.
    var alternateBody = HeapBytes.none
    /// The bytes of the carried alert in `alternateBody`.
    var carriedAlertRange = ByteRange.absent
    /// Only members at the positions from `carriedAlertFirstPosition` to below `carriedAlertEndPosition` get the
    /// carried alert. These are the positions that the alert's own version would have passed if no newer version had
    /// come. If no alert is carried, both are 0.
    var carriedAlertFirstPosition: UInt64 = 0
    var carriedAlertEndPosition: UInt64 = 0

    /// The version's window: the positions of the members that it must reach, from `startPosition` to below
    /// `endPosition`.
    var startPosition: UInt64 = 0
    var endPosition: UInt64 = 0
    var counts = OutcomeCounts()
    var times = ResponseTimes()
    var totals = AudienceTotals()
    /// The value of ``RoundCheckpoints/revision`` when the version became `awaitingCheckpoint`. The version's result is
    /// not written before a checkpoint with this revision is recorded. (R29)
    var completionRevision: UInt64 = 0
    /// How many calls to Redis and records for Kafka that finish the version are not acknowledged yet. The version is
    /// `finished` when Redis has its counts and Kafka its result. (R9)
    var unacknowledgedCount: UInt8 = 0

    /// Whether a newer version replaced this one before it had reached all members.
    var isSuperseded = false

    var isCarryingAlert: Bool { carriedAlertEndPosition > 0 }
    func carriesAlert(to position: UInt64) -> Bool {
        position >= carriedAlertFirstPosition && position < carriedAlertEndPosition
    }
    func covers(_ position: UInt64) -> Bool { position >= startPosition && position < endPosition }

    /// Forgets how far the version has come, and the alert that it carries, because its round is claimed again. After
    /// the claim, a checkpoint says what the version has reached.
    mutating func forgetProgress(ownAlertSeconds: Int64) {
        stage = .received
        alternateBody.free()
        alternateBody = .none
        carriedAlertRange = .absent
        (carriedAlertFirstPosition, carriedAlertEndPosition) = (0, 0)
        record.alertVersion = record.instruction.alertVersion ?? record.version
        record.alertSeconds = ownAlertSeconds
        (startPosition, endPosition) = (0, 0)
        counts = OutcomeCounts()
        times = ResponseTimes()
        isSuperseded = false
    }

    var occupiedBytes: Int {
        MemoryLayout<Self>.size + record.occupiedBytes + alternateBody.count + policyName.count + activityTemplate.count
            + dictionaryWithoutAddress.count
    }

    func freeBytes() {
        record.freeBytes()
        for bytes in [policyName, activityTemplate, dictionaryWithoutAddress, alternateBody] { bytes.free() }
    }
}
