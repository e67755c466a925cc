/// A call to the activity store about one activity or one device.
///
/// The core makes these values, and the store and its model use them without translation. A call from the core
/// has borrowed bytes: `Bytes` is `UnsafeRawBufferPointer`, valid only until the function that gets the call
/// returns. A call that must be kept has bytes of its own: `Bytes` is `[UInt8]`.
///
/// Every operation is atomic. An operation whose reply was lost can be repeated, except a refund. If a
/// repetition has a cost, the operation's comment says so.
@frozen
public struct StoreCall<Bytes> {
    /// The caller's number for the call. The reply has the same number.
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

        /// Decides about an update or an end. Reply (see ``StoreVerdict``): `send`, `wait`, `noToken`, `held`,
        /// `duplicate`, `superseded`, `ended`, `unchanged`, `activityOver`, `expired`, `departures`, or a verdict about
        /// an alert.
        case admit(StateAdmission<Bytes>)
        /// Decides about a start. Reply: `send`, `superseded`, `duplicate`, or `unknown`. The caller must
        /// settle a start that is `unknown`.
        ///
        /// Several records may bring the same start. The claim identifies the caller's record among them. A call with
        /// the same claim gets the same `send` again, so it can be repeated if its reply was lost. But if the activity
        /// has ended or lives already, the reply is `superseded`. A claim must not be used again once its push may have
        /// been sent.
        ///
        /// A record that is read again after its deferral has a new claim and names its previous claim. If the
        /// start still has the previous claim, the new claim replaces it, and the reply is `send`. So of several
        /// records that name the same previous claim, only the first gets `send`. (R16)
        case admitStart(version: Version, claim: UInt64, previousClaim: UInt64? = nil)
        /// Records a start that is read again, because Redis lost its data. Reply: `settled`. Older updates and
        /// ends then belong to an earlier life, and the start has opened the activity for newer ones. The token stays,
        /// because it may be the new life's. If Redis holds an older command, the call changes nothing. If the same
        /// start has another record, which is not settled yet, that record may still be admitted. (R25)
        case recordStart(version: Version)
        /// Stores an update or end until a token is registered. Reply: `held`, `superseded`, `duplicate`, or
        /// `retry` if a token was registered since the admission.
        case hold(version: Version, command: Bytes, carriesAlert: Bool)
        /// Registers an update token. Reply: `registered`, with the command that waited for the token; `stale`; or
        /// `full`.
        ///
        /// `allowsFrequentUpdates`: whether the user allows frequent updates; nil keeps the present setting.
        /// `shownVersion` is the version that the app displays already: the reply has the held command only if it is
        /// newer.
        ///
        /// `audiences` (``AudienceList``) are the audiences that the activity is in from now on. If the activity leaves
        /// audiences, the reply names them (``StoreReply/departures``), and has no held command. If `audiences` is nil,
        /// the activity stays in its present audiences. It is nil if the token came with a command, or if the caller
        /// repeats a registration. A repeated registration is also `stale` if Redis has recorded another registration
        /// or an unregistration with the same time since the first call.
        case register(
            TokenRegistration<Bytes>,
            allowsFrequentUpdates: Bool?,
            shownVersion: Version?,
            source: RegistrationSource,
            audiences: Bytes?
        )
        /// Retires a token, if the activity still has it. The activity then leaves its audiences. Reply: `settled`. No
        /// version is settled, so the command whose push found the token dead can be held for the next token.
        ///
        /// Redis does not use the version. A caller without a command passes the version (0, 0), which no command has.
        case retire(version: Version, TokenRetirement<Bytes>)
        /// Records how a version ended, and may retire the token. Reply: `settled`. If the version was
        /// accepted, `digest` is the digest of the state that the activity shows now.
        ///
        /// An activity whose end is accepted, or whose token is retired, leaves its audiences
        /// (``StoreReply/departures``).
        ///
        /// `alert` is the version of the command whose alert APNs accepted with this version; nil if there
        /// was no alert, or if the alert was a start's.
        case settle(
            version: Version,
            Settlement,
            digest: UInt64,
            retirement: TokenRetirement<Bytes>?,
            alert: Version? = nil
        )
        /// Records that APNs throttles the activity's token (429), so that the spacing grows. Reply: `settled`.
        case throttle(version: Version, pace: Policy.Pace)
        /// Allows Redis to admit the newest update or end again, if it was settled but never shown. Reply: `retry` if
        /// Redis can admit the version now, also if it was not settled before the call; `duplicate` if it was shown or
        /// is a start; `superseded` if it is not the newest. Only `causeway replay` makes this call, never a worker.
        case reopen(version: Version)

        // Operations on a device.

        /// Gets the token for a start, and draws the start from the device's budget. Reply: `tokenFound`; `noToken`; or
        /// `wait` while the budget is empty. `noToken` and `wait` draw nothing.
        ///
        /// A token that came with the start is registered first. A repeated call may draw twice. Then later
        /// starts wait longer than necessary.
        case takeStartToken(
            attributesType: Bytes,
            startBudget: Policy.Bucket,
            registration: TokenRegistration<Bytes>?
        )
        /// Stores a start until a push-to-start token for its attributes type registers. Reply: `held`; `superseded`;
        /// `retry` if the device has a token; or `full` if too many starts wait for this token.
        case holdStart(HeldStart<Bytes>, command: Bytes)
        /// Registers a push-to-start token. Reply:
        /// - `registered`, with the next start that waits for a token. If the reply has ``StoreReply/departures``, it
        ///   has no start.
        /// - `registered` also if the token was not stored, but Redis has a newer token and a start waits. The caller
        ///   sends the start to the newer token.
        /// - `stale` if the token was not stored in any other case.
        /// - `full` if too many audiences do not know yet that the device has left them.
        ///
        /// A device has one registration for each attributes type. The device stays in an audience while at least one
        /// of these registrations names the audience. `isFromCommand`: the token came with a command. If so,
        /// Redis keeps the time of a token that it has already, and the reply for a retired token is `stale`.
        case registerDevice(
            attributesType: Bytes,
            TokenRegistration<Bytes>,
            DeviceRegistrationStep<Bytes>,
            isFromCommand: Bool
        )
        /// Removes a held start that is finished, and may retire the push-to-start token to which it was sent. Reply:
        /// `settled`.
        case settleStart(HeldStart<Bytes>, Settlement, retirement: TokenRetirement<Bytes>?)
        /// Refunds the draw of a start that was not sent. Redis refunds only the part that time has not refilled since.
        /// Reply: `settled`. Must not be repeated, because each call refunds again. (R15)
        case refundStart(startBudget: Policy.Bucket, drawIdentifier: Int64)

        // Operations on an activity or a device.

        /// Removes the tokens of the activity or device that were registered at this time or earlier. Reply:
        /// `unregistered`, or `stale` if no token was removed because all were registered later. The activity or device
        /// leaves the audiences of the removed tokens' registrations. But a device stays in an audience that a
        /// registration with another token names.
        case unregister(atMilliseconds: Int64)
        /// Confirms that each audience in a reply's ``StoreReply/departures`` has an entry that says that the member
        /// left. Reply: `settled`. Until the confirmation, other replies name these audiences too, because the worker
        /// that got the first reply may have died. (R27)
        ///
        /// `atMilliseconds` is the time in the reply. If Redis has another time by now, for example after a later
        /// registration, the call has no effect. The next reply then has the other time, with which the audiences must
        /// be confirmed.
        case confirmDepartures(atMilliseconds: Int64)

        // Operations on an activity's life in the timetable of lifetimes. They do not change the activity's own
        // value in Redis.

        /// Records an event of an activity's life in the timetable. Reply: `settled`. (R34)
        case reportLifetimeEvent(LifetimeEvent, keeping: KeptCommand<Bytes>? = nil)
        /// Asks whether the timetable still has the life that began at `beganAtMilliseconds`. Reply: `retry` if it has,
        /// so that the caller may send its command; else `superseded`. After `retry`, no worker claims the activity for
        /// `leaseMilliseconds`. Each claim after the first doubles this time, up to eight times `leaseMilliseconds`.
        /// - Parameter stateVersion: the version of the state that a start would show; nil for an end. If the
        ///   timetable keeps a newer state, the reply is `superseded`, and the activity is due at once.
        case checkLifetime(beganAtMilliseconds: Int64, stateVersion: Version?, leaseMilliseconds: Int64)
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

/// The parts of an update or end that decide about its admission.
///
/// The order of the fields keeps the value small, because a call is copied on its way.
@frozen
public struct StateAdmission<Bytes> {
    public var version: Version
    /// The digest of what the activity would show, including the alert. Redis compares 48 bits of it with the
    /// digest of the shown state. If they are equal, an update is `unchanged`. Not compared for an activity in an
    /// audience, because a push to the audience may have replaced the shown state. Not used for an end.
    public var digest: UInt64
    public var pace: Policy.Pace
    /// If this command carries an older command's alert: by how many seconds that command is older than this one.
    /// Otherwise `Int32.min`. A whole version would make every store call larger, and so cost every command more.
    @usableFromInline var carriedAlertAgeSeconds: Int32
    public var isEnd: Bool
    /// Whether the command asks for priority 10, which the budget may refuse. Priority 5 draws nothing from
    /// the budget.
    public var requestsHighPriority: Bool
    /// Whether the command may draw on the reserved part of the budget, because it carries an alert or is an
    /// end.
    public var mayUseReserve: Bool
    /// Whether this command has an alert, or has no room for a held command's alert in its body. If true, Redis does
    /// not reply ``StoreVerdict/alertHeld``.
    public var mayReplaceHeldAlert: Bool
    /// Whether the command is so old that Apple's system no longer shows its activity: more than eight hours for an
    /// update, more than twelve for an end. Such a command is `expired` if Redis knows no version of its activity.
    public var isTooOld: Bool
    /// Whether the record is read again because Redis lost data. Redis then no longer knows the raised timestamps of
    /// earlier pushes. So if Redis has no token and the command brings one, the next push gets a timestamp above the
    /// present second (``RegistrationSource/reread``).
    public var isReread: Bool
    /// Whether this end ends the activity's life even if a start with a newer version began it. Otherwise Redis
    /// supersedes an end that is older than the newest start, because the end belongs to an earlier life. (R13)
    public var endsNewerLife: Bool
    @usableFromInline var carriedAlertSequence: UInt64
    /// An update token that came with the command. The admission registers it, with three exceptions: Redis has this
    /// token already; Redis has a newer registration or unregistration; or this is the last token that Redis retired.
    /// The admission does not change whether frequent updates are allowed.
    public var registration: TokenRegistration<Bytes>?

    @inlinable
    public init(
        isEnd: Bool,
        version: Version,
        digest: UInt64,
        pace: Policy.Pace,
        requestsHighPriority: Bool,
        mayUseReserve: Bool,
        mayReplaceHeldAlert: Bool,
        carriedAlertVersion: Version? = nil,
        isTooOld: Bool,
        isReread: Bool = false,
        endsNewerLife: Bool = false,
        registration: TokenRegistration<Bytes>?
    ) {
        self.isEnd = isEnd
        self.version = version
        self.digest = digest
        self.pace = pace
        self.requestsHighPriority = requestsHighPriority
        self.mayUseReserve = mayUseReserve
        self.mayReplaceHeldAlert = mayReplaceHeldAlert
        self.isTooOld = isTooOld
        self.isReread = isReread
        self.endsNewerLife = endsNewerLife
        if let carriedAlertVersion {
            let seconds = version.timestamp.subtractingReportingOverflow(carriedAlertVersion.timestamp).partialValue
            // If the commands are more than 68 years apart, the number is clamped, because no decision depends on it.
            carriedAlertAgeSeconds = max(.min + 1, Int32(clamping: seconds))
            carriedAlertSequence = carriedAlertVersion.sequence
        } else {
            carriedAlertAgeSeconds = .min
            carriedAlertSequence = 0
        }
        self.registration = registration
    }

    /// The version of the older command whose alert this command carries; nil if the command has its own alert or none.
    @inlinable
    public var carriedAlertVersion: Version? {
        guard carriedAlertAgeSeconds > .min else { return nil }
        return Version(timestamp: version.timestamp &- Int64(carriedAlertAgeSeconds), sequence: carriedAlertSequence)
    }
}

/// A token from a registration or a command.
@frozen
public struct TokenRegistration<Bytes> {
    /// Not empty.
    public var token: Bytes
    /// UNIX milliseconds. Redis keeps the registration with the latest time. If several have the same time, it
    /// keeps the one that arrives last.
    public var registeredAtMilliseconds: Int64
    public var environment: APNsEnvironment

    @inlinable
    public init(token: Bytes, environment: APNsEnvironment, registeredAtMilliseconds: Int64) {
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
    public var environment: APNsEnvironment
    /// The token is retired only if it was registered before this time, UNIX milliseconds. The app may have registered
    /// the token again since APNs found it dead. Nil: it is retired in any case.
    public var invalidAtMilliseconds: Int64?

    @inlinable
    public init(token: Bytes, environment: APNsEnvironment, invalidAtMilliseconds: Int64?) {
        self.token = token
        self.environment = environment
        self.invalidAtMilliseconds = invalidAtMilliseconds
    }
}

/// A start that waits for a device's push-to-start token.
@frozen
public struct HeldStart<Bytes> {
    /// The attributes type of the activity. The device has one token for each attributes type. Not empty.
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

/// One step of a device's registration, which takes one call or more. The first call registers the token. Each
/// following call returns the next held start.
///
/// This is an enum so that the values of the two cases share memory. Every ``StoreCall`` is copied, so a rare
/// operation must not make all calls larger: 17 more bytes cost each command 257 instructions (Measurements.md).
@frozen
public enum DeviceRegistrationStep<Bytes> {
    /// `audiences`: see ``StoreCall/Operation/register(_:allowsFrequentUpdates:shownVersion:source:audiences:)``.
    /// `supportsChannels`: whether the device's activities may begin on a broadcast channel. Redis stores
    /// `supportsChannels` only in the device's audiences.
    case first(audiences: Bytes?, supportsChannels: Bool = false)
    /// Asks for the next held start, in the order of the versions, after the start that the previous reply returned.
    /// The device's audiences do not change, because the call with `first` has set them.
    case following(HeldStart<Bytes>)

    /// The start that the previous reply returned; nil for `first`.
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

/// How an admitted command ended.
public enum Settlement: UInt8, Sendable, BitwiseCopyable {
    /// APNs responded with 200, so the activity counts as showing this version.
    case accepted
    /// The command is settled, and APNs never responded with 200 to it. As far as Causeway knows, the activity does not
    /// show this version. If a response of APNs was lost, the activity may show it nevertheless.
    case notShown
    /// A start whose response was lost. It is not sent again.
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
