import LiveActivity

/// One record of Kafka from its receipt until nothing of it is outstanding any more; in the slab, named by index.
///
/// A slot lives as long as something outside names it: a place in an activity's list, a call to Redis, a push, a record in the
/// producer. `acknowledgementsOutstanding` counts what has to be confirmed before the record is settled.
struct RecordSlot: BitwiseCopyable {
    // The fields that merging, settling and freeing read come first: of most commands nothing else is read again, and lines of the
    // processor's cache that were not read for a while have been evicted.
    var kind: RecordKind
    /// Of the record that it was first; `deferred` only if that is not known.
    let topic: RecordTopic
    var event: Event = .update
    var outcome: Outcome = .failed
    /// How the command ended after it was admitted to be sent; nil: it was never admitted.
    var settlement: Settlement?
    /// What the command asks for, or its policy for it: 5 or 10.
    var priority: UInt8 = 0
    /// The same without an alert.
    var statePriority: UInt8 = 0
    /// Changed by `Records.enter`.
    private(set) var stage = RecordStage.received
    var followUps: FollowUps = []
    var application: UInt16 = .max
    private(set) var acknowledgementsOutstanding: UInt16 = 0
    /// The place in the lane's partition table, and which assignment of it.
    let partition: UInt32
    let epoch: UInt32
    var activity: UInt32 = .max
    /// In the partition that it was read from, which the ledger counts.
    let offset: Int64
    var version = Version(timestamp: 0, sequence: 0)
    /// The command's own, UNIX seconds; -1: it has none. A start always has one, by its age.
    var expiration: Int64 = -1
    var waitingLink = WaitingList.Link()
    var riderLink = RiderLink()
    /// Commands without a result of their own that this one took the place of, and that those had counted.
    var superseded = SupersededCount()
    /// It was settled before, and is read once more because the store has lost what it wrote.
    var isReadAgain = false
    /// The record brought a token of its own, which counts as a registration at the record's time.
    var suppliesToken = false
    /// Something of it lives on with another record, in memory only: the token that it passed on, or the held command that the other had
    /// from an earlier registration. While that one is not settled, the next owner of their partition must read both.
    var isTiedToAnother = false
    /// Of a registration: its audiences have been told, and what was held for its token is asked for.
    var hasToldAudiences = false
    /// Results that the record has had before: the command in it now was held, and released by the token that came with the first one.
    var resultsBefore: UInt8 = 0
    var tokenRefusal = TokenRefusal.none
    /// Index of its policy.
    var policy: UInt8 = 0
    /// Holds its texts for as long as it has its slot.
    var block = Arena.Block.none
    /// The token, once there is one. The token and the body are freed when the record has its outcome.
    var tokenBlock = Arena.Block.none
    var tokenCount = 0
    /// A command's body, or the value of a record that goes to the dead letters.
    var body = SharedBody.none
    var layout = Body.Layout.none

    var subject = Piece()
    /// Empty until it is needed, where the command brought none (`Delivery.completeIdentifier`).
    var commandIdentifier = Piece()
    var reason = Piece()
    /// What came beside the record and goes out beside its result; not looked at here.
    var trace = Piece()
    var device = Piece()
    var attributesType = Piece()
    /// Empty where the command names no policy.
    var policyName = Piece()
    /// Of a record that goes to the dead letters: its key, which part of its value goes along, and the fault in words.
    var recordKey: Piece?
    var deadLetterValue = DeadLetterValue.asReceived
    var detail = Piece()
    /// Where the record stood first: its own place, or that of the record which was deferred.
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
    /// Of a registration; nil: it says nothing of them.
    var frequentUpdates: Bool?
    /// Of a device's registration.
    var takesChannels = false

    /// Of a command to an audience.
    var asksForChannel = false
    /// Of an audience's command that is for a channel of the producer's in its place: `subject` is the channel's id, in `environment`.
    var isOfChannel = false

    var heldAlert = HeldAlert.unknown
    /// An alert was removed since it was too old: its own, or one that Redis held.
    var isAlertExpired = false
    /// A start that was held, and that Redis holds until it is told of its outcome; of a registration, such a start was its last result.
    var isHeldStart = false
    var startDraw = StartDraw.none
    var shows: Version?
    /// The version of the command whose alert was put into its body, or of a held command whose alert may be an older one's.
    var foreignAlert: Version?
    /// Of the body that is admitted; nil: an alert that the command carries may have yet to be put into it.
    var digest: UInt64?
    /// A start's, drawn when it is laid out: tells this record from every other of the same start, here or at another worker.
    var claim: UInt64 = 0
    /// The one with which the start was deferred, until it is admitted again; 0: there is none.
    var formerClaim: UInt64 = 0
    /// What is sent, by default the policy's.
    var sentExpiration: Int64 = -1
    /// UNIX seconds; -1: it has none.
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

    /// Of its own, or carried; then it may still have to be put into the body.
    @inline(__always) var hasAlert: Bool { !layout.alert.isAbsent || rider != .max }

    /// The version of the command whose alert is in its body; nil: the body has none, or is a start's, whose alert no other command carries.
    @inline(__always)
    var bodyAlertVersion: Version? { event == .start || layout.alert.isAbsent ? nil : foreignAlert ?? version }

    /// The version of the older command whose alert is in its body; nil: the alert is its own, or there is none.
    @inline(__always)
    var carriedAlert: Version? { layout.alert.isAbsent || foreignAlert == version ? nil : foreignAlert }

    /// One more call or production has to be confirmed.
    mutating func awaitAcknowledgement() { acknowledgementsOutstanding += 1 }

    mutating func acknowledge() {
        precondition(acknowledgementsOutstanding > 0)
        acknowledgementsOutstanding -= 1
    }

    @inline(__always) var isAcknowledged: Bool { acknowledgementsOutstanding == 0 }

    /// The time from which its token counts as registered: the record's, or its receipt where Kafka gave no time.
    mutating func registerAtRecordTime() {
        registeredAtMilliseconds = recordMilliseconds >= 0 ? recordMilliseconds : receivedMilliseconds
    }

    /// The next stage; traps when this one does not lead there.
    @inline(__always)
    mutating func enter(_ next: RecordStage) {
        precondition(stage.mayLead(to: next), "a record cannot enter this stage from the one it is in")
        stage = next
    }
}

extension RecordSlot {
    /// What a record is filled with that goes on as the registration of the token that came with it.
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
    /// Of a registration: the digests of the audiences that it names. None names a policy, so they have its place.
    var audiences: Piece {
        get { policyName }
        set { policyName = newValue }
    }

    /// Those that the member is in from now on; nil: whatever it was in.
    var namedAudiences: UnsafeRawBufferPointer? {
        topic == .registrations && !hasToldAudiences ? bytes(audiences) : nil
    }
}

/// What a record turned out to be.
enum RecordKind: UInt8 { case command, registration, unregistration, invalid, audienceCommand }

/// Where one text of a record lies in its block.
struct Piece: BitwiseCopyable {
    var offset: UInt32 = 0
    var count: UInt32 = 0
}

/// What is done in a record, in this order, when its result is acknowledged and before it is settled.
struct FollowUps: OptionSet, BitwiseCopyable {
    let rawValue: UInt8

    /// Redis is told that a start that it held is over. Told before, it would not bring the start again to a worker that reads the record
    /// once more, and a result that a crash took would never be written.
    static let leaveDevice = FollowUps(rawValue: 1)
    /// Its token is registered, since something may be held for it.
    static let registerToken = FollowUps(rawValue: 2)
}

/// Whether the token has to be removed from the activity's (or the device's) hash, since APNs calls it dead.
enum TokenRefusal: UInt8 {
    case none
    /// Unless it was registered after the time from which APNs calls it dead.
    case unlessRegisteredSince
    /// APNs gave no time, so no registration can be later.
    case unconditional
}

/// What of its value goes to the dead letters.
enum DeadLetterValue: UInt8 {
    case asReceived
    /// The record had none.
    case absent
    /// The producer refused the dead letter for its size, so it goes without the value.
    case tooLarge
}

/// What an admission allowed a push.
struct Allowance: BitwiseCopyable {
    /// 0 before the admission.
    var priority: UInt8 = 0
    /// 10 was asked for, and the activity's budget allowed 5.
    var isDemoted = false
    /// Pushes of priority 10 that the budget allows after this one; -1: the budget was not asked.
    var budgetLeft: Int32 = -1
}

/// The alert of an older command that Redis holds, for a command that is to take its place.
enum HeldAlert: UInt8 {
    /// Redis has not told of one.
    case unknown
    /// It is in this command's body, if there was one to take over.
    case takenOver
    case doesNotFit
}

/// A start's draw on its device's budget, with the number that names it.
enum StartDraw: BitwiseCopyable {
    case none
    /// The budget was empty: the start waits for it.
    case awaited
    case drawn(Int64)
    /// Or being given back.
    case refunded(Int64)
}

/// Which of the topics that Causeway reads a record came from.
public enum RecordTopic: UInt8, Sendable, BitwiseCopyable {
    case commands
    case registrations
    /// Commands that could not be sent soon. Their source is a record of one of the others.
    case deferred
}
