import LiveActivity

/// What the shells may read of a record: valid until the next call that changes the core.
public struct RecordView {
    private let pointer: UnsafePointer<RecordSlot>
    private var slot: RecordSlot { unsafeAddress { pointer } }

    init(_ pointer: UnsafePointer<RecordSlot>) { self.pointer = pointer }

    public var event: Event { slot.event }
    public var environment: DeviceEnvironment { slot.environment }
    public var application: Int { Int(slot.application) }
    /// 5 or 10: as its admission allowed it, and before that as it was asked for.
    public var priority: UInt8 { slot.allowance.priority != 0 ? slot.allowance.priority : slot.priority }
    /// Index of its policy.
    public var policy: Int { Int(slot.policy) }
    /// The policy that the command names; empty where its app's holds.
    public var policyName: UnsafeRawBufferPointer { slot.bytes(slot.policyName) }
    public var isDemoted: Bool { slot.allowance.isDemoted }
    /// Pushes of priority 10 that the activity's budget allows after this one; -1 if nothing was asked of it.
    public var budgetLeft: Int { Int(slot.allowance.budgetLeft) }
    public var attempts: UInt8 { slot.attempts }
    /// Of a push that was just handed out: it has been sent before.
    public var isRetry: Bool { slot.attempts > 1 }
    public var version: Version { slot.version }
    /// As it is sent, UNIX seconds.
    public var expiration: Int64 { slot.sentExpiration }
    public var apnsIdentifier: (UInt64, UInt64) { slot.apnsIdentifier }
    /// The connection that the last attempt went over, which the next one avoids; 0 before the first.
    public var avoidedConnection: UInt32 { slot.connection }
    public var outcome: Outcome { slot.outcome }
    /// Commands that it took the place of and that have no result of their own.
    public var superseded: Int { Int(slot.superseded.commands) }
    public var status: UInt16 { slot.status }
    public var sentTimestamp: Int64 { slot.sentTimestamp }
    public var topic: RecordTopic { slot.topic }
    public var partition: Int32 { slot.partitionNumber }
    public var offset: Int64 { slot.offset }
    public var registeredAtMilliseconds: Int64 { slot.registeredAtMilliseconds }
    public var invalidAtMilliseconds: Int64 { slot.invalidAtMilliseconds }
    public var recordMilliseconds: Int64 { slot.recordMilliseconds }
    public var receivedMilliseconds: Int64 { slot.receivedMilliseconds }
    public var admittedMilliseconds: Int64 { slot.admittedMilliseconds }
    public var sentMilliseconds: Int64 { slot.sentMilliseconds }
    public var answeredMilliseconds: Int64 { slot.answeredMilliseconds }

    public var isStart: Bool { slot.event == .start }
    /// Results that the record has had before this one: of a command that brought a token, then of what was held for the token.
    public var resultsBefore: Int { Int(slot.resultsBefore) }
    /// The dead letter goes without its value, which is over the broker's limit.
    public var isTruncated: Bool { slot.deadLetterValue == .tooLarge }

    /// The activity's id; empty where the record names none.
    public var activity: UnsafeRawBufferPointer { slot.bytes(slot.subject) }
    /// Of a command that brought no id, empty until it is held in Redis or has its outcome.
    public var commandIdentifier: UnsafeRawBufferPointer { slot.bytes(slot.commandIdentifier) }
    public var device: UnsafeRawBufferPointer { slot.bytes(slot.device) }
    public var attributesType: UnsafeRawBufferPointer { slot.bytes(slot.attributesType) }
    public var token: UnsafeRawBufferPointer { slot.tokenBytes }
    /// APNs' reason, or the code of what is wrong with the record.
    public var reason: UnsafeRawBufferPointer { slot.bytes(slot.reason) }
    public var detail: UnsafeRawBufferPointer { slot.bytes(slot.detail) }
    /// The request body; it stays where it is until the push was answered, and is gone when the record has its outcome.
    public var body: UnsafeRawBufferPointer { slot.body.bytes }

    /// Apple's dictionary, as it came but for its timestamp and an alert that rides on with it.
    public var aps: UnsafeRawBufferPointer { slot.layout.aps.bytes(in: body) }
    /// The members beside `aps`, without braces; empty where there are none.
    public var payloadMembers: UnsafeRawBufferPointer { slot.layout.members.bytes(in: body) }

    /// The command as a record, which is how one that has no token yet is kept in Redis.
    func commandRecord(app: UnsafeRawBufferPointer) -> CommandRecord {
        var record = CommandRecord(app: app, activity: activity, aps: aps)
        if isStart { record.device = device }
        record.payloadMembers = payloadMembers
        // A default id that a long topic name makes longer than an id may be is left to the registration that sets it free.
        if commandIdentifier.count <= Limits.commandIdentifierBytes { record.identifier = commandIdentifier }
        record.sequence = version.sequence
        record.priority = slot.priority
        if !policyName.isEmpty { record.policy = policyName }
        record.expiration = slot.expiration
        return record
    }

    /// As it came with the record; empty if nothing came.
    public var trace: UnsafeRawBufferPointer { slot.bytes(slot.trace) }

    /// A dead letter's key and value as they came; nil where the record had none.
    public var deadLetterKey: UnsafeRawBufferPointer? { slot.recordKey.map(slot.bytes) }
    public var deadLetterValue: UnsafeRawBufferPointer? {
        slot.deadLetterValue == .asReceived ? slot.body.bytes : nil
    }
}

extension Delivery {
    public func view(_ record: UInt32) -> RecordView { RecordView(records.address(of: record)) }
}
