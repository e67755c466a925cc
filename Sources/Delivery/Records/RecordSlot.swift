import LiveActivity

/// Where one text of a record lies in its block.
struct Piece: BitwiseCopyable {
    var offset: UInt32 = 0
    var count: UInt32 = 0
}

/// What a record turned out to be.
enum RecordKind: UInt8 { case command, registration, unregistration, invalid }

/// One record of Kafka from its receipt until nothing of it is outstanding any more; in the slab, named by index.
///
/// A slot lives as long as something outside names it: a place in an activity's list, a call to Redis, a push, a record in the
/// producer. `acknowledgementsOutstanding` counts what has to be confirmed before the record is settled.
struct RecordSlot: BitwiseCopyable {
    // What merging, settling and letting go look at comes first: of most commands nothing else is read again, and what was not looked at
    // for a while has left the processor's cache, line by line.
    var kind: RecordKind
    var topic: RecordTopic
    var event: Event = .update
    var outcome: Outcome = .failed
    var settlement: Settlement = .none
    /// What the command asks for, or its policy for it: 5 or 10.
    var priority: UInt8 = 0
    /// Set once the result stands; a second outcome for one record is a broken invariant.
    var isFinished = false
    /// The body is what is admitted: the alert that it carries is in it, and its digest is known.
    var isBodyComplete = false
    var application: UInt16 = .max
    var acknowledgementsOutstanding: UInt16 = 0
    /// The place in the lane's partition table, and which assignment of it.
    var partition: UInt32
    var epoch: UInt32
    var activity: UInt32 = .max
    var offset: Int64
    var version = Version(timestamp: 0, sequence: 0)
    /// The command's own, UNIX seconds; -1: it has none.
    var expiration: Int64 = -1
    var waitingLink = WaitingList.Link()
    var riderLink = RiderLink()
    /// Commands without a result of their own that this one took the place of, and that those had counted.
    var superseded = SupersededCount()
    /// The record brought a token of its own, which counts as a registration at the record's time.
    var suppliesToken = false
    /// Its outcome is known, and its token may have something that is held: the token is registered before the record is settled.
    var registersToken = false
    /// Results that the record has had before: what goes on in it was held, and set free by the token that came with it.
    var resultsBefore: UInt8 = 0
    /// The token has to be taken out of the activity's (or the device's) hash, since APNs calls it dead.
    var retiresToken = false
    /// Index of its policy.
    var policy: UInt8 = 0
    /// Holds its texts for as long as it has its slot.
    var block = Arena.Block.none
    /// The token, once there is one. It and the body are done with when the record has its outcome.
    var tokenBlock = Arena.Block.none
    var tokenCount = 0
    /// A command's body, or the value of a record that goes to the dead letters.
    var body = SharedBody.none
    var layout = Body.Layout.none

    var subject = Piece()
    /// Empty until it is needed, where the command brought none (`Delivery.completeIdentifier`).
    var commandIdentifier = Piece()
    var reason = Piece()
    /// What came beside the record and goes out beside what it comes to; not looked at here.
    var trace = Piece()
    var device = Piece()
    var attributesType = Piece()
    /// Empty where the command names no policy.
    var policyName = Piece()
    /// Of a record that goes to the dead letters: its key, and what is wrong in words.
    var recordKey = Piece()
    var detail = Piece()
    var partitionNumber: Int32
    var budgetLeft: Int32 = -1
    var recordMilliseconds: Int64
    var receivedMilliseconds: Int64
    var admittedMilliseconds: Int64 = -1
    var sentMilliseconds: Int64 = -1
    var answeredMilliseconds: Int64 = -1
    var status: UInt16 = 0
    var attempts: UInt8 = 0
    /// What its admission allowed; 0 before it.
    var sentPriority: UInt8 = 0
    var isDemoted = false
    var environment: DeviceEnvironment = .production
    var lacksKey = false
    var lacksValue = false
    /// The producer refused the dead letter for its size: it goes without its value.
    var isTruncated = false
    /// APNs gave no time with it, so no registration can be later.
    var retiresTokenUnconditionally = false
    /// Of a registration; nil: it says nothing of them.
    var frequentUpdates: Bool?

    /// The alert of the command that Redis holds is answered for: it is in this body, or does not fit into it.
    var answersForHeldAlert = false
    /// It does not fit.
    var lacksHeldAlert = false
    /// A start that was held, and that Redis holds until it is told of its outcome; of a registration, such a start was its last result.
    var isHeldStart = false
    /// Of such a start, which is over: Redis is told when its result is acknowledged. Told before, it would not bring the start again to a
    /// worker that reads the record once more, and a result that a crash took would never be written.
    var leavesDevice = false
    /// Another record of the lane has the same start, and is the one that Redis is told of.
    var isInTwoHands = false
    /// Its partition's next owner reads it again; here only its draw is yet to be given back.
    var isLetGo = false
    /// A start that drew on its device's budget, and has not given that back.
    var hasStartDraw = false
    /// A start that waits for its device's budget.
    var lacksStartBudget = false
    var shows: Version? = nil
    /// Whose alert was put into its body: another command's; or of what was held with an alert, which may be an older one's.
    var foreignAlert: Version? = nil
    var digest: UInt64 = 0
    /// A start's, drawn when it is laid out: tells this record from every other of the same start, here or at another worker.
    var claim: UInt64 = 0
    /// What names the draw, of one that made one.
    var startDraw: Int64 = 0
    /// What is sent, by default the policy's. A start is not sent after it, even by default.
    var sentExpiration: Int64 = -1
    /// UNIX seconds; -1: it has none.
    var staleDate: Int64 = -1
    var sentTimestamp: Int64 = 0
    var registeredAtMilliseconds: Int64 = 0
    var invalidAtMilliseconds: Int64 = -1
    var apnsIdentifier: (UInt64, UInt64) = (0, 0)
    /// The connection of the last attempt, or 0.
    var connection: UInt32 = 0

    var rider: UInt32 { riderLink.rider }

    /// Of its own, or carried; then it may still have to be put into the body.
    var hasAlert: Bool { !layout.alert.isAbsent || rider != .max }
}

/// What the settle script is told of a command that was admitted to be sent.
public enum Settlement: UInt8, Sendable, BitwiseCopyable {
    /// Nothing: the command was never admitted to be sent.
    case none
    /// APNs took it: the activity shows it now.
    case accepted
    /// It is over and was not shown.
    case final
    /// A start whose answer was lost.
    case unknown
}

/// Which of the two topics that Causeway reads a record came from.
public enum RecordTopic: UInt8, Sendable, BitwiseCopyable {
    case commands
    case registrations
}
