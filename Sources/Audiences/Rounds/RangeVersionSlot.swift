import Delivery
import LiveActivity

/// Names a range version by the index of its slot in `Audiences.rangeVersions`.
typealias RangeVersionIndex = SlabIndex<RangeVersionSlot>

/// A range version: one version of an audience in one range, with its fan-out record. (R28)
struct RangeVersionSlot: BitwiseCopyable {
    enum Phase: UInt8, BitwiseCopyable {
        /// The version waits until the core has claimed its round.
        case received
        /// The version is on its way through its members.
        case underWay
        /// All members that the version had to reach have their outcomes. The version waits until a checkpoint with its
        /// counts is recorded. Then a new owner after a crash reports the same counts.
        case awaitingCheckpoint
        /// The store is adding the version's counts to its command's counts, and Kafka is getting the
        /// version's result.
        case finishing
        /// The store has acknowledged the version's counts, and Kafka its result. The version settles after the round's
        /// older versions, or at once if a newer version has replaced it.
        case finished
    }

    var round: RoundIndex
    /// The next version in the round's list (``RoundVersions``); `.null`: this is the last one.
    var nextVersion = RangeVersionIndex.null
    var phase = Phase.received
    /// Whether the version is late: its record came after that of a newer version, and the last owner did not have the
    /// version under way. A late version is sent to no member. Its outcome is `superseded`.
    var isLate = false
    var record: FanoutRecord
    // For a start: fields of the start commands that the core produces for the devices.
    var priority: UInt8
    var policyName: HeapBytes
    var activityTemplate: HeapBytes
    /// Only for a start to an audience with channels: Apple's `aps` dictionary without the fields that say how the
    /// activity gets its updates. The core adds these fields for each device. Empty: every device gets the dictionary
    /// of the command unchanged.
    var dictionaryWithoutAddress = HeapBytes.none
    /// A second body of this version, which differs from the first by its alert:
    /// - If the version has an alert of its own, the second body has none. It is sent when the alert is too old.
    /// - Otherwise the second body carries the alert of an older version. It is sent to the members from
    ///   `carriedAlertFirstPosition` to below `carriedAlertEndPosition`.
    var alternateBody = HeapBytes.none
    /// The bytes of the carried alert in `alternateBody`.
    var carriedAlertRange = ByteRange.absent
    /// The first position with the carried alert, and one above the last. Both are 0 if no alert is carried. Without a
    /// newer version, the alert's own version would have passed these positions.
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
    /// In the phase `finishing`: how many calls to Redis and records for Kafka are not acknowledged yet. These are the
    /// version's counts, its result, and perhaps the result of the whole command. When all are acknowledged, the
    /// version is `finished`; a late version settles at once. (R9)
    var unacknowledgedCount: UInt8 = 0

    /// Whether a newer version replaced this one before it had reached all members.
    var isSuperseded = false

    var isCarryingAlert: Bool { carriedAlertEndPosition > 0 }
    /// Whether the member at a position gets the alert of an older version with this version.
    func bringsCarriedAlert(to position: UInt64) -> Bool {
        position >= carriedAlertFirstPosition && position < carriedAlertEndPosition
    }
    func covers(_ position: UInt64) -> Bool { position >= startPosition && position < endPosition }

    /// Forgets how far the version has come, and the alert that it carries, because its round is claimed again. The
    /// checkpoint that the round gets from the claim then says how far the version has come.
    mutating func forgetProgress(ownAlertSeconds: Int64) {
        phase = .received
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
