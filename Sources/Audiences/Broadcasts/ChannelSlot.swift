import Delivery
import LiveActivity

struct ChannelKey: Hashable {
    var appIndex: UInt16
    var digest: AudienceDigest
    var environment: APNsEnvironment
}

/// Names a channel by the index of its slot in `Audiences.channels`.
typealias ChannelIndex = SlabIndex<ChannelSlot>

/// A channel of an audience, or a channel that its producer manages. The slot exists while the core has broadcasts for
/// the channel, and for some time after the last one (``ChannelPace/idleMillisecondsMax``).
struct ChannelSlot: LinkedSlot {
    /// *Next* names the phases that may follow; ``enter(_:)`` traps on every other.
    enum Phase: UInt8, BitwiseCopyable {
        /// The channel sends its broadcasts. When it has been idle for some time, or when a new channel needs the slot,
        /// the slot is freed. Next: `draining`; `abandoned` if the partition is released without being revoked first.
        case running
        /// The channel's partition is being revoked. The core handles the response to the push under way, but sends
        /// nothing more. When the last broadcast has settled or was dropped, the slot is freed. Next: `abandoned`.
        case draining
        /// The channel's partition was released. When the push under way gets its response, its broadcast is dropped
        /// without a result. When the last broadcast has settled or was dropped, the slot is freed.
        case abandoned

        fileprivate func canChange(to next: Phase) -> Bool {
            switch (self, next) {
            case (.running, .draining), (.running, .abandoned): true
            case (.draining, .abandoned): true
            default: false
            }
        }
    }

    var key: ChannelKey
    /// The audience's id, or the channel's id if the commands name the channel.
    var audienceOrChannelIdentifier: HeapBytes
    /// Whether the producer manages the channel itself. The producer's commands then name the channel, and no audience.
    var isManagedByProducer: Bool
    /// The index of the partition of the fan-out topic that the channel belongs to, in the core's table of partitions.
    var partitionIndex: UInt32
    var assignmentEpoch: UInt32
    private(set) var phase = Phase.running
    /// The channel's id at APNs and its storage policy, as the latest fan-out record or response of `ChannelKeeper`
    /// said. For a producer's own channel, the policy comes from APNs' responses instead.
    var apnsChannel: AudienceChannel

    /// The channel's broadcasts in the order of arrival.
    var broadcasts = LinkedList<BroadcastSlot>()
    /// The channel's newest state, which is sent next; `.null`: no state waits.
    var waitingBroadcast = BroadcastIndex.null
    /// The broadcast whose push is under way; `.null`: none.
    var broadcastUnderWay = BroadcastIndex.null
    /// The channel to which the last push went; nil before the first push. If APNs responds that the channel does not
    /// exist, the response is about this channel, not about ``apnsChannel``, which may have changed since.
    var channelOfLastPush: ChannelIdentifier?
    /// The highest timestamp of the channel's broadcasts so far: a command's own, or a raised one (R11). Each newer
    /// broadcast must have a higher timestamp. 0: there was no broadcast.
    var newestTimestamp: Int64 = 0
    /// The highest version of the channel's broadcasts so far; its timestamp is `.min` if there was none. An end sets
    /// the highest version that can exist, so that no later version counts as newer. From then on, a broadcast is sent
    /// only if Redis gave it a timestamp above ``newestTimestamp``.
    var newestVersion = Version(timestamp: .min, sequence: 0)
    /// When Redis admitted the command whose timestamp is `newestTimestamp`, UNIX milliseconds; `.min`: there was no
    /// broadcast. If Redis has later admitted a newer version with a timestamp that is not higher, it has lost data,
    /// and the core raises the timestamp.
    var newestAdmittedAtWallMilliseconds: Int64 = .min

    /// The shortest time between two pushes. It grows and shrinks as ``ChannelPace`` says.
    var spacingMilliseconds = ChannelPace.spacingMillisecondsMin
    /// No push is sent before this time (monotonic milliseconds); `.min`: a push may be sent at once.
    var pausedUntilMilliseconds: Int64 = .min
    /// The value that `pausedUntilMilliseconds` had before the core offered the last push. If no stream was free for
    /// that push, `pausedUntilMilliseconds` gets this value again.
    var pausedUntilBeforePushMilliseconds: Int64 = .min
    /// Until when the pushes wait for a new channel, because APNs does not know the present one (monotonic
    /// milliseconds). `.min`: no new channel is awaited.
    var replacementAwaitedUntilMilliseconds: Int64 = .min
    /// Whether the channel is in the queue of its app and environment. A channel is queued when it has a push that may
    /// be sent now.
    var isQueued = false
    /// The next channel in the queue.
    var nextInList = ChannelIndex.null
    /// When the channel's timer fires (monotonic milliseconds); `.max` if none is set.
    var timerDueMilliseconds: Int64 = .max

    /// Changes the phase. Traps if the current phase does not lead to `next`.
    mutating func enter(_ next: Phase) {
        precondition(phase.canChange(to: next), "a channel cannot enter this phase from the one it is in")
        phase = next
    }

    /// When a broadcast that was not tried yet may be sent (monotonic milliseconds). A broadcast that failed may wait
    /// longer (``BroadcastSlot/retryDueMilliseconds``).
    var nextPushDueMilliseconds: Int64 { max(pausedUntilMilliseconds, replacementAwaitedUntilMilliseconds) }
}
