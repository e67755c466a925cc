public import Delivery
public import LiveActivity

/// A command to an audience or a channel. `Delivery` keeps the command's record until this core returns the command.
/// The bytes are valid only during ``Audiences/receiveCommand(_:)``.
public struct IncomingCommand {
    /// The command's record in `Delivery`. ``ReturnedCommand`` names it again.
    public var record: RecordIndex
    public var appIndex: UInt16
    /// The audience's id. If `channelEnvironment` is set: the id of the channel that the command names instead of an
    /// audience.
    public var audience: UnsafeRawBufferPointer
    public var channelEnvironment: APNsEnvironment?
    /// Whether the command itself requests a broadcast channel for its audience.
    public var requestsChannel: Bool
    public var event: Event
    /// For a start: the ``ActivityIdentifierTemplate`` for the ids of the activities that it begins. Empty for another
    /// event.
    public var activityTemplate: UnsafeRawBufferPointer
    public var version: Version
    /// The priority for APNs: 5 or 10.
    public var priority: UInt8
    /// The index of the command's policy, and the policy's name; the name is empty if the command gives none.
    public var policyIndex: UInt8
    public var policyName: UnsafeRawBufferPointer
    /// The command's own expiration, UNIX seconds; -1 for none.
    public var ownExpirationSeconds: Int64
    /// The `stale-date`, UNIX seconds; -1 for none.
    public var staleDateSeconds: Int64
    /// The command's id, which its results name.
    public var identifier: UnsafeRawBufferPointer
    public var body: UnsafeRawBufferPointer
    public var bodyLayout: PushBody.Layout
    /// The Kafka partition and offset of the command's record.
    public var partition: Int32
    public var offset: Int64
    /// The record's timestamp (-1 if it has none), and when the worker received the record. UNIX milliseconds.
    public var recordTimestampMilliseconds: Int64
    public var receivedAtWallMilliseconds: Int64
    /// The trace header of the command's record; empty for none. The core copies these bytes, and passes them to the
    /// shell with each fan-out record of the command.
    public var trace: UnsafeRawBufferPointer
    /// The names of the fields that were dropped because the body was too large, kept for the fan-out records; empty
    /// for none.
    public var droppedFields: UnsafeRawBufferPointer

    public init(
        record: RecordIndex,
        appIndex: UInt16,
        audience: UnsafeRawBufferPointer,
        channelEnvironment: APNsEnvironment? = nil,
        requestsChannel: Bool = false,
        event: Event,
        activityTemplate: UnsafeRawBufferPointer,
        version: Version,
        priority: UInt8,
        policyIndex: UInt8,
        policyName: UnsafeRawBufferPointer,
        ownExpirationSeconds: Int64,
        staleDateSeconds: Int64,
        identifier: UnsafeRawBufferPointer,
        body: UnsafeRawBufferPointer,
        bodyLayout: PushBody.Layout,
        partition: Int32,
        offset: Int64,
        recordTimestampMilliseconds: Int64,
        receivedAtWallMilliseconds: Int64,
        trace: UnsafeRawBufferPointer,
        droppedFields: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
    ) {
        self.record = record
        self.appIndex = appIndex
        self.audience = audience
        self.channelEnvironment = channelEnvironment
        self.requestsChannel = requestsChannel
        self.event = event
        self.activityTemplate = activityTemplate
        self.version = version
        self.priority = priority
        self.policyIndex = policyIndex
        self.policyName = policyName
        self.ownExpirationSeconds = ownExpirationSeconds
        self.staleDateSeconds = staleDateSeconds
        self.identifier = identifier
        self.body = body
        self.bodyLayout = bodyLayout
        self.partition = partition
        self.offset = offset
        self.recordTimestampMilliseconds = recordTimestampMilliseconds
        self.receivedAtWallMilliseconds = receivedAtWallMilliseconds
        self.trace = trace
        self.droppedFields = droppedFields
    }
}

/// A command to an audience or a channel that goes back to `Delivery`. `Delivery` has kept the command's record, and
/// ends the record as `handoverResult` says.
public struct ReturnedCommand: Sendable, BitwiseCopyable {
    public var record: RecordIndex
    public var handoverResult: HandoverResult
    /// The reason for the command's result; empty for none.
    public var reason: StaticString
    /// When the store last replied to the command's admission, UNIX milliseconds; nil: it has not replied. Also set if
    /// the store did not admit the command: the result then says when the store decided.
    public var admittedAtWallMilliseconds: Int64?
}
