/// A call to the store about one activity or one device.
///
/// The core makes these values. A call from the core has borrowed bytes (`Bytes` is `UnsafeRawBufferPointer`), which
/// are valid only until the function that gets the call returns. A call that is kept longer has bytes of its own
/// (`Bytes` is `[UInt8]`).
///
/// Every operation is atomic. An operation whose reply was lost can be repeated, except a refund. If a repetition has a
/// cost, the operation's comment says so.
@frozen
public struct StoreCall<Bytes> {
    /// The caller's number for the call, which the caller gets back with the reply.
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

        /// Decides about an update or an end. Reply: any ``AdmissionVerdict`` except `unknown`.
        case admit(StateAdmission<Bytes>)
        /// Decides about a record that brings a start. Several records may bring the same start, but Redis lets only
        /// one of them send it (R16). Reply:
        /// - `send`: this record may send the start. A repeated call with the same claim gets the same `send` again, or
        ///   `superseded` if the start is not needed any more.
        /// - `unknown`: another record got `send`, and is not settled. The caller settles its start as `unknown`.
        /// - `duplicate`: this version is settled; or Redis knows it only from `recordStart`, and the activity's token
        ///   was registered at the version's timestamp or later.
        /// - `superseded`: a newer version exists; or the start is not needed, because the activity already lives or
        ///   has already ended.
        ///
        /// - Parameters:
        ///   - claim: identifies the caller's record among the records of the start. As soon as the record's push may
        ///     have been sent, the caller must not use the claim again.
        ///   - previousClaim: the claim that the record had before it was deferred; nil if it was not deferred, or if
        ///     Redis has admitted it since. If this is still the claim that Redis has for the start, `claim` replaces
        ///     it, and the reply is `send`. So only the first of several records with the same previous claim gets
        ///     `send`.
        case admitStart(version: Version, claim: UInt64, previousClaim: UInt64? = nil)
        /// Records the version of a start that is read again, because Redis lost data (R25). The start is not sent
        /// again. Reply: `settled`.
        ///
        /// - Older updates and ends then belong to an earlier life, and newer ones to the life of this start.
        /// - The activity's token stays, because it may belong to this life.
        /// - Another record of the same start, which is not settled yet, may still get `send` (`admitStart`).
        /// - The eight hours for updates begin at the start's timestamp, unless Redis knows that they began later.
        /// - The start is not recorded if Redis knows this start or a newer one. Nor is it recorded if, as the newest
        ///   version, it would replace a held command: perhaps no worker ever sent this start.
        case recordStart(version: Version)
        /// Stores an update or end until a token is registered. Reply: `held`, `superseded` or `duplicate`; `retry` if
        /// a token was registered since the admission.
        ///
        /// A repeated call for a command that is held already gets `held`, even if a token was registered after the
        /// first call: the reply to this token's registration has the command.
        case hold(version: Version, command: Bytes, hasAlert: Bool)
        /// Registers an update token. Reply: `registered`, with the command that waited for the token; `stale`; or
        /// `full`.
        ///
        /// - Parameters:
        ///   - allowsFrequentUpdates: whether the user allows frequent updates; nil keeps the present setting.
        ///   - shownVersion: the version that the app displays already. The reply has the held command only if the held
        ///     command is newer. Redis settles the shown version as the newest, unless Redis knows a newer version, an
        ///     end, or a push that the app may display by now.
        ///   - audiences: all audiences that the activity is in from now on (``AudienceList``). The reply names the
        ///     audiences that the activity has left, if the departures are not confirmed yet
        ///     (``StoreReply/departures``). A reply with such audiences has no held command.
        ///
        ///     Nil: the activity stays in its audiences. The token came with a command, or the call repeats a
        ///     registration. A repeated registration is `stale` if another registration or an unregistration with the
        ///     same time has come since the first call.
        case register(
            TokenRegistration<Bytes>,
            allowsFrequentUpdates: Bool?,
            shownVersion: Version?,
            source: RegistrationSource,
            audiences: Bytes?
        )
        /// Retires a token, if the activity still has it and registered it before
        /// ``TokenRetirement/invalidAtMilliseconds``. The activity then leaves its audiences. Reply: `settled`. But no
        /// version is settled, so that the command whose push was refused can be held until the next token registers.
        ///
        /// - Parameter version: Redis does not use it. A caller without a command passes (0, 0).
        case retire(version: Version, TokenRetirement<Bytes>)
        /// Records what became of a version, and may retire the token. Reply: `settled`. If APNs accepted an end, or if
        /// the token is retired, the activity leaves its audiences (``StoreReply/departures``).
        ///
        /// - Parameters:
        ///   - digest: the digest of the state that the activity shows now. Used only if APNs accepted the version.
        ///   - alert: the version of the command whose alert APNs accepted with this version; nil if there was no
        ///     alert, or if the alert was a start's.
        case settle(
            version: Version,
            Settlement,
            digest: UInt64,
            retirement: TokenRetirement<Bytes>?,
            alert: Version? = nil
        )
        /// Records that APNs throttles the activity's token (429), so that the spacing grows. Reply: `settled`.
        case throttle(version: Version, pace: Policy.Pace)
        /// Lets Redis admit the newest update or end again: a version that is settled, but was never shown. Only
        /// `causeway replay` makes this call, never a worker. Reply:
        /// - `retry`: Redis can admit the version now. This is also the reply if the version was not settled.
        /// - `duplicate`: the version was shown, or is a start.
        /// - `superseded`: the version is not the newest.
        case reopen(version: Version)

        // Operations on a device.

        /// Gets the token for a start, and draws the start from the device's budget. Reply: `tokenFound`; or `noToken`;
        /// or `wait` while the budget is empty. `noToken` and `wait` draw nothing. A repeated call may draw twice:
        /// later starts then wait longer than necessary.
        ///
        /// - Parameter registration: the token that came with the start; nil if none came. Redis registers it first,
        ///   with the exceptions of ``StateAdmission/registration``.
        case takeStartToken(
            attributesType: Bytes,
            startBudget: Policy.Bucket,
            registration: TokenRegistration<Bytes>?
        )
        /// Stores a start until a push-to-start token for its attributes type registers. Reply: `held`; `superseded` if
        /// a newer start of the activity is held; `retry` if the device has such a token; or `full` if too many starts
        /// wait for the token, and none of them has expired. An expired one gives up its place.
        ///
        /// A repeated call for a start that is held already gets `held`, even if the device has a token now, as in
        /// ``hold(version:command:hasAlert:)``.
        case holdStart(HeldStart<Bytes>, command: Bytes)
        /// Registers a push-to-start token. A device has one registration for each attributes type. The device stays in
        /// an audience while at least one of these registrations names the audience. Reply:
        /// - `registered`: the token was stored. The reply has the next start that waits for a token, unless the reply
        ///   has ``StoreReply/departures``.
        /// - `registered` also if a start waits, but this token was not stored, because Redis has a newer one. The
        ///   caller sends the start to the newer token.
        /// - `stale`: all other cases in which the token was not stored.
        /// - `full`: the device has too many departures that are not confirmed yet.
        ///
        /// - Parameter isFromCommand: whether the token came with a command. If true, a token that Redis already has
        ///   keeps its registration time, and the reply for the token that was retired last is `stale`.
        case registerDevice(
            attributesType: Bytes,
            TokenRegistration<Bytes>,
            DeviceRegistrationStep<Bytes>,
            isFromCommand: Bool
        )
        /// Removes a held start that is finished. May also retire the push-to-start token to which the start was sent.
        /// Reply: `settled`.
        case settleStart(HeldStart<Bytes>, Settlement, retirement: TokenRetirement<Bytes>?)
        /// Refunds the draw of a start that was not sent, less the part that the budget has refilled since. Reply:
        /// `settled`. Must not be repeated, because each call refunds again. (R15)
        case refundStart(startBudget: Policy.Bucket, drawIdentifier: Int64)

        // Operations on an activity or a device.

        /// Removes the tokens of the activity or device that were registered at this time or earlier. Reply:
        /// `unregistered`, or `stale` if all tokens were registered later.
        ///
        /// The activity or device leaves the audiences of the removed registrations. But a device stays in an audience
        /// that another of its registrations names.
        ///
        /// - Parameter attributesType: if not nil, only the device's token of this type is removed. Nil for an
        ///   activity.
        case unregister(atMilliseconds: Int64, attributesType: Bytes? = nil)
        /// Confirms that each audience in ``StoreReply/departures`` of an earlier reply now has an entry about the
        /// member's departure (R27). Reply: `settled`.
        ///
        /// Until this confirmation, Redis also names these audiences in other replies, because the worker that got the
        /// first reply may have died.
        ///
        /// - Parameter atMilliseconds: the time in the earlier reply. If Redis has another time by now, for example
        ///   after a later registration, the call has no effect, and the next reply has the new time.
        case confirmDepartures(atMilliseconds: Int64)

        // Operations on an activity's life in the timetable of lifetimes. They do not change the activity's own value
        // in Redis.

        /// Records an event of an activity's life in the timetable. Reply: `settled`. (R34)
        case reportLifetimeEvent(LifetimeEvent, keeping: CommandKeptForRestart<Bytes>? = nil)
        /// Asks whether the timetable still has the life that began at `beganAtMilliseconds`. Reply: `retry` if the
        /// timetable has the life, so that the caller may send its command; otherwise `superseded`.
        ///
        /// - Parameters:
        ///   - stateVersion: the version of the state that a new start would show; nil for an end. If the timetable
        ///     keeps a newer state, the reply is `superseded`, and another start is due at once. But if the start has
        ///     already begun its life, the reply is `retry`, and the life stays due when it was.
        ///   - claimDelayMilliseconds: after any other `retry`, no worker claims the activity for this time. The time
        ///     doubles with each claim of the life after the first one, up to eight times `claimDelayMilliseconds`.
        case checkLifetime(beganAtMilliseconds: Int64, stateVersion: Version?, claimDelayMilliseconds: Int64)
    }
}

/// What Redis needs to decide about an update or end.
///
/// The order of the properties keeps the value small, because every call is copied on its way to Redis.
@frozen
public struct StateAdmission<Bytes> {
    public var version: Version
    /// The digest of what the activity would show, including the alert. An update is `unchanged` if the shown state's
    /// digest has the same 48 bits. Not compared for an end, nor for an activity in an audience, because a push to the
    /// audience may have replaced the shown state.
    public var digest: UInt64
    public var pace: Policy.Pace
    /// How many seconds the carried alert is older than this command: the timestamp of ``version`` minus that of
    /// ``carriedAlertVersion``. `Int32.min`: the command carries no older command's alert. The difference takes less
    /// room than a timestamp, so every store call is smaller.
    @usableFromInline var carriedAlertAgeSeconds: Int32
    public var isEnd: Bool
    /// Whether the command asks for priority 10, which the budget may refuse. Priority 5 draws nothing from the budget.
    public var requestsHighPriority: Bool
    /// Whether the command may draw on the reserved part of the budget, because it carries an alert or is an end.
    public var mayUseReserve: Bool
    /// Whether this command may replace a held command that has an alert: this command has an alert itself, or its lane
    /// has already seen the held alert. If false, Redis first reports the held alert (``StoreVerdict/alertHeld``), so
    /// that this command can carry it.
    public var mayReplaceHeldAlert: Bool
    /// Whether the command is so old that Apple's system no longer shows its activity: more than eight hours for an
    /// update, more than twelve for an end. If Redis knows no version of the activity, such a command is `expired`.
    public var isTooOld: Bool
    /// Whether the record is read again because Redis lost data. If the command brings a token and Redis has none, the
    /// next push then gets a timestamp above the present second (``RegistrationSource/reread``).
    public var isReread: Bool
    /// Whether this end also ends a life that a start with a newer version began. If false, such an end is
    /// `superseded`, because it belongs to an earlier life. (R13)
    public var endsNewerLife: Bool
    /// Whether this is the end of a lifetime, which a `LifetimeKeeper` made. It never supersedes an end that is not
    /// settled: the reply is `ended`. But a producer's newer end supersedes it. (R13)
    public var isLifetimeEnd: Bool
    /// The sequence of ``carriedAlertVersion``.
    @usableFromInline var carriedAlertSequence: UInt64
    /// An update token that came with the command. The admission registers the token, with three exceptions:
    /// - Redis has the token already.
    /// - Redis has a newer registration or unregistration.
    /// - The token is the last one that Redis retired.
    ///
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
        isLifetimeEnd: Bool = false,
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
        self.isLifetimeEnd = isLifetimeEnd
        if let carriedAlertVersion {
            let seconds = version.timestamp.subtractingReportingOverflow(carriedAlertVersion.timestamp).partialValue
            // If the commands are more than 68 years apart, the number is clamped. No decision depends on such an age.
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
    /// The token in hexadecimal digits. Not empty.
    public var token: Bytes
    /// When the token was registered, UNIX milliseconds. Redis keeps the registration with the latest time. If several
    /// have this time, Redis keeps the one that arrives last.
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
    /// The token in hexadecimal digits. Not empty.
    public var token: Bytes
    public var environment: APNsEnvironment
    /// The token is retired only if it was registered before this time, UNIX milliseconds. After this time, the app may
    /// have registered the token again. Nil: the token is retired, whenever it was registered.
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

/// One of the calls for a device's registration. The first call registers the token and returns the first held start.
/// Each further call returns the next held start.
///
/// This is an enum so that the values of both cases share memory. Every ``StoreCall`` is copied: 17 more bytes cost
/// each command 257 instructions (Measurements.md).
@frozen
public enum DeviceRegistrationStep<Bytes> {
    /// The first call, which registers the token.
    ///
    /// - Parameters:
    ///   - audiences: all audiences that the device is in from now on; nil: the device stays in its audiences.
    ///   - supportsChannels: whether the device's activities may begin on a broadcast channel. Only the device's
    ///     entries in its audiences say this; the device's hash in Redis does not.
    case registerToken(audiences: Bytes?, supportsChannels: Bool = false)
    /// Asks for the held start that follows `after` in the order of the versions. The previous reply returned `after`.
    /// The device's audiences do not change, because the first call has set them.
    case nextHeldStart(after: HeldStart<Bytes>)

    /// The start that the previous reply returned; nil for `registerToken`.
    @inlinable
    public var previousStart: HeldStart<Bytes>? {
        if case .nextHeldStart(let start) = self { start } else { nil }
    }

    /// The audiences that the device is in from now on; nil: they do not change.
    @inlinable
    public var audiences: Bytes? {
        if case .registerToken(let audiences, _) = self { audiences } else { nil }
    }
}

/// What became of an admitted command.
public enum Settlement: UInt8, Sendable, BitwiseCopyable {
    /// APNs responded with 200, so the activity counts as showing this version.
    case accepted
    /// The command is settled, but APNs never responded with 200. As far as Causeway knows, the activity does not show
    /// this version. If a response of APNs was lost, the activity may show it nevertheless.
    case notShown
    /// A start whose response was lost. It is not sent again.
    case unknown
}

extension StateAdmission: Equatable where Bytes: Equatable {}
extension TokenRegistration: Equatable where Bytes: Equatable {}
extension TokenRegistration: Hashable where Bytes: Hashable {}
extension TokenRegistration: Sendable where Bytes: Sendable {}
extension TokenRetirement: Equatable where Bytes: Equatable {}
extension HeldStart: Equatable where Bytes: Equatable {}
extension HeldStart: Sendable where Bytes: Sendable {}
extension DeviceRegistrationStep: Equatable where Bytes: Equatable {}
