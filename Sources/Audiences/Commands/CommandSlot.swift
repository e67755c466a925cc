import LiveActivity

/// A command of an audience between its handover and its return.
struct CommandSlot: BitwiseCopyable {
    enum Stage: UInt8, BitwiseCopyable {
        /// In its audience's list.
        case waiting
        /// Asks how large the audience is.
        case sizing
        case admitting
        /// Admitted; the audience's channel is being created.
        case awaitingChannel
        /// Its fan-out records are on their way to Kafka.
        case fanningOut
        case settling
        /// Superseded, but its alert is carried by another: it ends with that one.
        case riding
    }

    var record: UInt32
    var audience: UInt32
    var stage = Stage.waiting
    var next: UInt32 = .max
    /// The command whose alert this one carries.
    var rider: UInt32 = .max
    var asksForChannel: Bool
    var event: Event
    var version: Version
    var priority: UInt8
    var policy: UInt8
    var expiration: Int64
    var staleDate: Int64
    /// Of the alert in the body; nil: it is the command's own, or there is none.
    var alertVersion: Version?
    var policyName: HeapBytes
    /// Of a start.
    var activityTemplate: HeapBytes
    var identifier: HeapBytes
    var body: HeapBytes
    var layout: Body.Layout
    /// For members that join, as ``JoinerBody`` has it.
    var joinerBody = HeapBytes.none
    var trace: HeapBytes
    /// As the fan-out topic gets it.
    var value = HeapBytes.none
    var partition: Int32
    var offset: Int64
    var recordMilliseconds: Int64
    var receivedMilliseconds: Int64
    var admittedMilliseconds: Int64 = -1
    var grant: AudienceGrant?
    /// Of the audience, when the command was admitted.
    var channels = AudienceChannels()
    /// Environments whose channel it waits for, a bit each (``DeviceEnvironment/rawValue``).
    var awaitedChannels: UInt8 = 0
    /// Monotonic: it waits no longer than that.
    var channelDueMilliseconds: Int64 = .max
    var hasAwaitedChannel = false
    var channelAbsence: ChannelAbsence?
    /// Calls or productions that are not acknowledged.
    var outstanding: UInt16 = 0
    /// Bytes of members that four segments have.
    var sampledBytes: Double = 0
    var isTooLarge = false
    var isAlertExpired = false

    var hasAlert: Bool { !layout.alert.isAbsent }
    var alert: UnsafeRawBufferPointer { layout.alert.bytes(in: body.bytes) }

    func freeBytes() {
        for bytes in [policyName, activityTemplate, identifier, body, joinerBody, trace, value] { bytes.free() }
    }
}

/// An audience while it has commands here.
struct AudienceSlot: BitwiseCopyable {
    var application: UInt16
    var digest: AudienceDigest
    /// The audience's id; or that of a channel which commands name themselves.
    var identifier: HeapBytes
    /// Of such a channel: it has no members, and its commands are one broadcast each.
    var channelEnvironment: DeviceEnvironment?
    /// The command that is being admitted or fanned out.
    var current: UInt32 = .max
    /// Commands that wait, oldest first.
    var first: UInt32 = .max
    var last: UInt32 = .max
    /// Monotonic; when the store says that the next command may go.
    var restsUntilMilliseconds: Int64 = .min
}

struct AudienceKey: Hashable {
    var application: UInt16
    var digest: AudienceDigest
}
