/// A call to the activity store about one activity or one device.
///
/// The core makes these values, and the store and its model consume them: nothing translates between them. `Bytes` is
/// `UnsafeRawBufferPointer` on the way from the core, where the bytes are borrowed for one call. It is `[UInt8]` where a call
/// must be kept.
///
/// Every operation is atomic. It is safe to repeat one whose reply was lost, except a refund; each operation says what a
/// repetition costs.
@frozen
public struct StoreCall<Bytes> {
    /// Returned with the reply.
    public var tag: UInt64
    public var subject: StoreSubject<Bytes>
    public var operation: Operation

    @inlinable
    public init(tag: UInt64, subject: StoreSubject<Bytes>, operation: Operation) {
        self.tag = tag
        self.subject = subject
        self.operation = operation
    }

    @frozen
    public enum Operation {
        // Operations on an activity.

        /// Decides about an update or an end. The reply is any ``StoreVerdict`` except those for starts and registrations.
        case admit(StateAdmission<Bytes>)
        /// Decides about a start: `send`, `superseded`, `duplicate`, or `unknown`, which the caller must settle.
        ///
        /// The claim identifies the caller's record among all records of the start. The same claim gets its `send` again, so a
        /// call whose reply was lost can be repeated. A claim must not be used again once its push may have been sent. A record
        /// that was deferred comes with a new claim and names the previous one, which the new one replaces. Only the first reader
        /// that does so is told `send`.
        case admitStart(version: Version, claim: UInt64, previousClaim: UInt64? = nil)
        /// Stores an update or end until a token registers: `held`, `superseded`, `duplicate`, or `retry` if a token has
        /// registered.
        case hold(version: Version, command: Bytes, carriesAlert: Bool)
        /// Registers an update token: `registered`, with the command that waited for the token, or `stale`.
        ///
        /// `frequentUpdates` nil keeps the setting. `shows` is the version that the app already displays: a held command is
        /// returned only if it is newer.
        ///
        /// `audiences` (``AudienceList``) are the audiences that the activity is in from now on; nil keeps them. The audiences
        /// that it leaves are returned as ``StoreReply/leaves``, instead of a command that waited.
        case register(
            TokenRegistration<Bytes>,
            frequentUpdates: Bool?,
            shows: Version?,
            source: RegistrationSource,
            audiences: Bytes?
        )
        /// Retires the token; the reply is `settled`. The activity leaves its audiences. The newest version keeps its state, so that
        /// its command can be held for the next token.
        ///
        /// The version (0, 0), which no command has, retires only the token.
        case retire(version: Version, TokenRetirement<Bytes>)
        /// Records how a version ended, and may retire the token: `settled`. If the version was accepted, the digest is of what
        /// the activity shows now.
        ///
        /// An activity whose end is accepted, or whose token is retired, leaves its audiences: ``StoreReply/leaves``.
        ///
        /// `alert` is the version of the command whose alert APNs accepted with this one; nil: there was no alert, or it was a
        /// start's.
        case settle(
            version: Version,
            Settlement,
            digest: UInt64,
            retirement: TokenRetirement<Bytes>?,
            alert: Version? = nil
        )
        /// Records that APNs limits the activity's token (429), so that the spacing grows: `settled`.
        case limit(version: Version, pace: Policy.Pace)
        /// Makes it possible to admit the newest update or end again, although it was settled, because it was never shown:
        /// `retry`; `duplicate` if it was shown or is a start; or `superseded`. Only a replay uses this, to bring the command
        /// again on purpose; a worker never does.
        case reopen(version: Version)

        // Operations on a device.

        /// Looks up a push-to-start token: `address`, which draws one start; `noToken`; or `wait` while the budget is empty.
        ///
        /// A registration that came with the start counts as registered. A repeated call may draw twice: one start too late is
        /// better than one start too many.
        case address(
            attributesType: Bytes,
            startBudget: Policy.Bucket,
            registration: TokenRegistration<Bytes>?
        )
        /// Stores a start until its token registers: the verdicts of ``hold(version:command:carriesAlert:)``, or `full`.
        case holdStart(HeldStart<Bytes>, command: Bytes)
        /// Registers a push-to-start token: `registered`, with the oldest start that waits for the token, or `stale`.
        ///
        /// The device leaves an audience when none of its attributes types names it.
        case registerDevice(
            attributesType: Bytes,
            TokenRegistration<Bytes>,
            DeviceRegistrationStep<Bytes>,
            isCarried: Bool
        )
        /// Removes a held start that is finished, and may retire its token: `settled`.
        case settleStart(HeldStart<Bytes>, Settlement, retirement: TokenRetirement<Bytes>?)
        /// Refunds the draw of a start that was not sent, as far as the bucket has not refilled since: `settled`. Not safe to
        /// repeat.
        case refundStart(startBudget: Policy.Bucket, draw: Int64)

        // Operations on either.

        /// Removes the activity's token, or all tokens of the device: `unregistered`, or `stale` if one registered later. The
        /// subject leaves its audiences.
        case unregister(atMilliseconds: Int64)
        /// Notes that the audiences which a reply named as left (``StoreReply/leaves``) know of it: `settled`. Until then they
        /// are named again. Nothing is confirmed if the subject was registered or unregistered since, because that reply has
        /// named the audiences too.
        case confirmLeaves(atMilliseconds: Int64)

        // Operations on an activity's place in the timetable of lifetimes. They touch nothing else of the activity.

        /// Notes in the timetable what was learned about an activity's life: `settled`.
        case noteLife(LifetimeEvent, keeping: KeptCommand<Bytes>? = nil)
        /// Asks whether the life that began then is still in the timetable: `retry`, or `superseded`. Until `leaseMilliseconds` are
        /// over, or longer if the activity was claimed often, no keeper claims the activity again.
        /// - Parameter state: what a start would show. `superseded` too if the timetable keeps a newer state; then the activity is due
        ///   at once. Nil: not compared.
        case checkLife(beganMilliseconds: Int64, state: Version?, leaseMilliseconds: Int64)
    }
}

/// What a call is about. An activity and a device with the same id are two subjects.
@frozen
public struct StoreSubject<Bytes> {
    /// The app's bundle id.
    public var app: Bytes
    public var kind: StoreSubjectKind
    /// The activity's or the device's id.
    public var identifier: Bytes

    @inlinable
    public init(app: Bytes, kind: StoreSubjectKind, identifier: Bytes) {
        self.app = app
        self.kind = kind
        self.identifier = identifier
    }
}

public enum StoreSubjectKind: UInt8, Sendable, BitwiseCopyable {
    case activity
    case device
}

/// An update or end that asks for its admission.
///
/// The order of the fields keeps the value small, because a call is copied on its way.
@frozen
public struct StateAdmission<Bytes> {
    public var version: Version
    /// The digest of what the activity would show, including the alert. An update that equals what is shown is `unchanged`. 48
    /// bits of the digest are compared. Not used for an end.
    public var digest: UInt64
    public var pace: Policy.Pace
    /// By how many seconds the carried alert's command is older; `Int32.min`: no alert is carried.
    @usableFromInline var carriedAlertSeconds: Int32
    public var isEnd: Bool
    /// Requests priority 10, which the budget may refuse; otherwise 5, which draws nothing.
    public var asksForHighPriority: Bool
    /// May draw on the reserved part of the budget, because it carries an alert or is an end.
    public var mayUseReserve: Bool
    /// Carries an alert, its own or the held command's, or has found that the held command's alert does not fit. The store does
    /// not offer that alert again.
    public var carriesAlert: Bool
    /// Is older than the system lets an activity live. It is expired if the store knows no version of the activity.
    public var isOld: Bool
    /// Is read again because the store lost what it wrote. If its token is the first known one, the next push gets a timestamp
    /// above the present second: pushes before the loss may have had timestamps above their commands' own, and phones ignore
    /// older ones.
    public var isReadAgain: Bool
    @usableFromInline var carriedAlertSequence: UInt64
    /// An update token that came with the command. It counts as registered when it was first told, unless it is the last retired
    /// token. It says nothing about frequent updates.
    public var registration: TokenRegistration<Bytes>?

    @inlinable
    public init(
        isEnd: Bool,
        version: Version,
        digest: UInt64,
        pace: Policy.Pace,
        asksForHighPriority: Bool,
        mayUseReserve: Bool,
        carriesAlert: Bool,
        carriedAlert: Version? = nil,
        isOld: Bool,
        isReadAgain: Bool = false,
        registration: TokenRegistration<Bytes>?
    ) {
        self.isEnd = isEnd
        self.version = version
        self.digest = digest
        self.pace = pace
        self.asksForHighPriority = asksForHighPriority
        self.mayUseReserve = mayUseReserve
        self.carriesAlert = carriesAlert
        self.isOld = isOld
        self.isReadAgain = isReadAgain
        if let carriedAlert {
            let seconds = version.timestamp.subtractingReportingOverflow(carriedAlert.timestamp).partialValue
            // Nothing depends on a distance of seventy years.
            carriedAlertSeconds = max(.min + 1, Int32(clamping: seconds))
            carriedAlertSequence = carriedAlert.sequence
        } else {
            carriedAlertSeconds = .min
            carriedAlertSequence = 0
        }
        self.registration = registration
    }

    /// The version of the older command whose alert this one carries; nil: its alert is its own, or it has none.
    @inlinable
    public var carriedAlert: Version? {
        guard carriedAlertSeconds > .min else { return nil }
        return Version(timestamp: version.timestamp &- Int64(carriedAlertSeconds), sequence: carriedAlertSequence)
    }
}

/// A token from a registration or a command.
@frozen
public struct TokenRegistration<Bytes> {
    /// Not empty.
    public var token: Bytes
    /// UNIX milliseconds. The later of two registrations counts, and of two at the same time the last one to arrive.
    public var registeredAtMilliseconds: Int64
    public var environment: DeviceEnvironment

    @inlinable
    public init(token: Bytes, environment: DeviceEnvironment, registeredAtMilliseconds: Int64) {
        self.token = token
        self.environment = environment
        self.registeredAtMilliseconds = registeredAtMilliseconds
    }
}

/// A token that APNs has declared dead.
@frozen
public struct TokenRetirement<Bytes> {
    /// Not empty.
    public var token: Bytes
    public var environment: DeviceEnvironment
    /// The token is retired only if it was registered before this time, UNIX milliseconds; nil: whenever it was registered.
    public var invalidAtMilliseconds: Int64?

    @inlinable
    public init(token: Bytes, environment: DeviceEnvironment, invalidAtMilliseconds: Int64?) {
        self.token = token
        self.environment = environment
        self.invalidAtMilliseconds = invalidAtMilliseconds
    }
}

/// A start that waits for a device's push-to-start token.
@frozen
public struct HeldStart<Bytes> {
    /// Chooses one of the device's tokens. Not empty.
    public var attributesType: Bytes
    /// The activity that the start begins. Not empty.
    public var activity: Bytes
    public var version: Version

    @inlinable
    public init(attributesType: Bytes, activity: Bytes, version: Version) {
        self.attributesType = attributesType
        self.activity = activity
        self.version = version
    }
}

/// Which call this is of those that one registration of a device's token makes.
///
/// The two cases have nothing in common and share their memory. A call is copied on its way, and admissions, the most frequent
/// calls, decide how large a call may be.
@frozen
public enum DeviceRegistrationStep<Bytes> {
    /// `audiences`: see ``StoreCall/Operation/register(_:frequentUpdates:shows:source:audiences:)``. `takesChannels`: the
    /// device's activities may begin on a broadcast channel; only its audiences store that.
    case first(audiences: Bytes?, takesChannels: Bool = false)
    /// Names the start that was returned last. The reply has the next one, in the order of their versions. The audiences do not
    /// change.
    case following(HeldStart<Bytes>)

    /// The start that was returned last; nil: none was.
    @inlinable
    public var heldStart: HeldStart<Bytes>? {
        if case .following(let start) = self { start } else { nil }
    }

    /// The audiences that the device is in from now on; nil: they do not change.
    @inlinable
    public var audiences: Bytes? {
        if case .first(let audiences, _) = self { audiences } else { nil }
    }
}

/// How a command ended that was admitted to be sent.
public enum Settlement: UInt8, Sendable, BitwiseCopyable {
    /// APNs answered 200: the activity shows this version.
    case accepted
    /// The command has ended, and the activity shows what it showed before.
    case notShown
    /// A start whose answer was lost. It is not sent again.
    case unknown
}

extension StoreSubject: Equatable where Bytes: Equatable {}
extension StateAdmission: Equatable where Bytes: Equatable {}
extension TokenRegistration: Equatable where Bytes: Equatable {}
extension TokenRegistration: Hashable where Bytes: Hashable {}
extension TokenRegistration: Sendable where Bytes: Sendable {}
extension TokenRetirement: Equatable where Bytes: Equatable {}
extension HeldStart: Equatable where Bytes: Equatable {}
extension HeldStart: Sendable where Bytes: Sendable {}
extension DeviceRegistrationStep: Equatable where Bytes: Equatable {}
