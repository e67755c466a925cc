import LiveActivity

/// What the shells may read of a record. Valid until the next call that changes the core.
public struct RecordView {
    private let pointer: UnsafePointer<RecordSlot>
    private var slot: RecordSlot { unsafeAddress { pointer } }

    init(_ pointer: UnsafePointer<RecordSlot>) { self.pointer = pointer }

    public var event: Event { slot.event }
    public var environment: DeviceEnvironment { slot.environment }
    public var application: Int { Int(slot.application) }
    /// 5 or 10: as its admission allowed, before that as the command asked.
    public var priority: UInt8 { slot.allowance.priority != 0 ? slot.allowance.priority : slot.priority }
    /// Index of its policy.
    public var policy: Int { Int(slot.policy) }
    /// The policy that the command names; empty where its app's policy applies.
    public var policyName: UnsafeRawBufferPointer { slot.bytes(slot.policyName) }
    public var isDemoted: Bool { slot.allowance.isDemoted }
    /// Pushes of priority 10 that the activity's budget allows after this one; -1 if nothing was asked of it.
    public var budgetLeft: Int { Int(slot.allowance.budgetLeft) }
    public var attempts: UInt8 { slot.attempts }
    /// Whether a push that was just handed out has been sent before.
    public var isRetry: Bool { slot.attempts > 1 }
    public var version: Version { slot.version }
    /// As it is sent, UNIX seconds.
    public var expiration: Int64 { slot.sentExpiration }
    public var apnsIdentifier: (UInt64, UInt64) { slot.apnsIdentifier }
    /// The connection of the last attempt, which the next one avoids; 0 before the first.
    public var avoidedConnection: UInt32 { slot.connection }
    public var outcome: Outcome { slot.outcome }
    /// The superseded commands that this one counts: they have no result of their own.
    public var superseded: Int { Int(slot.superseded.commands) }
    public var status: UInt16 { slot.status }
    public var sentTimestamp: Int64 { slot.sentTimestamp }
    public var topic: RecordTopic { slot.topic }
    public var partition: Int32 { slot.sourcePartition }
    public var offset: Int64 { slot.sourceOffset }
    public var registeredAtMilliseconds: Int64 { slot.registeredAtMilliseconds }
    public var invalidAtMilliseconds: Int64 { slot.invalidAtMilliseconds }
    public var recordMilliseconds: Int64 { slot.recordMilliseconds }
    public var receivedMilliseconds: Int64 { slot.receivedMilliseconds }
    public var admittedMilliseconds: Int64 { slot.admittedMilliseconds }
    public var sentMilliseconds: Int64 { slot.sentMilliseconds }
    public var answeredMilliseconds: Int64 { slot.answeredMilliseconds }

    public var isStart: Bool { slot.event == .start }
    /// Earlier results of the record: of a command that brought a token, then of commands that were held for the token.
    public var resultsBefore: Int { Int(slot.resultsBefore) }
    /// Whether the dead letter goes without its value, which exceeds the broker's limit.
    public var isTruncated: Bool { slot.deadLetterValue == .tooLarge }

    /// The activity's id; empty where the record names none.
    public var activity: UnsafeRawBufferPointer { slot.bytes(isOfAudience ? Piece() : slot.subject) }
    /// If the command brought no id: empty until the command is held in Redis or finished.
    public var commandIdentifier: UnsafeRawBufferPointer { slot.bytes(slot.commandIdentifier) }
    public var device: UnsafeRawBufferPointer { slot.bytes(isOfAudience ? Piece() : slot.device) }
    public var attributesType: UnsafeRawBufferPointer { slot.bytes(slot.attributesType) }
    public var token: UnsafeRawBufferPointer { slot.tokenBytes }
    /// APNs' reason, or the code of the record's fault.
    public var reason: UnsafeRawBufferPointer { slot.bytes(slot.reason) }
    public var detail: UnsafeRawBufferPointer { slot.bytes(slot.detail) }
    /// The request body. It does not move until the push is answered, and is freed when the record has its outcome.
    public var body: UnsafeRawBufferPointer { slot.body.bytes }

    /// Apple's dictionary as received, except for its timestamp and a carried alert.
    public var aps: UnsafeRawBufferPointer { slot.layout.aps.bytes(in: body) }
    /// The members beside `aps`, without braces; empty where there are none.
    public var payloadMembers: UnsafeRawBufferPointer { slot.layout.members.bytes(in: body) }

    /// The command as a record, as Redis keeps one that has no token yet, and as the ranges of an audience get it.
    ///
    /// - Parameter app: its bundle id.
    public func commandRecord(app: UnsafeRawBufferPointer) -> CommandRecord {
        var record =
            slot.isOfChannel
            ? CommandRecord(app: app, channel: channel, environment: environment, aps: aps)
            : isOfAudience
                ? CommandRecord(app: app, audience: audience, aps: aps)
                : CommandRecord(app: app, activity: activity, aps: aps)
        if isStart, isOfAudience { record.activity = activityTemplate } else if isStart { record.device = device }
        record.asksForChannel = slot.asksForChannel
        record.payloadMembers = payloadMembers
        // If a long topic name makes the default id longer than an id may be, the releasing registration names the command.
        if commandIdentifier.count <= Limits.commandIdentifierBytes { record.identifier = commandIdentifier }
        record.sequence = version.sequence
        record.priority = slot.priority
        if !policyName.isEmpty { record.policy = policyName }
        record.expiration = slot.expiration
        if !slot.layout.alert.isAbsent { record.alertVersion = slot.foreignAlert }
        return record
    }

    // Of a command to an audience, and of a member that joins or leaves.

    /// Or to a channel, which is admitted as an audience is.
    public var isOfAudience: Bool { slot.kind == .audienceCommand }
    /// The audience's id; empty of a command to an activity.
    public var audience: UnsafeRawBufferPointer {
        slot.bytes(isOfAudience && !slot.isOfChannel ? slot.subject : Piece())
    }
    /// The id of the channel that the command names itself, in ``environment``; else empty.
    public var channel: UnsafeRawBufferPointer { slot.bytes(slot.isOfChannel ? slot.subject : Piece()) }
    /// It asks for a broadcast channel, whatever the configuration says.
    public var asksForChannel: Bool { slot.asksForChannel }
    /// Of a start to an audience: its ``DeviceTemplate``; else empty.
    public var activityTemplate: UnsafeRawBufferPointer { slot.bytes(isOfAudience ? slot.device : Piece()) }
    /// Where the parts of ``body`` lie.
    public var layout: Body.Layout { slot.layout }
    /// The command's own, UNIX seconds; -1: it has none. A start always has one, by its age.
    public var ownExpiration: Int64 { slot.expiration }
    /// `aps.stale-date`, UNIX seconds; -1: it has none.
    public var staleDate: Int64 { slot.staleDate }
    public var hasAlert: Bool { slot.hasAlert }
    /// Of a registration; nil: it says nothing of them.
    public var frequentUpdates: Bool? { slot.frequentUpdates }
    /// Of a device's registration: its activities may begin on a broadcast channel.
    public var takesChannels: Bool { slot.takesChannels }
    /// Of a registration: the version that the app displays already.
    public var shows: Version? { slot.shows }
    /// The id of the activity or device whose audiences change.
    public func member(_ kind: StoreSubjectKind) -> UnsafeRawBufferPointer {
        slot.bytes(kind == .device && slot.device.count > 0 ? slot.device : slot.subject)
    }

    var deferralMark: DeferralMark { slot.deferral }
    /// By which Redis may know the start.
    var claim: UInt64 { slot.formerClaim == 0 ? slot.claim : slot.formerClaim }
    var foreignAlert: Version? { slot.foreignAlert }
    var isHeldStart: Bool { slot.isHeldStart }
    /// It was settled before, and is read once more because the store has lost what it wrote.
    public var isReadAgain: Bool { slot.isReadAgain }
    /// The priority without an alert: 5 or 10.
    public var statePriority: UInt8 { slot.statePriority }
    var isAlertExpired: Bool { slot.isAlertExpired }
    /// Whether its token is its own, or that of a start which was held for it.
    var bringsToken: Bool { (slot.suppliesToken || slot.isHeldStart) && slot.tokenCount > 0 }

    /// As received beside the record; empty if there was none.
    public var trace: UnsafeRawBufferPointer { slot.bytes(slot.trace) }

    /// A dead letter's key and value as received; nil where the record had none.
    public var deadLetterKey: UnsafeRawBufferPointer? { slot.recordKey.map(slot.bytes) }
    public var deadLetterValue: UnsafeRawBufferPointer? {
        slot.deadLetterValue == .asReceived ? slot.body.bytes : nil
    }
}

extension Delivery {
    public func view(_ record: UInt32) -> RecordView { RecordView(records.address(of: record)) }
}
