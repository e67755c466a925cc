import LiveActivity

/// Names a record of the lane by the index of its slot. Public, because the shells name records too.
public typealias RecordIndex = SlabIndex<RecordSlot>

/// One Kafka record in the lane: the element of the slab in `Records`. A slot lives as long as something names it, such
/// as an activity's waiting list, a call to Redis, a push or a record in the producer.
///
/// `kind` and `stage` say what the record is and how far it has come. The folder `Parts` has the types of other
/// properties. The comment of each such type says which records use the property, and from when on. In all other
/// records, the property has its initial value.
///
/// The type is public only because `RecordIndex` names it. Its members are not.
public struct RecordSlot: BitwiseCopyable {
    // The fields from here to the block in `texts` are those that merging, settling and freeing mainly read. They are
    // in the first three cache lines, which `Slab.prefetch` fetches; each further line would cost a cache miss. To save
    // room, an absent index, expiration or priority is a number and not nil.
    var kind: RecordKind
    /// Only `Records.enter` changes the stage.
    private(set) var stage = RecordStage.received
    /// The event of a command. In any other record, the value has no meaning.
    var event: Event = .update
    /// Whether the record is reread: it had been settled before, and Redis lost what it wrote. So its alert must not
    /// ring again, and it must not start an activity again. (R25)
    var isReread = false
    /// Whether the record is a held command that a token has released. Only `Records` changes this, because
    /// `Records.releasedCommandCount` counts these records.
    var isReleasedCommand = false
    /// The priority that the command asks for at its admission: 5 or 10; 0 for a record without a command. First this
    /// is the command's own priority or the default. It changes when an alert moves to the command, or is removed from
    /// it.
    var priority: UInt8 = 0
    /// The priority that the command's state gets if its alert is removed: 5 or 10; 0 for a record without a command.
    /// For an update the default is 5, so that such pushes leave the activity's budget to alerts and ends.
    var priorityWithoutAlert: UInt8 = 0
    /// The index of a command's policy. In any other record, the value has no meaning.
    var policyIndex: UInt8 = 0
    var lifetime = RecordLifetime()
    /// The index of the record's app in the configuration. `.max`: the record names no configured app, or was rejected
    /// before its app was known. For a tombstone, which names no app: the app that its calls are about now.
    var appIndex: UInt16 = .max
    var ending = RecordEnding()
    /// The activity of the command, from `enqueue` on; `.null`: none. While the command is being deferred or is
    /// finished, its activity may be freed, and another activity may get this index.
    var activity = ActivityIndex.null
    var waitingLink = WaitingList.Link()
    var riderLink = RiderLink()
    let ledgerPlace: RecordLedgerPlace
    /// The version of a command. The slot keeps it if the record later becomes a registration (`registerToken`).
    var version = Version.zero
    /// When the command expires, UNIX seconds. An update or end expires when the command says; -1: it says nothing
    /// (`hasExpiration`). A start expires when the command or the policy (`startSeconds`) says, at the earlier time.
    var expirationSeconds: Int64 = -1
    var token = RecordToken()
    /// A command's body, or the value of a record that goes to the dead letters. A command's body is freed together
    /// with its token.
    var body = SharedBody.none
    /// Where the parts of a command's body are, such as its alert.
    var bodyLayout = PushBody.Layout.none
    var texts = RecordTexts()

    // Most results need the parts from here to `push`. The order of the later parts needs little padding, which keeps
    // the slot small.
    let source: RecordSource
    var times: RecordTimes
    var push = RecordPush()
    var deadLetter = RecordDeadLetter()
    var deferral = RecordDeferral()
    var alert = RecordAlert()
    var audienceCommand = RecordAudienceCommand()
    var start = RecordStartCommand()
    var registration = RecordRegistration()
    /// `aps.stale-date` of a command, UNIX seconds; -1: there is none. `setSentExpiration` uses a stale date only if it
    /// is in the future, so it needs no test for -1.
    var staleDateSeconds: Int64 = -1
    /// The digest of a command's body; nil until the body is complete (`Records.completeBodyWithRiderAlert`).
    var digest: UInt64?

    @inline(__always) var rider: RecordIndex { riderLink.rider }

    @inline(__always) var isStart: Bool { event == .start }

    /// The index of the record's app in the configuration; nil if the record names no configured app, or was rejected
    /// before its app was known.
    var configuredAppIndex: UInt16? { appIndex == .max ? nil : appIndex }

    /// Whether `expirationSeconds` is a time. Always true for a start.
    @inline(__always) var hasExpiration: Bool { expirationSeconds >= 0 }

    @inline(__always) func isExpired(now: Moment) -> Bool {
        AgeRules.isExpired(expirationSeconds, nowSeconds: now.wallSeconds)
    }

    /// Whether the command has an alert: in its body, or that of its rider, which will be written into the body
    /// (`Records.completeBodyWithRiderAlert`). Unlike `Records.alertVersion`, also counts the alert of a start.
    @inline(__always) var hasAlert: Bool { !bodyLayout.alert.isAbsent || rider != .null }

    /// The version of the command whose alert is in the body; nil if the body has no alert. Nil for a start too: no
    /// other command carries its alert.
    @inline(__always)
    var bodyAlertVersion: Version? {
        event == .start || bodyLayout.alert.isAbsent ? nil : alert.sourceVersion ?? version
    }

    /// The version of the older command whose alert is in the body; nil: the body has no alert, or the command's own.
    /// An alert that Redis held with another record of the same command is the command's own too.
    @inline(__always)
    var carriedAlertVersion: Version? {
        bodyLayout.alert.isAbsent || alert.sourceVersion == version ? nil : alert.sourceVersion
    }

    /// Sets when the token was registered or unregistered: at the record's time or, if Kafka has none, at its receipt.
    mutating func setRegistrationTimeFromRecord() {
        token.registeredAtWallMilliseconds = times.recordAtWallMilliseconds
    }

    /// Changes the stage, for `Records.enter` only. Traps if the current stage does not lead to `next`.
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

    /// The digests of the audiences that the member is in after a registration; nil: the record does not change them,
    /// for example because its token has released a held command.
    var namedAudiences: UnsafeRawBufferPointer? {
        kind == .registration && source.topic == .registrations && !registration.skipsMembershipChange
            ? bytes(registration.audienceDigests) : nil
    }
}

/// What a record is. Each record is `invalid` until its content is copied into the slot. A record stays `invalid` if it
/// is rejected, or if it is a reread or old record that needs no action.
enum RecordKind: UInt8 { case command, registration, tombstone, invalid, audienceCommand }
