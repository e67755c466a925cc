import LiveActivity

/// Names a record of the lane. Public, because the shells name records too.
public typealias RecordIndex = SlabIndex<RecordSlot>

/// One Kafka record in the lane. The slab in `Records` stores the slot, and the slot's index names the record.
///
/// A slot lives as long as something names it, such as an activity's waiting list, a call to Redis, a push or a record
/// in the producer. The record is settled only when everything that `ending` counts is acknowledged: calls, outgoing
/// records, and changes of audiences.
///
/// `kind` and `stage` say what the record is and how far it has come. The comment of each part says for which records,
/// and from when on, the part has a meaning. In all other records it has its first value.
///
/// The type is public only because `RecordIndex` names it. Its members are not.
public struct RecordSlot: BitwiseCopyable {
    // Merging, settling and freeing read mainly the fields from here to the block in `texts`. So these fields are in
    // the first three cache lines, which `Slab.prefetch` fetches. Each further line would cost a cache miss. To save
    // room, an absent index, expiration or priority is a number here, and not nil.
    var kind: RecordKind
    /// Only `Records.enter` changes the stage.
    private(set) var stage = RecordStage.received
    /// The event of a command. In any other record, the value has no meaning.
    var event: Event = .update
    /// Whether the record is reread: it had been settled before, and Redis lost what it wrote. Its alert must then not
    /// ring again, and it must not start an activity again. (R25)
    var isReread = false
    /// The priority that the command asks for at its admission: 5 or 10; 0 for a record without a command. At first the
    /// command's own priority or the default. It may change when an alert moves to the command, or is removed from it.
    var priority: UInt8 = 0
    /// The priority with which the state is sent if its alert is removed: 5 or 10; 0 for a record without a command. If
    /// the producer names no priority, an update has 5: pushes of priority 5 leave the activity's budget to alerts and
    /// ends.
    var priorityWithoutAlert: UInt8 = 0
    /// The policy of a command, as its position in the configuration. In any other record, the value has no meaning.
    var policyIndex: UInt8 = 0
    var lifetime = RecordLifetime()
    /// The index of the record's app in the configuration. `.max` if the record names no configured app, or was
    /// rejected before its app was known; ask `configuredAppIndex`.
    var appIndex: UInt16 = .max
    var ending = RecordEnding()
    /// The activity to which the command was given; `.null`: it was given to none.
    var activity = ActivityIndex.null
    var waitingLink = WaitingList.Link()
    var riderLink = RiderLink()
    let place: RecordPlace
    /// The version of a command. The slot keeps the version if the record becomes a registration after its command has
    /// ended (`registerToken`).
    var version = Version.zero
    /// The expiration that the command names, UNIX seconds. -1, as in `Command`: it names none; ask
    /// `hasOwnExpiration`. For a start, the policy's `startSeconds` limit the expiration, so it is never -1.
    var ownExpirationSeconds: Int64 = -1
    var token = RecordToken()
    /// A command's body, or the value of a record that goes to the dead letters. A command's body is freed
    /// together with its token (`RecordToken`).
    var body = SharedBody.none
    /// Where the parts of a command's body are, such as its alert.
    var bodyLayout = Body.Layout.none
    var texts = RecordTexts()

    // Most results need the parts from here to `push`. The order of the later parts keeps the slot small: few bytes of
    // padding are between them.
    let source: RecordSource
    var times: RecordTimes
    var push = RecordPush()
    var deadLetter = RecordDeadLetter()
    var deferral = RecordDeferral()
    var alert = RecordAlert()
    var audienceCommand = RecordAudienceCommand()
    var start = RecordStartCommand()
    var registration = RecordRegistration()
    /// `aps.stale-date` of a command, UNIX seconds; -1: there is none. An update without an expiration expires at its
    /// stale date, if that date is in the future. So -1, a time in the past, needs no test of its own
    /// (`expirationSeconds`).
    var staleDateSeconds: Int64 = -1
    /// The digest of a command's body. Nil while the body may still change, because a carried alert may be written into
    /// it.
    var digest: UInt64?

    @inline(__always) var rider: RecordIndex { riderLink.rider }

    @inline(__always) var isStart: Bool { event == .start }

    /// The index of the record's app in the configuration; nil if the record names no configured app, or was rejected
    /// before its app was known.
    var configuredAppIndex: UInt16? { appIndex == .max ? nil : appIndex }

    /// Whether `ownExpirationSeconds` is an expiration. Always true for a start.
    @inline(__always) var hasOwnExpiration: Bool { ownExpirationSeconds >= 0 }

    @inline(__always) func isExpired(now: Moment) -> Bool {
        AgeRules.isExpired(ownExpirationSeconds, nowSeconds: now.wallSeconds)
    }

    /// Whether the command is sent with an alert: its body has one, or its rider's alert will be written into the body
    /// (`Records.completeBodyWithRiderAlert`). Unlike `Records.alertVersion`, also counts the alert of a start.
    @inline(__always) var hasAlert: Bool { !bodyLayout.alert.isAbsent || rider != .null }

    /// The version of the command whose alert is in the body. Nil if the body has no alert, and for a start, whose
    /// alert no other command carries.
    @inline(__always)
    var bodyAlertVersion: Version? {
        event == .start || bodyLayout.alert.isAbsent ? nil : alert.sourceVersion ?? version
    }

    /// The version of the older command whose alert is in the body; nil: the body has no alert, or the command's own.
    /// If Redis held another record of this command, an alert from that record also counts as the command's own.
    @inline(__always)
    var carriedAlertVersion: Version? {
        bodyLayout.alert.isAbsent || alert.sourceVersion == version ? nil : alert.sourceVersion
    }

    /// Sets when the token was registered or unregistered: the record's time, or its receipt if Kafka has no time for
    /// the record.
    mutating func setRegistrationTimeFromRecord() {
        token.registeredAtWallMilliseconds =
            times.recordTimestampMilliseconds >= 0
            ? times.recordTimestampMilliseconds : times.receivedAtWallMilliseconds
    }

    /// Traps if the present stage does not lead to `next`.
    @inline(__always)
    mutating func enter(_ next: RecordStage) {
        precondition(stage.canChange(to: next), "a record cannot enter this stage from the one it is in")
        stage = next
    }
}

extension RecordSlot {
    /// Whether Causeway made the command, because an activity's lifetime was over.
    var isLifetimeCommand: Bool { lifetime.isEnd || lifetime.isRestart }
    var isEndFromProducer: Bool { event == .end && !lifetime.isEnd }

    /// The digests of the audiences that the member is in after a registration; nil: the record does not change them.
    /// When the token has released a held command, the record's `kind` is `command`, so this is nil too.
    var namedAudiences: UnsafeRawBufferPointer? {
        kind == .registration && source.topic == .registrations && !registration.skipsMembershipChange
            ? bytes(registration.audienceDigests) : nil
    }
}

/// What a record is. Each record is `invalid` until its content is copied into the slot. Two kinds of records are never
/// copied and stay `invalid`: a rejected one, and a reread one that needs no action.
enum RecordKind: UInt8 { case command, registration, unregistration, invalid, audienceCommand }
