import LiveActivity

/// One Kafka record from its receipt until nothing of it is outstanding. It lies in the slab and is named by its index.
///
/// A slot lives as long as something outside names it: a place in an activity's list, a call to Redis, a push, a record in the
/// producer. `acknowledgementsOutstanding` counts the calls and productions that must be confirmed before the record is settled.
struct RecordSlot: BitwiseCopyable {
    // The fields that merging, settling and freeing read come first. Most commands need nothing else, and cache lines that were
    // not read for a while have been evicted.
    var kind: RecordKind
    /// The topic in which the record came first; `deferred` only if that topic is not known.
    let topic: RecordTopic
    var event: Event = .update
    var outcome: Outcome = .failed
    /// How the command ended after it was admitted to be sent; nil: it was never admitted.
    var settlement: Settlement?
    /// The priority that the command asks for, or its default: 5 or 10.
    var priority: UInt8 = 0
    /// The same without an alert.
    var statePriority: UInt8 = 0
    /// Only `Records.enter` changes the stage.
    private(set) var stage = RecordStage.received
    var followUps: FollowUps = []
    var application: UInt16 = .max
    private(set) var acknowledgementsOutstanding: UInt16 = 0
    /// The record's place in the lane's partition table, and the assignment of that place.
    let partition: UInt32
    let epoch: UInt32
    var activity: UInt32 = .max
    /// The offset in the partition from which the record was read. The ledger counts this offset.
    let offset: Int64
    var version = Version(timestamp: 0, sequence: 0)
    /// The command's own expiration, UNIX seconds; -1: it has none. A start always has one, because its age is limited.
    var expiration: Int64 = -1
    var waitingLink = WaitingList.Link()
    var riderLink = RiderLink()
    /// The commands without a result of their own that this one replaced, and those that they had counted.
    var superseded = SupersededCount()
    /// The record had been settled before and is read again because the store lost data.
    var isReadAgain = false
    /// The record brought a token of its own, which counts as registered at the record's time.
    var hasOwnToken = false
    /// A part of this record lives on with another record, in memory only: the token that this record passed on, or the held
    /// command that the other record had from an earlier registration. While the other record is not settled, the partition's
    /// next owner must read both. (R10)
    var mustBeReadAgainWithAnother = false
    /// The command ends an activity because its lifetime has ended. It does not replace the last state.
    var isLifetimeEnd = false
    /// The command starts an activity again whose lifetime had ended.
    var isLifetimeRestart = false
    /// Redis had settled this end before, and the activity did not show it.
    var wasNotShown = false
    /// The settlement of an end took its activity out of audiences.
    var hasLeftAudiences = false
    /// The timetable of lifetimes will store this command's record. The body is not freed before the timetable has it.
    var isKeptByTimetable = false
    /// A registration's audiences have been notified, and the commands held for its token are requested.
    var hasToldAudiences = false
    /// Results that the record has had before. The command that it holds now was held, and the token that came with the first
    /// command released it.
    var resultsBefore: UInt8 = 0
    var tokenRefusal = TokenRefusal.none
    /// The index of the record's policy.
    var policy: UInt8 = 0
    /// Holds the record's texts as long as the record has its slot.
    var block = Arena.Block.none
    /// The token, once there is one. The token and the body are freed when the record has its outcome; a token that must be
    /// retired is kept until Redis knows.
    var tokenBlock = Arena.Block.none
    var tokenCount = 0
    /// A command's body, or the value of a record that goes to the dead letters.
    var body = SharedBody.none
    var layout = Body.Layout.none

    var subject = BlockRange()
    /// If the command brought no id, this is empty until the id is needed (`Delivery.completeIdentifier`).
    var commandIdentifier = BlockRange()
    var reason = BlockRange()
    /// What came beside the record and goes out beside its result. The core does not read it. A held command continues in the
    /// trace of the registration that released it, because Redis keeps no traces.
    var trace = BlockRange()
    var device = BlockRange()
    var attributesType = BlockRange()
    /// Empty if the command names no policy.
    var policyName = BlockRange()
    /// The dead letter's key, which part of the value goes along, and the fault in words.
    var recordKey: BlockRange?
    var deadLetterValue = DeadLetterValue.asReceived
    var detail = BlockRange()
    /// Where the command came first: this record's own place, or the place of the record that was deferred.
    let sourcePartition: Int32
    let sourceOffset: Int64
    var deferral = DeferralMark()
    let recordMilliseconds: Int64
    let receivedMilliseconds: Int64
    var admittedMilliseconds: Int64 = -1
    var sentMilliseconds: Int64 = -1
    var answeredMilliseconds: Int64 = -1
    var status: UInt16 = 0
    var attempts: UInt8 = 0
    var allowance = Allowance()
    var environment: DeviceEnvironment = .production
    /// Whether a registration says that frequent updates are switched on; nil: it does not say.
    var frequentUpdates: Bool?
    /// From a device's registration: the device's activities may begin on a broadcast channel.
    var takesChannels = false

    /// From a command to an audience.
    var asksForChannel = false
    /// The command is for a channel that the producer names, not for an audience. Then `subject` is the channel's id, in
    /// `environment`.
    var isOfChannel = false

    var heldAlert = HeldAlert.unknown
    /// An alert was removed because it was too old: the command's own, or one that Redis held.
    var isAlertExpired = false
    /// A start that was held, and that Redis keeps until it learns the outcome. In a registration: the last result was of such a
    /// start.
    var isHeldStart = false
    var startDraw = StartDraw.none
    var shows: Version?
    /// The version of the command whose alert was put into the body, or of a held command whose alert may belong to an older one.
    var olderAlertVersion: Version?
    /// The digest of the body that is admitted; nil if the body may still lack an alert that it must carry.
    var digest: UInt64?
    /// Drawn for a start when it is laid out. It distinguishes this record from every other record of the same start, here or at
    /// another worker. If the reply to the admission is lost, Redis admits this record again, but not another record of the
    /// start, since this one may have been sent (seed 892). (R16)
    var claim: UInt64 = 0
    /// The claim with which the start was deferred, until it is admitted again; 0: there is none.
    var previousClaim: UInt64 = 0
    /// The expiration that APNs is sent; the policy's if the command has none.
    var sentExpiration: Int64 = -1
    /// UNIX seconds; -1: there is none.
    var staleDate: Int64 = -1
    var sentTimestamp: Int64 = 0
    var registeredAtMilliseconds: Int64 = 0
    var invalidAtMilliseconds: Int64 = -1
    var apnsIdentifier: (UInt64, UInt64) = (0, 0)
    /// The connection of the last attempt, or 0.
    var connection: UInt32 = 0

    @inline(__always) var rider: UInt32 { riderLink.rider }

    @inline(__always) var isStart: Bool { event == .start }

    @inline(__always) func isExpired(now: Moment) -> Bool {
        AgeRules.isExpired(expiration, now: now.wallSeconds)
    }

    /// Whether the command has an alert: in its body, or carried for a rider and not in the body yet.
    @inline(__always) var hasAlert: Bool { !layout.alert.isAbsent || rider != .max }

    /// The version of the command whose alert is in the body; nil: the body has no alert, or belongs to a start, whose alert no
    /// other command carries.
    @inline(__always)
    var bodyAlertVersion: Version? { event == .start || layout.alert.isAbsent ? nil : olderAlertVersion ?? version }

    /// The version of the older command whose alert is in the body; nil: the alert is the command's own, or there is none.
    @inline(__always)
    var carriedAlert: Version? { layout.alert.isAbsent || olderAlertVersion == version ? nil : olderAlertVersion }

    /// One more call or production must be confirmed.
    mutating func awaitAcknowledgement() { acknowledgementsOutstanding += 1 }

    /// One call or production was confirmed. The slot may be freed after the last one. (R8)
    mutating func acknowledge() {
        precondition(acknowledgementsOutstanding > 0)
        acknowledgementsOutstanding -= 1
    }

    @inline(__always) var isAcknowledged: Bool { acknowledgementsOutstanding == 0 }

    /// Sets the time from which the token counts as registered: the record's time, or its receipt if Kafka gave no time.
    mutating func registerAtRecordTime() {
        registeredAtMilliseconds = recordMilliseconds >= 0 ? recordMilliseconds : receivedMilliseconds
    }

    /// Enters the next stage. Traps if the present stage does not lead there.
    @inline(__always)
    mutating func enter(_ next: RecordStage) {
        precondition(stage.canChange(to: next), "a record cannot enter this stage from the one it is in")
        stage = next
    }
}

extension RecordSlot {
    /// The slot of a record that continues as the registration of the token that came with it.
    init(registeringTokenOf slot: RecordSlot) {
        self.init(
            kind: .registration,
            topic: slot.topic,
            stage: slot.stage,
            application: slot.application,
            partition: slot.partition,
            epoch: slot.epoch,
            offset: slot.offset,
            version: slot.version,
            hasToldAudiences: true,
            resultsBefore: slot.resultsBefore &+ 1,
            block: slot.block,
            tokenBlock: slot.tokenBlock,
            tokenCount: slot.tokenCount,
            subject: slot.subject,
            reason: slot.reason,
            trace: slot.trace,
            device: slot.device,
            attributesType: slot.attributesType,
            sourcePartition: slot.sourcePartition,
            sourceOffset: slot.sourceOffset,
            recordMilliseconds: slot.recordMilliseconds,
            receivedMilliseconds: slot.receivedMilliseconds,
            environment: slot.environment,
            isHeldStart: slot.isHeldStart,
            registeredAtMilliseconds: slot.registeredAtMilliseconds
        )
    }
}

extension RecordSlot {
    /// Causeway made the command, because the lifetime of its activity's policy was over.
    var isOfLifetime: Bool { isLifetimeEnd || isLifetimeRestart }

    /// The digests of the audiences that a registration names. They use the place of the policy's name, because a registration
    /// names no policy.
    var audiences: BlockRange {
        get { policyName }
        set { policyName = newValue }
    }

    /// The names of the fields that were dropped because the command's body was too large, separated by commas. They are stored
    /// where an invalid record has the text of its fault; no record has both.
    var droppedFields: BlockRange {
        get { kind == .invalid ? BlockRange() : detail }
        set { detail = newValue }
    }

    /// The audiences that the member is in from now on; nil: its audiences do not change.
    var namedAudiences: UnsafeRawBufferPointer? {
        topic == .registrations && !hasToldAudiences ? bytes(audiences) : nil
    }
}

/// What a record turned out to be.
enum RecordKind: UInt8 { case command, registration, unregistration, invalid, audienceCommand }

/// Where a text of a record lies in the record's block.
struct BlockRange: BitwiseCopyable {
    var offset: UInt32 = 0
    var count: UInt32 = 0
}

/// What a record still does when its result is acknowledged and before it is settled, in this order.
struct FollowUps: OptionSet, BitwiseCopyable {
    let rawValue: UInt8

    /// Tells Redis that a start which it held is finished. If Redis were told earlier and the worker crashed, Redis would not bring
    /// the start again to the worker that reads the record again, and the start's result would never be written (simulation
    /// `repeats`, seed 4949).
    static let settleHeldStart = FollowUps(rawValue: 1)
    /// Registers the record's token, because commands may be held for it.
    static let registerToken = FollowUps(rawValue: 2)
    /// Takes the activity out of the timetable of lifetimes. If that came before the result and the worker crashed, the command,
    /// read again, would find no life, and its result would say that it ended nothing.
    static let endLife = FollowUps(rawValue: 4)
}

/// Whether Redis must remove the token of the activity or device, because APNs calls it dead.
enum TokenRefusal: UInt8 {
    case none
    /// The token is removed, unless it was registered after the time from which APNs calls it dead.
    case unlessRegisteredSince
    /// APNs gave no time, so no registration counts as later.
    case unconditional
}

/// What a dead letter says of the record's value.
enum DeadLetterValue: UInt8 {
    case asReceived
    /// The record had no value.
    case absent
    /// The producer refused the dead letter because of its size, so it is written without the value.
    case tooLarge
}

/// What an admission allowed for a push.
struct Allowance: BitwiseCopyable {
    /// 0 before the admission.
    var priority: UInt8 = 0
    /// The command asked for 10, and the activity's budget allowed 5.
    var isDemoted = false
    /// Pushes of priority 10 that the budget allows after this one; -1: the budget was not asked.
    var budgetLeft: Int32 = -1
}

/// The alert of an older command that Redis holds, as seen by a command that will replace that one.
enum HeldAlert: UInt8 {
    /// Redis has not reported such an alert.
    case unknown
    /// The alert is in this command's body, unless there was none.
    case takenOver
    case doesNotFit
}

/// A start's draw on its device's budget, with the number that names the draw.
enum StartDraw: BitwiseCopyable {
    case none
    /// The budget was empty, and the start waits for it.
    case awaited
    case drawn(Int64)
    /// The draw was refunded, or the refund is under way.
    case refunded(Int64)
}

/// The topic from which a record came, of those that Causeway reads.
public enum RecordTopic: UInt8, Sendable, BitwiseCopyable {
    case commands
    case registrations
    /// Commands that could not be sent soon. Their source is a record of one of the other topics.
    case deferred
}
