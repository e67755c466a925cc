/// The event of a command other than a start, as the scripts' operations name it.
public enum CommandEvent: UInt8, Sendable {
    case update = 0x75  // "u"
    case end = 0x65  // "e"
}

/// How an admitted version ended.
public enum SettledOutcome: UInt8, Sendable {
    /// APNs answered 200: the activity shows this version.
    case accepted = 0x61  // "a"
    /// It is over, and the activity shows what it showed before.
    case notShown = 0x66  // "f"
    /// The answer was lost, and the version is not to be sent again.
    case unknown = 0x75  // "u"
    /// APNs limits the token (429): nothing is over, only the activity's spacing is stretched. Needs the pace.
    case limited = 0x6C  // "l"
}

/// The APNs environment that a token belongs to.
public enum TokenEnvironment: UInt8, Sendable {
    case production = 0x70  // "p"
    case sandbox = 0x73  // "s"
}

/// What an `admit` call came to.
public enum Verdict: UInt8, Sendable, CaseIterable {
    /// Send it, with the reply's timestamp; an update or an end to the reply's token.
    case send
    /// Not before ``AdmitReply/waitMilliseconds`` from now; then admit it, or ask for the address, again.
    case wait
    /// There is no token: hold it, or try the next address.
    case noToken
    /// The command is held already, or has been held now.
    case held
    /// A token has come meanwhile: admit the command again instead of holding it.
    case retry
    case duplicate
    case superseded
    case ended
    case unchanged
    /// A start that another claim was given a send verdict for and that is not settled; it is not to be sent.
    case unknown
    /// The registration counts; with ``AdmitReply/held`` if something was waiting for it.
    case registered
    /// A newer registration is known.
    case stale
    case unregistered
    /// The push-to-start address of a device.
    case address
    /// It carries an alert and is older than the newest, which is not settled: whoever takes the newest up can carry the alert.
    case overtaken
    /// An alert is held (``AdmitReply/held``), and the command has none: put that one in and admit it again. Nothing was changed.
    case alertHeld
    /// The activity was born more than eight hours ago: the system has ended it, and takes nothing but its end.
    case tooOld
    /// As many starts as may be are held for the token already: this one is not.
    case full
}

/// A token as it comes with a registration or a command. The bytes are borrowed for the duration of a call.
public struct TokenRegistration {
    /// Longest token that is stored.
    public static let tokenBytesMax = 256
    /// Registration times are stored up to this; later ones count as this one.
    public static let registeredAtMillisecondsMax: Int64 = 9_999_999_999_999

    /// Not empty, at most ``tokenBytesMax``. Lower-case hexadecimal is stored in half the space; anything else as it is.
    public var token: UnsafeRawBufferPointer
    public var environment: TokenEnvironment
    /// UNIX milliseconds. Decides between registrations; the later one counts, of equal ones the last.
    public var registeredAtMilliseconds: Int64

    public init(token: UnsafeRawBufferPointer, environment: TokenEnvironment, registeredAtMilliseconds: Int64) {
        self.token = token
        self.environment = environment
        self.registeredAtMilliseconds = registeredAtMilliseconds
    }
}

/// A start that is held for a device's token. The bytes are borrowed for the duration of a call.
public struct HeldStart {
    public var version: ScriptVersion
    /// Not empty.
    public var activity: UnsafeRawBufferPointer

    public init(version: ScriptVersion, activity: UnsafeRawBufferPointer) {
        self.version = version
        self.activity = activity
    }
}

/// A token that Apple has declared dead. The bytes are borrowed for the duration of a call.
public struct TokenRetirement {
    public var token: UnsafeRawBufferPointer
    public var environment: TokenEnvironment
    /// Retire the token only if it was registered before this (UNIX milliseconds); nil: whenever it was.
    public var invalidAtMilliseconds: Int64?

    public init(token: UnsafeRawBufferPointer, environment: TokenEnvironment, invalidAtMilliseconds: Int64?) {
        self.token = token
        self.environment = environment
        self.invalidAtMilliseconds = invalidAtMilliseconds
    }
}

/// Names what is kept of an activity or a device. The bytes are borrowed for the duration of a call.
///
/// An activity's key is `{app=activity}` (see ``ActivityKey``), a device's `{app/device}`: a bundle identifier has neither sign, so the two
/// cannot meet, and the braces keep keys that belong together in one slot. `{app:activity}` was an activity's hash in earlier builds.
public struct HashKey {
    public enum Kind: UInt8, Sendable {
        case activity = 0x3D  // "="
        case device = 0x2F  // "/"
    }
    /// The longest key, in bytes.
    public static let bytesMax = 1_024

    public var app: UnsafeRawBufferPointer
    public var kind: Kind
    public var identifier: UnsafeRawBufferPointer

    public init(app: UnsafeRawBufferPointer, kind: Kind, identifier: UnsafeRawBufferPointer) {
        self.app = app
        self.kind = kind
        self.identifier = identifier
    }

    /// The key's bytes, at most.
    var count: Int { app.count + identifier.count + 3 }
}

/// Which of a device's tokens an operation is about.
public enum RegistrationScope {
    /// The update token of an activity; the key is an activity's.
    case activity
    /// The push-to-start token for an attributes type (borrowed, not empty); the key is a device's.
    case attributesType(UnsafeRawBufferPointer)
    /// The start of an activity (both borrowed, not empty) that waits for that token; only to hold and to settle it.
    case start(attributesType: UnsafeRawBufferPointer, activity: UnsafeRawBufferPointer)
    /// All push-to-start tokens of a device; only to unregister.
    case allAttributesTypes
}

/// The reply to an `admit` call. Its bytes are valid during the call that brings it.
public struct AdmitReply {
    public var verdict: Verdict
    /// With ``Verdict/wait``: how long, at least 1.
    public var waitMilliseconds: Int64 = 0
    /// With ``Verdict/send``: the timestamp to be sent, UNIX seconds.
    public var timestampSeconds: UInt64 = 0
    /// With ``Verdict/send`` of an update or an end, and ``Verdict/address``: the token, as it was registered. Else empty.
    public var token = UnsafeRawBufferPointer(start: nil, count: 0)
    public var environment = TokenEnvironment.production
    /// When ``token`` was registered, UNIX milliseconds.
    public var registeredAtMilliseconds: Int64 = 0
    /// With ``Verdict/address``: what names the draw, if it is to be given back.
    public var draw: Int64 = 0
    /// With ``Verdict/send`` of an update or an end: 5 or 10.
    public var priority: UInt8 = 5
    /// With ``Verdict/send``: 10 was asked for, and the bucket had none left.
    public var isDemoted = false
    /// With ``Verdict/send`` of an update or an end: pushes of priority 10 that the bucket has after this one, the reserve included.
    public var budgetLeft = 0
    /// With ``Verdict/registered``, if a command was waiting for the token, and with ``Verdict/alertHeld``: its version and bytes, as
    /// they were held.
    public var held: (version: ScriptVersion, command: UnsafeRawBufferPointer)?

    public init(verdict: Verdict) { self.verdict = verdict }
}
