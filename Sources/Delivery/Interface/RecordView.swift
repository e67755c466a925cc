import LiveActivity

/// The parts of a record that the shells may read. A view is valid until a method changes the core.
public struct RecordView {
    private let pointer: UnsafePointer<RecordSlot>
    private var slot: RecordSlot { unsafeAddress { pointer } }

    init(_ pointer: UnsafePointer<RecordSlot>) { self.pointer = pointer }

    public var event: Event { slot.event }
    /// The environment of the token, or of the channel that the command is for.
    public var environment: APNsEnvironment { slot.audienceCommand.channelEnvironment ?? slot.token.environment }
    /// The index of the record's app in the configuration. It is beyond the last app if ``configuredAppIndex`` is nil.
    public var appIndex: Int { Int(slot.appIndex) }
    /// The index of the record's app in the configuration; nil if the record names no configured app, or was rejected
    /// before its app was known.
    public var configuredAppIndex: Int? { slot.configuredAppIndex.map(Int.init) }
    /// The priority of a command, 5 or 10: before the admission the priority that the command asks for, afterwards the
    /// priority that the budget allowed.
    public var priority: UInt8 { slot.push.priorityDecision?.priority ?? slot.priority }
    public var policyIndex: Int { Int(slot.policyIndex) }
    /// The name of the policy that the command names; empty: it names none, and its app's default policy applies.
    public var policyName: UnsafeRawBufferPointer { slot.bytes(slot.texts.policyName) }
    /// Whether the command asked for priority 10 and the activity's budget allowed only 5.
    public var isDemoted: Bool { slot.push.priorityDecision?.isDemoted ?? false }
    /// How many pushes of priority 10 the activity's budget allows after this one; nil: the budget was not used.
    public var budgetLeft: Int? { slot.push.priorityDecision?.budgetLeft.map(Int.init) }
    public var attemptCount: UInt8 { slot.push.attemptCount }
    /// Whether the push that `takeNextPush` has just returned is a retry: an earlier attempt was made by this lane, or
    /// before the command was deferred.
    public var isRetry: Bool { slot.push.attemptCount > 1 }
    public var version: Version { slot.version }
    /// The `apns-expiration` that is sent to APNs, UNIX seconds; no meaning before this lane sends the push.
    public var sentExpirationSeconds: Int64 { slot.push.sentExpirationSeconds }
    public var apnsId: (UInt64, UInt64) { slot.push.apnsId }
    /// The number of the connection that this lane's last attempt used, and that the next attempt avoids; nil: there
    /// was no attempt.
    public var avoidedConnectionNumber: UInt32? {
        slot.push.avoidedConnectionNumber == 0 ? nil : slot.push.avoidedConnectionNumber
    }
    public var outcome: Outcome { slot.ending.outcome }
    /// The number of superseded commands that this command's result must count, because they have no results of their
    /// own.
    public var supersededCount: Int { Int(slot.ending.supersededCount.commandCount) }
    /// The HTTP status of APNs' last response; nil: there is none.
    public var httpStatus: UInt16? { slot.push.httpStatus }
    public var sentTimestamp: Int64 { slot.push.sentTimestamp }
    public var sourceTopic: RecordTopic { slot.source.topic }
    /// The number of the partition from which the record was read; for a deferred command, the number of the partition
    /// from which it was read before its first deferral.
    public var sourcePartition: Int32 { slot.source.partition }
    /// The record's offset in ``sourcePartition``.
    public var sourceOffset: Int64 { slot.source.offset }
    /// When the token was registered, or unregistered by a tombstone, UNIX milliseconds.
    public var registeredAtWallMilliseconds: Int64 { slot.token.registeredAtWallMilliseconds }
    /// From when on the token is dead, UNIX milliseconds. Only for an invalidation: traps if APNs has not refused the
    /// token.
    public var invalidAtWallMilliseconds: Int64 { slot.push.tokenRetirementRule.invalidAtWallMilliseconds }
    // The times of the record, UNIX milliseconds. The first two are -1 if they are not known. Each of the others is nil
    // until its step has happened, for example the admission.
    public var recordTimestampMilliseconds: Int64 { slot.times.recordTimestampMilliseconds }
    public var receivedAtWallMilliseconds: Int64 { slot.times.receivedAtWallMilliseconds }
    public var admittedAtWallMilliseconds: Int64? { slot.times.admittedAtWallMilliseconds }
    public var sentAtWallMilliseconds: Int64? { slot.times.sentAtWallMilliseconds }
    public var responseAtWallMilliseconds: Int64? { slot.times.responseAtWallMilliseconds }

    public var isStart: Bool { slot.event == .start }
    /// Whether Causeway made the command, because the lifetime that the activity's policy allows was over.
    public var isLifetimeCommand: Bool { slot.isLifetimeCommand }
    /// The number of results that this record has had before the current one. A record has one result for its own
    /// command, if it is a command, and one for each held command that its token releases.
    public var earlierResultCount: Int { Int(slot.ending.earlierResultCount) }

    /// The activity's id. Empty if the record names none, and usually if the record is invalid. For a tombstone: the
    /// record's key, which may also be the id of a device.
    public var activity: UnsafeRawBufferPointer {
        slot.bytes(isAudienceCommand ? BlockRange() : slot.texts.subject)
    }
    /// The command's id. Empty if the command brought none, until it is held, deferred, handed over to the core of
    /// audiences or finished: then the core makes one.
    public var commandIdentifier: UnsafeRawBufferPointer { slot.bytes(slot.texts.commandIdentifier) }
    public var device: UnsafeRawBufferPointer { slot.bytes(slot.texts.device) }
    public var attributesType: UnsafeRawBufferPointer { slot.bytes(slot.texts.attributesType) }
    public var token: UnsafeRawBufferPointer { slot.token.bytes }
    /// A reason of APNs, of Redis or of Causeway, or the code of the record's fault; empty if there is none.
    public var reason: UnsafeRawBufferPointer { slot.bytes(slot.texts.reason) }
    /// For a dead letter: the fault of the record in words.
    public var deadLetterDetail: UnsafeRawBufferPointer { slot.bytes(slot.deadLetter.detail) }
    /// The names of the fields that were dropped because the body was too large, separated by commas; empty if there
    /// are none.
    public var droppedFields: UnsafeRawBufferPointer { slot.bytes(slot.texts.droppedFields) }
    /// A command's request body. Its address does not change while the push is in flight. The body may be freed when
    /// the record has its outcome.
    public var body: UnsafeRawBufferPointer { slot.body.bytes }

    /// Apple's `aps` dictionary as received, except for what the core changes: the timestamp, the alert, and fields
    /// that are dropped because the body is too large.
    public var aps: UnsafeRawBufferPointer { slot.bodyLayout.aps.bytes(in: body) }
    /// The JSON fields beside `aps`, without braces; empty if there are none.
    public var payloadMembers: UnsafeRawBufferPointer { slot.bodyLayout.payloadMembers.bytes(in: body) }

    /// Returns the command as a record of the commands topic. Redis stores this record for a held command, and for a
    /// command that the timetable keeps. The deferred record is also made from it.
    ///
    /// - Parameter app: the app's bundle id.
    public func commandRecord(app: UnsafeRawBufferPointer) -> CommandRecord {
        var record =
            addressesChannel
            ? CommandRecord(app: app, channel: channel, environment: environment, aps: aps)
            : isAudienceCommand
                ? CommandRecord(app: app, audience: audience, aps: aps)
                : CommandRecord(app: app, activity: activity, aps: aps)
        if isStart, isAudienceCommand { record.activity = activityTemplate } else if isStart { record.device = device }
        record.requestsChannel = slot.audienceCommand.requestsChannel
        record.payloadMembers = payloadMembers
        // The default id of a command is the place of its record, `topic/partition/offset`. If it is too long for the
        // field, the record gets no id, and its next reader makes a default id again: the same one for a deferred
        // command, and the place of the registration for a held command that a registration releases.
        if commandIdentifier.count <= Limits.commandIdentifierBytesMax { record.identifier = commandIdentifier }
        record.sequence = version.sequence
        record.priority = slot.priority
        if !policyName.isEmpty { record.policy = policyName }
        record.expirationSeconds = slot.expirationSeconds
        if !slot.bodyLayout.alert.isAbsent { record.carriedAlertVersion = slot.alert.sourceVersion }
        return record
    }

    // The next properties are for commands to audiences, and for members that join or leave audiences.

    /// Whether the command is for an audience or for a channel. The core of audiences decides about such a command.
    public var isAudienceCommand: Bool { slot.kind == .audienceCommand }
    private var addressesChannel: Bool { slot.audienceCommand.channelEnvironment != nil }
    /// The audience's id; empty if the command is for an activity or a channel.
    public var audience: UnsafeRawBufferPointer {
        slot.bytes(isAudienceCommand && !addressesChannel ? slot.texts.subject : BlockRange())
    }
    /// The channel's id; empty if the command is for an audience or activity. The channel is in ``environment``.
    public var channel: UnsafeRawBufferPointer {
        slot.bytes(addressesChannel ? slot.texts.subject : BlockRange())
    }
    /// Whether the command requests a broadcast channel for its audience, even if the configuration does not.
    public var requestsChannel: Bool { slot.audienceCommand.requestsChannel }
    /// The ``ActivityIdentifierTemplate`` of a start to an audience; otherwise empty.
    public var activityTemplate: UnsafeRawBufferPointer { slot.bytes(slot.audienceCommand.activityTemplate) }
    /// The positions of the parts of ``body``.
    public var bodyLayout: PushBody.Layout { slot.bodyLayout }
    /// When the command expires, UNIX seconds. An update or end expires when the command says; -1: it says nothing. A
    /// start expires when the command or the policy (`startSeconds`) says, at the earlier time.
    public var expirationSeconds: Int64 { slot.expirationSeconds }
    /// `aps.stale-date`, UNIX seconds; -1: there is none.
    public var staleDateSeconds: Int64 { slot.staleDateSeconds }
    public var hasAlert: Bool { slot.hasAlert }
    /// Whether the user has switched on Apple's frequent updates for the app (`frequentPushesEnabled`), as the
    /// registration says; nil: it does not say.
    public var allowsFrequentUpdates: Bool? { slot.registration.allowsFrequentUpdates }
    /// Whether a device's activities may begin on a broadcast channel, as its registration says.
    public var supportsChannels: Bool { slot.registration.supportsChannels }
    /// The version that the app already displays, as the registration says; nil: it does not say.
    public var shownVersion: Version? { slot.registration.shownVersion }
    /// Returns the id of the activity or device whose audiences change.
    ///
    /// - Parameter kind: which of the two the change is about, because a record may name both.
    public func memberIdentifier(_ kind: StoreSubjectKind) -> UnsafeRawBufferPointer {
        slot.bytes(kind == .device && slot.texts.device.count > 0 ? slot.texts.device : slot.texts.subject)
    }

    var recordDeferral: RecordDeferral { slot.deferral }
    /// The claim with which Redis may have admitted the start. For a start that was deferred, this is the claim from
    /// before the deferral, until Redis has admitted the start with its new claim.
    var claim: UInt64 { slot.start.previousClaim ?? slot.start.claim }
    var sourceAlertVersion: Version? { slot.alert.sourceVersion }
    var isHeldStart: Bool { slot.start.isHeld }
    /// Whether the record is reread: it had been settled before, and Redis lost what it wrote.
    public var isReread: Bool { slot.isReread }
    /// The priority with which a command's state is sent if its alert is removed: 5 or 10.
    public var priorityWithoutAlert: UInt8 { slot.priorityWithoutAlert }
    var wasAlertRemovedByAge: Bool { slot.alert.wasRemovedByAge }
    /// Whether a deferred record of this command needs a token: the command's own token if it must still be registered,
    /// or the token that released a held start.
    var deferralNeedsToken: Bool { (slot.token.mustBeRegistered || slot.start.isHeld) && slot.token.byteCount > 0 }

    /// The trace header that came with the record; empty if there was none.
    public var trace: UnsafeRawBufferPointer { slot.bytes(slot.texts.trace) }

    /// For a dead letter: the record's key as received; nil if the record had none.
    public var deadLetterKey: UnsafeRawBufferPointer? { slot.deadLetter.key.map(slot.bytes) }
    /// For a dead letter: the record's value as received; nil if the record had none, or if Kafka refused the dead
    /// letter with the value because of its size.
    public var deadLetterValue: UnsafeRawBufferPointer? {
        slot.deadLetter.valueForm == .asReceived ? slot.body.bytes : nil
    }
}

extension Delivery {
    public func view(_ record: RecordIndex) -> RecordView { RecordView(records.address(of: record)) }

    /// Returns where the record was read, as `topic/partition/offset`; for a deferred command, where it was read before
    /// its first deferral. Not for the hot path: it makes a `String`.
    public func sourceText(of record: RecordIndex) -> String {
        let slot = records.address(of: record)
        let topic = String(decoding: configuration.name(of: slot.pointee.source.topic), as: UTF8.self)
        return "\(topic)/\(slot.pointee.source.partition)/\(slot.pointee.source.offset)"
    }
}
