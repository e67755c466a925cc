public import Delivery
public import LiveActivity

/// A command of an audience, handed over by the core of single activities, whose record it is. The bytes are valid only during the call
/// that takes it.
public struct IncomingCommand {
    /// The record that is handed back.
    public var record: UInt32
    public var application: UInt16
    /// The audience's id; or that of a channel which the command names itself, in `channelEnvironment`.
    public var audience: UnsafeRawBufferPointer
    public var channelEnvironment: DeviceEnvironment?
    /// It asks for a broadcast channel, whatever the configuration says.
    public var asksForChannel: Bool
    public var event: Event
    /// Of a start: the ``DeviceTemplate`` of the activities that it begins; else empty.
    public var activityTemplate: UnsafeRawBufferPointer
    public var version: Version
    /// 5 or 10.
    public var priority: UInt8
    /// Index of its policy, and the name if the command names one.
    public var policy: UInt8
    public var policyName: UnsafeRawBufferPointer
    /// The command's own, UNIX seconds; -1 for none.
    public var expiration: Int64
    /// UNIX seconds; -1 for none.
    public var staleDate: Int64
    /// The version of the command that brought the alert, if that was an older one.
    public var alertVersion: Version?
    /// The id that its results name.
    public var identifier: UnsafeRawBufferPointer
    public var body: UnsafeRawBufferPointer
    public var layout: Body.Layout
    /// Where it was read from.
    public var partition: Int32
    public var offset: Int64
    /// UNIX milliseconds of the record, -1 if it has none; and of its receipt.
    public var recordMilliseconds: Int64
    public var receivedMilliseconds: Int64
    /// Kept for the fan-out records; empty for none.
    public var trace: UnsafeRawBufferPointer

    public init(
        record: UInt32,
        application: UInt16,
        audience: UnsafeRawBufferPointer,
        channelEnvironment: DeviceEnvironment? = nil,
        asksForChannel: Bool = false,
        event: Event,
        activityTemplate: UnsafeRawBufferPointer,
        version: Version,
        priority: UInt8,
        policy: UInt8,
        policyName: UnsafeRawBufferPointer,
        expiration: Int64,
        staleDate: Int64,
        alertVersion: Version?,
        identifier: UnsafeRawBufferPointer,
        body: UnsafeRawBufferPointer,
        layout: Body.Layout,
        partition: Int32,
        offset: Int64,
        recordMilliseconds: Int64,
        receivedMilliseconds: Int64,
        trace: UnsafeRawBufferPointer
    ) {
        self.record = record
        self.application = application
        self.audience = audience
        self.channelEnvironment = channelEnvironment
        self.asksForChannel = asksForChannel
        self.event = event
        self.activityTemplate = activityTemplate
        self.version = version
        self.priority = priority
        self.policy = policy
        self.policyName = policyName
        self.expiration = expiration
        self.staleDate = staleDate
        self.alertVersion = alertVersion
        self.identifier = identifier
        self.body = body
        self.layout = layout
        self.partition = partition
        self.offset = offset
        self.recordMilliseconds = recordMilliseconds
        self.receivedMilliseconds = receivedMilliseconds
        self.trace = trace
    }
}

/// A command of an audience comes back to the core of single activities.
public struct HandedBack: Sendable, BitwiseCopyable {
    public var record: UInt32
    public var ending: HandoverEnding
    /// For its result; empty for none.
    public var reason: StaticString
    /// UNIX milliseconds; -1: it was not admitted.
    public var admittedMilliseconds: Int64
}
