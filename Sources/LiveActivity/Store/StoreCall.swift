/// One question to the activity store about one activity or one device.
///
/// The core makes these values, the store and its model consume them: nothing translates between the two. `Bytes` is
/// `UnsafeRawBufferPointer` on the way from the core, where the bytes are borrowed for the duration of one call, and
/// `[UInt8]` where a call has to be kept.
///
/// Every operation is atomic, and repeating one whose reply was lost is safe; what a repetition costs stands with the operation.
@frozen
public struct StoreCall<Bytes> {
    /// Comes back with the reply.
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
        // On an activity.

        /// Decides what happens to an update or an end. Every verdict of ``StoreVerdict`` that is not a start's or a registration's.
        case admit(StateAdmission<Bytes>)
        /// Decides what happens to a start: `send`, `superseded`, `duplicate`, or `unknown`, which the caller has to settle.
        ///
        /// The claim identifies the caller's record of the start among all records of it anywhere. The same claim gets its `send` again,
        /// so a call whose reply was lost can be repeated. A claim must not be used again once its push may have been sent: a record that
        /// was deferred comes with another, and names the one before, which gives way to it. Only the first reader of it is told `send`.
        case admitStart(version: Version, claim: UInt64, formerClaim: UInt64? = nil)
        /// Keeps an update or an end until a token registers: `held`, `superseded`, `duplicate`, or `retry` if a token has registered.
        case hold(version: Version, command: Bytes, carriesAlert: Bool)
        /// Registers an update token: `registered`, with the command that waited for the token, or `stale`.
        ///
        /// `frequentUpdates` nil leaves the setting as it was. `shows` is the version that the app displays already: a held command
        /// comes back only if it is newer.
        ///
        /// `audiences` (``AudienceList``) are those that the activity is in from now on; nil leaves them as they were. Those that it
        /// leaves come back as ``StoreReply/leaves``, in place of a command that waited.
        case register(
            TokenRegistration<Bytes>,
            frequentUpdates: Bool?,
            shows: Version?,
            source: RegistrationSource,
            audiences: Bytes?
        )
        /// Retires the token: `settled`. The version, which was sent to it, is as it was, and can be held. The activity leaves its audiences.
        ///
        /// The version may be one that nobody has, (0, 0): then only the token is retired.
        case retire(version: Version, TokenRetirement<Bytes>)
        /// Records how a version ended, and may retire the token: `settled`. The digest is of what is shown now, if accepted.
        ///
        /// An activity whose end is accepted, or whose token is retired, leaves its audiences: ``StoreReply/leaves``.
        ///
        /// `alert` is the version of the command whose alert APNs accepted with this one; nil: it had none, or a start's.
        case settle(
            version: Version,
            Settlement,
            digest: UInt64,
            retirement: TokenRetirement<Bytes>?,
            alert: Version? = nil
        )
        /// Records that APNs limits the activity's token (429), so that the spacing grows: `settled`.
        case limit(version: Version, pace: Policy.Pace)
        /// Lets the newest update or end be admitted again though it was settled, since it was never shown: `retry`, `duplicate` if it was
        /// shown or is a start, or `superseded`. For a replay, which brings the command once more by intent; a worker never does.
        case reopen(version: Version)

        // On a device.

        /// Looks up a push-to-start token: `address`, which draws one start, `noToken`, or `wait` while the budget is empty.
        ///
        /// A registration that came with the start counts as registered. A repeated call may draw twice: one start too late is better
        /// than one too many.
        case address(
            attributesType: Bytes,
            startBudget: Policy.Bucket,
            registration: TokenRegistration<Bytes>?
        )
        /// Keeps a start until its token registers: as ``hold(version:command:carriesAlert:)``, or `full`.
        case holdStart(HeldStart<Bytes>, command: Bytes)
        /// Registers a push-to-start token: `registered`, with the oldest start that waits for the token, or `stale`.
        ///
        /// An audience is left when no attributes type of the device names it.
        case registerDevice(
            attributesType: Bytes,
            TokenRegistration<Bytes>,
            DeviceRegistrationStep<Bytes>,
            isCarried: Bool
        )
        /// Removes a held start that is over, and may retire its token: `settled`.
        case settleStart(HeldStart<Bytes>, Settlement, retirement: TokenRetirement<Bytes>?)
        /// Refunds the draw of a start that was not sent, as far as the bucket has not refilled since: `settled`.
        case refundStart(startBudget: Policy.Bucket, draw: Int64)

        // On either.

        /// Takes the activity's token, or all tokens of the device, out of use: `unregistered`, or `stale` if one registered later. It leaves
        /// its audiences.
        case unregister(atMilliseconds: Int64)
        /// The audiences that a reply named as left (``StoreReply/leaves``) know of it: `settled`. Until then they are named again. Nothing
        /// is confirmed if the subject was registered or unregistered since: then that one's reply has named them too.
        case confirmLeaves(atMilliseconds: Int64)
    }
}

/// What a call is about. An activity and a device of the same id are two subjects.
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

/// An update or an end that asks to be admitted.
///
/// The order of its members keeps it small: a call is copied on its way.
@frozen
public struct StateAdmission<Bytes> {
    public var version: Version
    /// Of what the activity would show, the alert included; an update that equals what is shown is `unchanged`. 48 bits of the digest
    /// are compared. Not used for an end.
    public var digest: UInt64
    public var pace: Policy.Pace
    /// By how many seconds the carried alert's command is older; `Int32.min`: no alert is carried.
    @usableFromInline var carriedAlertSeconds: Int32
    public var isEnd: Bool
    /// Asks for priority 10, which the budget may refuse; else for 5, which draws nothing.
    public var asksForHighPriority: Bool
    /// May draw on the reserved part of the budget: carries an alert, or is an end.
    public var mayUseReserve: Bool
    /// Carries an alert, its own or the held command's, or has found that the held command's alert does not fit: the store does
    /// not offer that alert again.
    public var carriesAlert: Bool
    /// Is older than the system lets an activity live: expired, if the store knows no version of the activity.
    public var isOld: Bool
    /// Is read once more, since the store has lost what it wrote. Where its token is the first that is known, nothing was sent since the loss,
    /// and what was sent before may have had timestamps above the commands' own: the next push's is above the present second.
    public var isReadAgain: Bool
    @usableFromInline var carriedAlertSequence: UInt64
    /// An update token that came with the command. It counts as registered when it was first told, unless it is the last that was
    /// retired, and says nothing of frequent updates.
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
            // Of seventy years' distance nothing depends.
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

/// A token as it comes with a registration or a command.
@frozen
public struct TokenRegistration<Bytes> {
    /// Not empty.
    public var token: Bytes
    /// UNIX milliseconds. Of two registrations the later one counts, of equal ones the last to arrive.
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
    /// Retire the token only if it was registered before this time, UNIX milliseconds; nil: whenever it was registered.
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
    /// Which of the device's tokens. Not empty.
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

/// Which of the calls this is that one registration of a device's token makes.
///
/// The two have nothing in common, and share their place: a call is copied on its way, and admissions, which are the most, decide how large
/// it may be.
@frozen
public enum DeviceRegistrationStep<Bytes> {
    /// `audiences` as in ``StoreCall/Operation/register(_:frequentUpdates:shows:source:audiences:)``.
    /// `takesChannels`: the device's activities may begin on a broadcast channel; only its audiences keep that.
    case first(audiences: Bytes?, takesChannels: Bool = false)
    /// Names the start that came back last; the next one follows, in the order of their versions. Audiences stay as they were.
    case following(HeldStart<Bytes>)

    /// The start that came back last; nil: none has.
    @inlinable
    public var heldStart: HeldStart<Bytes>? {
        if case .following(let start) = self { start } else { nil }
    }

    /// Those that the device is in from now on; nil: whatever it was in.
    @inlinable
    public var audiences: Bytes? {
        if case .first(let audiences, _) = self { audiences } else { nil }
    }
}

/// How a command that was admitted to be sent ended.
public enum Settlement: UInt8, Sendable, BitwiseCopyable {
    /// APNs answered 200: the activity shows this version.
    case accepted
    /// The command is over, and the activity shows what it showed before.
    case notShown
    /// A start whose answer was lost: it is not sent again.
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
