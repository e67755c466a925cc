import LiveActivity

/// Names a record of the lane. Public, because the shells name records too.
public typealias RecordIndex = SlabIndex<RecordSlot>

/// One Kafka record in the lane. The slab in `Records` stores the slot, and the slot's index names the record.
///
/// A slot lives as long as something names it, such as an activity's waiting list, a call to Redis, a push or a
/// record in the producer. `acknowledgementsOutstanding` counts the calls, the produced records and the changes of
/// audiences that must be confirmed before the record is settled.
///
/// The type is public only because `RecordIndex` names it. Its members are not.
public struct RecordSlot: BitwiseCopyable {
    // Merging, settling and freeing read mainly the fields from here to `layout`, and most commands need no more.
    // So these fields are together in few cache lines: each further line would cost a cache miss.
    var kind: RecordKind
    /// The topic from which the record was read. For a deferred command: the topic from which it was read before its
    /// first deferral; `deferred` only if that topic is not known.
    let topic: RecordTopic
    var event: Event = .update
    var outcome: Outcome = .failed
    /// How Redis must settle the command; nil: Redis settles nothing, usually because it did not admit the
    /// command.
    var settlement: Settlement?
    /// The priority that the command asks for at its admission: 5 or 10; 0 for a record without a command. At first it
    /// is the command's own priority or the default. It may change when the command takes over or loses an alert.
    var priority: UInt8 = 0
    /// The priority with which the state is sent if its alert is removed: 5 or 10; 0 for a record without a command. If
    /// the producer names no priority, it is 5 for an update, because only priority 10 uses the activity's budget.
    var priorityWithoutAlert: UInt8 = 0
    /// Only `Records.enter` changes the stage.
    private(set) var stage = RecordStage.received
    var followUps: FollowUps = []
    /// The index of the record's app in the configuration; `.max`: not known, or the record names no configured app.
    var appIndex: UInt16 = .max
    private(set) var acknowledgementsOutstanding: UInt16 = 0
    /// The index of the record's partition in the lane's `PartitionTable`.
    let partitionIndex: UInt32
    /// The number of the partition's assignment in which the record was read. After this assignment has ended, the
    /// `PartitionTable` has another number at `partitionIndex`, or no partition. So a record of an earlier
    /// assignment settles no offset of a later one.
    let assignmentEpoch: UInt32
    /// The activity to which the command was given; `.null`: it was given to none.
    var activity = ActivityIndex.null
    /// The offset in the partition from which the record was read. The ledger counts this offset.
    let offset: Int64
    var version = Version(timestamp: 0, sequence: 0)
    /// The command's own expiration, UNIX seconds; -1: it has none. A start always has one, because its
    /// policy limits its age.
    var ownExpirationSeconds: Int64 = -1
    var waitingLink = WaitingList.Link()
    var riderLink = RiderLink()
    var supersededCount = SupersededCount()
    /// Whether the record had been settled before and is read again because Redis lost data. Then its alert must not
    /// ring again, and it must not start an activity again. (R25)
    var isReread = false
    /// Whether Redis must register a token with the command: one that the command brought, or one that a replaced
    /// command brought. `registeredAtMilliseconds` is the token's time.
    var hasOwnToken = false
    /// Whether another record now has, in memory only, what this record brought: its token, or the held command that
    /// its token released. If the worker dies before that other record is settled, the next owner must read both
    /// records. So the commit's metadata must not name this record as settled. (R10)
    var isLeftOutOfMetadata = false
    /// Whether the command ends an activity because its lifetime is over. This end has no state, so the
    /// activity keeps its last state.
    var isLifetimeEnd = false
    var isLifetimeRestart = false
    /// Whether this end is a `duplicate` whose version was settled without being shown (`StoreReply.wasNotShown`). If
    /// it is the end of a lifetime, the life stays in the timetable, so that the end is made again.
    var wasNotShown = false
    /// Whether a reply about this record named audiences that the member left. If the record ends a lifetime, the
    /// activity is then not restarted, because the timetable keeps no states that came through an audience.
    var hasLeftAudiences = false
    /// Whether the timetable of lifetimes must store this command, because a restart of the activity needs it (R34).
    /// The body is freed only after the timetable has it.
    var mustBeKeptInTimetable = false
    /// Whether this registration notifies no audience: all have been notified, or the record registers a token again
    /// only to get a held command.
    var needsNoMembershipChange = false
    /// The number of results that the record has had already: one for its own command, and one for each held
    /// command that its token released.
    var earlierResultCount: UInt8 = 0
    var tokenRetirementRule = TokenRetirementRule.none
    var policyIndex: UInt8 = 0
    /// The record's texts. The block is freed with the slot.
    var textBlock = Arena.Block.none
    /// The token; none until it is known. A command's token and body are freed when the command has its outcome, unless
    /// a later step needs them: retiring a dead token, registering the token again, or reporting to the timetable.
    var tokenBlock = Arena.Block.none
    var tokenByteCount = 0
    /// A command's body, or the value of a record that goes to the dead letters.
    var body = SharedBody.none
    var layout = Body.Layout.none

    var subjectIdentifier = BlockRange()
    /// The command's id. If the command brought none, this is empty until the id is needed
    /// (`Delivery.writeDefaultIdentifierIfMissing`).
    var commandIdentifier = BlockRange()
    var reason = BlockRange()
    /// The trace header of the record. Its result continues this trace. A held command continues in the trace of the
    /// registration that released it, because Redis keeps no traces.
    var trace = BlockRange()
    var device = BlockRange()
    var attributesType = BlockRange()
    /// Two texts share this range, because no record has both. Use `policyName` and `audiences`.
    private(set) var policyNameOrAudiences = BlockRange()
    /// For a dead letter: the key of the record; nil if it had none. `deadLetterValue` says which value is
    /// written.
    var recordKey: BlockRange?
    var deadLetterValue = DeadLetterValue.asReceived
    /// Two texts share this range, because no record has both. Use `detail` and `droppedFields`.
    private(set) var detailOrDroppedFields = BlockRange()
    /// The number of the partition and the offset from which the record was read. For a deferred command: those from
    /// which it was read before its first deferral. Results and default ids name this place, so that a deferral does
    /// not change them.
    let sourcePartition: Int32
    let sourceOffset: Int64
    var deferral = DeferralState()
    // The times of the record, UNIX milliseconds. -1: Kafka has no time for the record, or the step has not happened.
    let recordTimestampMilliseconds: Int64
    let receivedAtMilliseconds: Int64
    var admittedAtMilliseconds: Int64 = -1
    var sentAtMilliseconds: Int64 = -1
    var responseAtMilliseconds: Int64 = -1
    /// The HTTP status of APNs' last response; 0: there is none.
    var httpStatus: UInt16 = 0
    var attempts: UInt8 = 0
    var pushAllowance = PushAllowance()
    var environment: APNsEnvironment = .production
    /// Whether a registration says that frequent updates are switched on; nil: it does not say.
    var allowsFrequentUpdates: Bool?
    /// Whether the device's registration says that its activities may begin on a broadcast channel.
    var supportsChannels = false

    var requestsChannel = false
    /// Whether the command is for a channel that the producer names, not for an audience. If so, `subjectIdentifier` is
    /// the channel's id, in `environment`.
    var addressesChannel = false

    var heldAlertStatus = HeldAlertStatus.notReported
    /// Whether an alert was removed because it was too old: the command's own alert, or one that it carried or would
    /// have carried.
    var isAlertExpired = false
    /// Two facts share this field, because no record has both. Use `isHeldStart` and `followsHeldStart`.
    private(set) var isOrFollowsHeldStart = false
    var startDraw = StartDraw.none
    var shownVersion: Version?
    /// The version of the command whose alert is in the body, if the alert came from another record: from an older
    /// command, or from a command that Redis held. Nil: the body has no alert, or its own.
    var sourceAlertVersion: Version?
    /// The digest of the body; nil until the body is complete, because a carried alert may still be written
    /// into it.
    var digest: UInt64?
    /// A random number that no other record of the same start has, in any worker. If the reply to the admission is
    /// lost, Redis admits this record again, because it names the same claim. Redis admits no other record of the
    /// start, because this one may have been sent (simulation `plain`, seed 892). After a deferral, the deferred record
    /// has a new claim and names this one as its `previousClaim`, so Redis admits it too. (R16)
    var claim: UInt64 = 0
    /// The claim that the start had when it was deferred; 0: it was not deferred, or Redis has admitted it
    /// since.
    var previousClaim: UInt64 = 0
    /// The `apns-expiration` that is sent, UNIX seconds: the command's own, or one from its stale date or its policy;
    /// -1 until this lane sends the push.
    var sentExpirationSeconds: Int64 = -1
    /// `aps.stale-date`, UNIX seconds; -1: there is none. `expirationSeconds` needs it for an update that brings no
    /// expiration.
    var staleDateSeconds: Int64 = -1
    /// The `aps.timestamp` that Redis chose. It has a meaning only after Redis has allowed the push.
    var sentTimestamp: Int64 = 0
    /// When the token was registered or unregistered, UNIX milliseconds. It has a meaning only if the record concerns a
    /// token.
    var registeredAtMilliseconds: Int64 = 0
    /// From when on the token is dead, UNIX milliseconds; -1: APNs has not called it dead.
    var invalidAtMilliseconds: Int64 = -1
    var apnsIdentifier: (UInt64, UInt64) = (0, 0)
    /// The connection of this lane's last attempt, which the next attempt avoids; 0: there was none.
    var avoidedConnection: UInt32 = 0

    @inline(__always) var rider: RecordIndex { riderLink.rider }

    @inline(__always) var isStart: Bool { event == .start }

    @inline(__always) func isExpired(now: Moment) -> Bool {
        AgeRules.isExpired(ownExpirationSeconds, nowSeconds: now.wallSeconds)
    }

    /// Whether the command has an alert in its body, or has a rider. The rider's alert may not be in the body yet.
    @inline(__always) var hasAlert: Bool { !layout.alert.isAbsent || rider != .null }

    /// The version of the command whose alert is in the body. Nil if the body has no alert, and for a start,
    /// whose alert no other command carries.
    @inline(__always)
    var bodyAlertVersion: Version? { event == .start || layout.alert.isAbsent ? nil : sourceAlertVersion ?? version }

    /// The version of the older command whose alert is in the body; nil: the body has no alert, or the command's own.
    /// `sourceAlertVersion` may be the command's own version: its alert may come from a held copy of the same command.
    @inline(__always)
    var carriedAlertVersion: Version? {
        layout.alert.isAbsent || sourceAlertVersion == version ? nil : sourceAlertVersion
    }

    /// Counts one more call, produced record or change of audiences that must be confirmed.
    mutating func expectAcknowledgement() { acknowledgementsOutstanding += 1 }

    /// Notes that one of the counted steps is confirmed. The slot may be freed after the last one. (R8)
    mutating func acknowledge() {
        precondition(acknowledgementsOutstanding > 0)
        acknowledgementsOutstanding -= 1
    }

    @inline(__always) var isAcknowledged: Bool { acknowledgementsOutstanding == 0 }

    /// Sets when the token was registered or unregistered: the record's time, or its receipt if Kafka has no time for
    /// the record.
    mutating func setRegistrationTimeFromRecord() {
        registeredAtMilliseconds =
            recordTimestampMilliseconds >= 0 ? recordTimestampMilliseconds : receivedAtMilliseconds
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
    var isLifetimeCommand: Bool { isLifetimeEnd || isLifetimeRestart }
    var isEndFromProducer: Bool { event == .end && !isLifetimeEnd }

    /// The policy that a command names; empty if it names none. Not for a registration, which names no policy. Only
    /// asserted, because each result reads the name.
    @inline(__always)
    var policyName: BlockRange {
        get {
            assert(kind != .registration)
            return policyNameOrAudiences
        }
        set {
            assert(kind != .registration)
            policyNameOrAudiences = newValue
        }
    }

    /// The digests of the audiences that a registration names. Only for a registration.
    var audiences: BlockRange {
        get {
            precondition(kind == .registration)
            return policyNameOrAudiences
        }
        set {
            precondition(kind == .registration)
            policyNameOrAudiences = newValue
        }
    }

    /// Whether the command is a start that Redis held, and keeps until the lane settles it. Not for a registration.
    /// Only asserted, because each outcome reads it.
    @inline(__always)
    var isHeldStart: Bool {
        get {
            assert(kind != .registration)
            return isOrFollowsHeldStart
        }
        set {
            assert(kind != .registration)
            isOrFollowsHeldStart = newValue
        }
    }

    /// Whether this registration follows a held start that its record has just finished. It registers the token again,
    /// so that Redis releases the next held start.
    @inline(__always) var followsHeldStart: Bool { kind == .registration && isOrFollowsHeldStart }

    /// The fault of an invalid record, in words. Only for an invalid record.
    var detail: BlockRange {
        get {
            precondition(kind == .invalid)
            return detailOrDroppedFields
        }
        set {
            precondition(kind == .invalid)
            detailOrDroppedFields = newValue
        }
    }

    /// The names of the fields that were dropped because the command's body was too large, separated by commas; empty
    /// if none was dropped, and for an invalid record. Setting is only asserted, because each command sets the names.
    @inline(__always)
    var droppedFields: BlockRange {
        get { kind == .invalid ? BlockRange() : detailOrDroppedFields }
        set {
            assert(kind != .invalid)
            detailOrDroppedFields = newValue
        }
    }

    /// The audiences that the member is in after a registration; nil: the registration does not change them. A command
    /// that a registration released may register a token too, if a replaced command gave it one. It names no audiences.
    var namedAudiences: UnsafeRawBufferPointer? {
        kind == .registration && topic == .registrations && !needsNoMembershipChange ? bytes(audiences) : nil
    }
}

/// What a record is. `invalid` until its content is copied into the slot. So it stays `invalid` if it is rejected, or
/// if it is read again and needs no action.
enum RecordKind: UInt8 { case command, registration, unregistration, invalid, audienceCommand }

/// Where a text is in the record's block.
struct BlockRange: BitwiseCopyable {
    var offset: UInt32 = 0
    var count: UInt32 = 0
}

/// What the lane still does for a record after its result and its calls are acknowledged: first `endLife`, then
/// `settleHeldStart`, then `registerToken`. Then the record settles. `registerToken` is last, because it makes the slot
/// a registration, which has no command any more.
struct FollowUps: OptionSet, BitwiseCopyable {
    let rawValue: UInt8

    /// Removes a finished held start from Redis, after its result is acknowledged. If Redis removed the start first,
    /// a crash before the result would lose the result: Redis would not release the start to the next reader of the
    /// registration (simulation `repeats`, seed 4949).
    static let settleHeldStart = FollowUps(rawValue: 1)
    /// Registers the record's token, because Redis may hold commands for it.
    static let registerToken = FollowUps(rawValue: 2)
    /// Removes the life from the timetable of lifetimes, after the result is acknowledged. If the life were removed
    /// first, a crash before the result would falsify the result: the command, read again, would find no life, and
    /// its result would say that it ended nothing.
    static let endLife = FollowUps(rawValue: 4)
}

/// When Redis must remove the token of the activity or device, because APNs calls it dead or does not know it.
enum TokenRetirementRule: UInt8 {
    case none
    /// Redis removes the token, unless the token was registered at or after the time from which APNs calls it dead.
    case unlessRegisteredSince
    /// Redis removes the token, no matter when it was registered, because APNs gave no time.
    case unconditional
}

/// What a dead letter contains of the record's value.
enum DeadLetterValue: UInt8 {
    case asReceived
    /// The record had no value.
    case absent
    /// Kafka refused the dead letter because of its size, so it is written without the value.
    case leftOutAsTooLarge
}

/// What Redis' reply to the admission allowed for a push.
struct PushAllowance: BitwiseCopyable {
    /// The priority with which the push is sent: 5 or 10; 0 before the admission.
    var priority: UInt8 = 0
    /// Whether the command asked for priority 10 and the activity's budget allowed only 5.
    var isDemoted = false
    /// Pushes of priority 10 that the budget allows after this one; -1: the budget was not used.
    var budgetLeft: Int32 = -1
}

/// What a lane did about the alert of an older command that Redis holds and that this command replaces.
enum HeldAlertStatus: UInt8 {
    /// Redis has reported no held alert.
    case notReported
    /// The lane has examined the held command. Its alert is in this command's body, or there is no alert to take over:
    /// the held command has none or is not valid, its alert is too old, or this command has an alert.
    case examined
    case doesNotFit
}

/// A start's draw on its device's budget. The number identifies the draw.
enum StartDraw: BitwiseCopyable {
    case none
    /// The budget was empty, and the start waits until it may draw.
    case awaitingBudget
    case drawn(Int64)
    /// The draw was given back to the budget, or the call that gives it back is under way.
    case refunded(Int64)
}

/// A topic whose records this core processes.
public enum RecordTopic: UInt8, Sendable, BitwiseCopyable {
    case commands
    case registrations
    /// Commands that could not be sent soon. Each was first read from the commands or registrations topic.
    case deferred
}
