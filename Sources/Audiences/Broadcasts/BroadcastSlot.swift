import Delivery
import LiveActivity

/// Names a broadcast by the index of its slot in `Audiences.broadcasts`.
typealias BroadcastIndex = SlabIndex<BroadcastSlot>

/// A broadcast: a fan-out record that brings one command to a channel, which is an audience's channel in one
/// environment, or a channel that its producer manages. (R31)
struct BroadcastSlot: LinkedSlot {
    /// *Next* names the phases that may follow; ``enter(_:)`` traps on every other. Usually the slot is freed after
    /// `finished`. It is freed earlier in two cases:
    /// - The broadcast is dropped.
    /// - An earlier broadcast of the same version takes over this one's partition and offset
    ///   (``FanoutRecord/copyPartitionAndOffset(of:)``).
    enum Phase: UInt8, BitwiseCopyable {
        /// The broadcast is the channel's newest state and waits for its turn. Each broadcast begins in this phase.
        /// Next:
        /// - `underWay`
        /// - `riding` if a newer broadcast replaces this one and carries the alert that this one brought
        /// - `finishing` if a newer broadcast replaces this one and carries no alert that this one brought, if the
        ///   channel already had a newer one, or if this broadcast expires
        /// - `finished` if an earlier record of the same command writes the result
        case waiting
        /// The broadcast's push is under way. Next: `finishing` if APNs' response gives the broadcast its outcome;
        /// `waiting` if no stream was free for the push, or if the push must be sent again.
        case underWay
        /// A newer broadcast has replaced this one, and carries the alert that this one brought. Both end together.
        /// Next: `finishing`.
        case riding
        /// The broadcast has its outcome. Kafka is getting its result, and the store is adding the broadcast to the
        /// command's counts (unless the producer manages the channel). Next: `finished`.
        case finishing
        /// The store and Kafka have acknowledged all calls and records of the broadcast, or another record of the same
        /// command writes the result. The broadcast settles after the channel's older broadcasts. Then the slot is
        /// freed.
        case finished

        fileprivate func canChange(to next: Phase) -> Bool {
            switch (self, next) {
            case (.waiting, .underWay), (.waiting, .riding), (.waiting, .finishing), (.waiting, .finished): true
            case (.underWay, .waiting), (.underWay, .finishing): true
            case (.riding, .finishing): true
            case (.finishing, .finished): true
            default: false
            }
        }
    }

    var channel: ChannelIndex
    /// The channel's next broadcast in the order of arrival.
    var nextInList = BroadcastIndex.null
    private(set) var phase = Phase.waiting
    /// The older broadcast whose alert this one carries; `.null`: none. It ends together with this one.
    var rider = BroadcastIndex.null
    var record: FanoutRecord

    var failedAttemptCount: UInt8 = 0
    /// When the broadcast may be sent again after a failed attempt (monotonic milliseconds); `.min`: at once. A newer
    /// broadcast of the channel does not wait for this time.
    var retryDueMilliseconds: Int64 = .min
    var outcome = MemberOutcome.delivered
    /// The HTTP status of APNs' last response; 0: none yet.
    var httpStatus: UInt16 = 0
    var reason = HeapBytes.none
    var advice: StaticString = ""
    var times = ResponseTimes()
    var totals = AudienceTotals()
    /// The number of the broadcast's calls to the store and records to Kafka that are not acknowledged yet.
    var unacknowledgedCount: UInt8 = 0

    var occupiedBytes: Int { MemoryLayout<Self>.size + record.occupiedBytes }

    /// Changes the phase. Traps if the current phase does not lead to `next`.
    mutating func enter(_ next: Phase) {
        precondition(phase.canChange(to: next), "a broadcast cannot enter this phase from the one it is in")
        phase = next
    }

    func freeBytes() {
        record.freeBytes()
        reason.free()
    }
}
