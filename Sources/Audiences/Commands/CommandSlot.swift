import Delivery
import LiveActivity

/// Names a command by the index of its slot in `Audiences.commands`.
typealias CommandIndex = SlabIndex<CommandSlot>

/// A command to an audience or a channel, from ``Audiences/receiveCommand(_:)`` until it is returned to `Delivery`.
struct CommandSlot: LinkedSlot {
    /// *Next* names the phases that may follow; ``enter(_:)`` traps on every other. When the command has its
    /// ``HandoverResult``, the slot is freed: in the phase `waiting`, `admitting`, `settling` or `riding`.
    enum Phase: UInt8, BitwiseCopyable {
        /// The command waits in its audience's list, or is about to be added to the list. Each command begins in this
        /// phase. Next: `sizing`; `admitting` if the command names a channel, which has no size; `riding` if a newer
        /// command replaces this one and carries the alert that this one brought.
        case waiting
        /// The store is reading pages of four segments, so that the core can estimate the size of the audience. Next:
        /// `admitting`.
        case sizing
        /// The store decides about the command. Next: `fanningOut`; `awaitingChannel` if the audience lacks a channel;
        /// `waiting` if the store replied `wait`.
        case admitting
        /// The command is admitted. It waits until the keeper has created or restored the audience's channel, or says
        /// that there is none. It waits at most ``Audiences/usualChannelWaitMilliseconds``; a start, or a command whose
        /// channel Redis may have lost, may wait longer. Next: `admitting`; `waiting` if the command's partition is
        /// being revoked.
        case awaitingChannel
        /// The command's fan-out records are on their way to Kafka. Next: `settling`.
        case fanningOut
        /// Kafka has all fan-out records. The store settles the command's version.
        case settling
        /// A newer command has replaced this one, and carries the alert that this one brought. This command ends with
        /// the newer one, or when the alert is too old. Next: `waiting` if only the newer one is dropped.
        case riding

        fileprivate func canChange(to next: Phase) -> Bool {
            switch (self, next) {
            case (.waiting, .sizing), (.waiting, .admitting), (.waiting, .riding): true
            case (.sizing, .admitting): true
            case (.admitting, .fanningOut), (.admitting, .awaitingChannel), (.admitting, .waiting): true
            case (.awaitingChannel, .admitting), (.awaitingChannel, .waiting): true
            case (.fanningOut, .settling): true
            case (.riding, .waiting): true
            default: false
            }
        }
    }

    var record: RecordIndex
    var audience: AudienceIndex
    private(set) var phase = Phase.waiting
    /// The next waiting command of the audience.
    var nextInList = CommandIndex.null
    /// The older command whose alert this one carries; `.null`: none. It ends together with this one, or when the alert
    /// is too old.
    var rider = CommandIndex.null
    /// Whether a broadcast channel is requested for the audience, by this command or by one that it superseded.
    var requestsChannel: Bool
    var event: Event
    /// The command's place in the order of the audience's commands: a newer command has a higher version.
    var version: Version
    var priority: UInt8
    var policyIndex: UInt8
    /// The command's own expiration, UNIX seconds; -1: it has none.
    var ownExpirationSeconds: Int64
    /// `aps.stale-date`, UNIX seconds; -1: there is none.
    var staleDateSeconds: Int64
    /// The version of the older command whose alert the body carries. The age of the alert counts from this version's
    /// timestamp. Nil if the alert is the command's own, or if there is none.
    var carriedAlertVersion: Version?
    var policyName: HeapBytes
    /// For a start: the template for the ids of its activities.
    var activityTemplate: HeapBytes
    var identifier: HeapBytes
    var body: HeapBytes
    var bodyLayout: PushBody.Layout
    /// The body for members that join later, in the form in which the store keeps it (``JoinerBody``).
    var storedJoinerBody = HeapBytes.none
    var trace: HeapBytes
    /// The names of the fields that were dropped because the body was too large.
    var droppedFields: HeapBytes
    /// The command as it is written to the fan-out topic, composed once for all its fan-out records.
    var fanoutValue = HeapBytes.none
    var partition: Int32
    var offset: Int64
    /// Kafka's timestamp of the record, UNIX milliseconds; -1, as in Kafka: none.
    var recordTimestampMilliseconds: Int64
    /// When the worker received the record, UNIX milliseconds.
    var receivedAtWallMilliseconds: Int64
    /// When the store last replied to the command's admission, UNIX milliseconds; nil: it has not replied. Also set if
    /// the store did not admit the command: the result then says when the store decided.
    @CompactOptional var admittedAtWallMilliseconds: Int64?
    var grant: AudienceGrant?
    /// The audience's channels when the command was admitted, or the channel that the command names instead of an
    /// audience.
    var channels = AudienceChannels()
    /// The environments whose channel the command waits for: bit `n` stands for the environment with the raw value `n`.
    /// A Swift `Set` cannot be used here, because it is not `BitwiseCopyable`.
    var awaitedEnvironmentBits: UInt8 = 0
    /// When the core next decides whether the command's wait for a channel ends
    /// (``Audiences/handleChannelWaitTimeout(_:now:)``; monotonic milliseconds). `.max`: no wait has begun. The value
    /// stays after the wait.
    var channelWaitEndMilliseconds: Int64 = .max
    /// When the command began to wait for a channel (monotonic milliseconds). `.max`: no wait has begun. The value
    /// stays after the wait.
    var channelWaitBeganAtMilliseconds: Int64 = .max
    /// Whether the command waits for a channel or has waited for one. A command waits at most once.
    var hasAwaitedChannel = false
    /// The environments whose channel Redis may have lost, so that the keeper must restore it first; bits as in
    /// `awaitedEnvironmentBits`.
    var possiblyLostEnvironmentBits: UInt8 = 0
    /// For each environment: when the keeper last found that the complete registry has no channel of the audience,
    /// after Redis may have lost the channel (monotonic milliseconds); `.min`: it has not found this.
    var channelFoundMissingAtMilliseconds: ByEnvironment<Int64> = .init(repeating: .min)
    var channelAbsence: ChannelAbsence?
    /// In the phase `sizing`: the number of sample pages that have not come yet. In `fanningOut`: the number of fan-out
    /// records that Kafka has not acknowledged, including those that are not queued yet; at most 258, for 256 ranges
    /// and two broadcasts. `Audiences+Admission` counts both.
    var unacknowledgedCount: UInt16 = 0
    /// How many of the command's `fanoutRecordCount` fan-out records have been queued for Kafka so far.
    var queuedFanoutRecordCount: UInt16 = 0
    var fanoutRecordCount: UInt16 = 0
    /// The command's part of ``Audiences/commandBytes``.
    var countedBytes = 0
    /// The estimated bytes of all members in the four sampled segments.
    var estimatedSampleBytes: Double = 0
    var isFanoutRecordTooLarge = false
    /// Whether the command's alert was removed, because it was too old.
    var wasAlertRemovedByAge = false

    var isAwaitedChannelPossiblyLost: Bool { awaitedEnvironmentBits & possiblyLostEnvironmentBits != 0 }

    var hasAlert: Bool { !bodyLayout.alert.isAbsent }
    var alert: UnsafeRawBufferPointer { bodyLayout.alert.bytes(in: body.bytes) }

    /// Changes the phase. Traps if the current phase does not lead to `next`.
    mutating func enter(_ next: Phase) {
        precondition(phase.canChange(to: next), "a command cannot enter this phase from the one it is in")
        phase = next
    }

    /// The bytes that the command may need on the heap: its texts, and its body three times, because
    /// ``storedJoinerBody`` and ``fanoutValue`` contain the body too. This is enough even if the body gets a carried
    /// alert later: the rider, which brought the alert, counts three bodies, and has only one.
    var bytesNeeded: Int {
        let textByteCount =
            policyName.count + activityTemplate.count + identifier.count + trace.count + droppedFields.count
        return textByteCount + 3 * body.count + Self.additionalBytes
    }
    /// Room in ``fanoutValue`` for the app, the audience and the field names, and room for what the allocator adds to
    /// each block.
    private static let additionalBytes = 512

    func freeBytes() {
        for bytes in [
            policyName, activityTemplate, identifier, body, storedJoinerBody, trace, droppedFields, fanoutValue,
        ] {
            bytes.free()
        }
    }
}

/// Names an audience that has commands, by the index of its slot in `Audiences.audiences`.
typealias AudienceIndex = SlabIndex<AudienceSlot>

/// An audience, or a channel that commands name instead of an audience, as long as the core has commands to it.
struct AudienceSlot: BitwiseCopyable {
    var appIndex: UInt16
    var digest: AudienceDigest
    /// The audience's id; for commands that name a channel instead of an audience, the channel's id.
    var identifier: HeapBytes
    /// The environment of a channel that commands name instead of an audience; nil for an audience. Such a channel has
    /// no members, and each command to it is one broadcast.
    var channelEnvironment: APNsEnvironment?
    /// The command that is being admitted or fanned out; `.null`: none.
    var currentCommand = CommandIndex.null
    /// The waiting commands in the order in which they will be admitted.
    var waitingCommands = LinkedList<CommandSlot>()
    /// Until when the audience begins no command, because the store replied `wait` (monotonic milliseconds). `.min`: no
    /// such reply has come.
    var pausedUntilMilliseconds: Int64 = .min
    /// Whether the audience is in ``Audiences/audiencesAwaitingBatchEnd``, so that it is not added twice.
    var isAwaitingBatchEnd = false
}

struct AudienceKey: Hashable {
    var appIndex: UInt16
    var digest: AudienceDigest
}
