import LiveActivity
import Redis

/// Collects registrations of activities and confirmations of departures, so that one script call performs many of them.
/// A confirmation says that each audience that an activity left has an entry about the departure (R27). The script gets
/// a key for each collected call, and one argument with all calls. A call has these bytes:
///
/// | bytes | in a registration | in a confirmation |
/// | --- | --- | --- |
/// | 1 | ``RegistrationBits`` | the same |
/// | 2 | the ``TokenForm`` | 0 |
/// | 3–4 | the number of the token's bytes | 0 |
/// | 5 | the number of audiences that the registration names | 0 |
/// | 6–11 | when the token was registered, milliseconds | the time that an earlier reply gave with the departures |
/// | 12– | the token | |
/// | | if the registration names audiences: their number (1), a zero byte (no departures), and their digests | |
/// | | only with ``RegistrationBits/versionFollowsBit``: the version of the command that the app shows (13) | |
/// | | if the registration is read again: until when it may have released alerts, milliseconds (6); when its record was written, milliseconds (6) | |
///
/// For a new activity, the script copies the bytes from byte 6 to the last digest as they are: the value of the
/// activity ends with the same bytes.
///
/// The reply to a script call has limited room for held commands. A registration whose held command does not fit
/// changes nothing and gets the verdict `full`. The core repeats this registration after a pause of at most a second
/// (`StoreQueue.setAside`).
///
/// The memory is allocated once.
struct RegistrationBatch: ~Copyable {
    private static let headBytes = 5
    private static let callBytesMax =
        headBytes + 3 * StoredActivity.millisecondsBytes + StoredDeviceToken.bytesMax + StoredVersion.byteCount + 2
        + Limits.audiencesPerRegistrationMax * AudienceList.digestBytes

    private let capacity: Int
    private var keys: BatchKeys
    private let arguments: UnsafeMutableRawBufferPointer
    private var argumentByteCount = 0

    init(capacity: Int) {
        precondition((1...RedisConnection.callsPerCommandMax).contains(capacity))
        self.capacity = capacity
        keys = BatchKeys(capacity: capacity)
        arguments = .allocate(
            byteCount: capacity * Self.callBytesMax + RedisCommandWriter.argumentOverheadBytes,
            alignment: 1
        )
    }

    deinit {
        arguments.deallocate()
    }

    var count: Int { keys.count }
    var isFull: Bool { count == capacity }

    /// Adds a registration.
    ///
    /// - Parameters:
    ///   - allowsFrequentUpdates: whether the user allows frequent updates; nil keeps the present setting.
    ///   - shownVersion: the version of the command that the app shows; nil if the registration does not name one.
    ///   - audiences: the digests of all audiences that the activity is in from now on; nil if it stays in its
    ///     audiences. A registration record without audiences means none, so its call has an empty list and not nil.
    mutating func append(
        _ key: UnsafeRawBufferPointer,
        _ registration: TokenRegistration<UnsafeRawBufferPointer>,
        allowsFrequentUpdates: Bool?,
        shownVersion: Version?,
        source: RegistrationSource,
        audiences: UnsafeRawBufferPointer?
    ) {
        var bits = source.code << RegistrationBits.sourceShift
        if let allowsFrequentUpdates {
            bits |=
                RegistrationBits.mentionsFrequentUpdatesBit
                | (allowsFrequentUpdates ? RegistrationBits.allowsFrequentUpdatesBit : 0)
        }
        if audiences != nil { bits |= RegistrationBits.mentionsAudiencesBit }
        if shownVersion != nil { bits |= RegistrationBits.versionFollowsBit }
        let mayRepeatKey = keys.appendAndCheckForRepeat(key)
        if mayRepeatKey { bits |= RegistrationBits.mayRepeatKeyBit }
        var writer = RedisCommandWriter(arguments, continuingAt: argumentByteCount)
        writer.writeRegistration(bits, registration, audiences: audiences, shownVersion: shownVersion, source: source)
        argumentByteCount = writer.count
    }

    /// Adds the confirmation of an activity's departures (``StoreCall/Operation/confirmDepartures(atMilliseconds:)``).
    ///
    /// - Parameter leftAtMilliseconds: the time that came with the departures in an earlier reply. If Redis has another
    ///   time now, the confirmation has no effect.
    mutating func append(_ key: UnsafeRawBufferPointer, confirmingDeparturesAt leftAtMilliseconds: Int64) {
        let mayRepeatKey = keys.appendAndCheckForRepeat(key)
        let bits = RegistrationBits.isDepartureConfirmationBit | (mayRepeatKey ? RegistrationBits.mayRepeatKeyBit : 0)
        var writer = RedisCommandWriter(arguments, continuingAt: argumentByteCount)
        writer.writeDepartureConfirmation(bits, leftAtMilliseconds: leftAtMilliseconds)
        argumentByteCount = writer.count
    }

    /// The maximum length of the Redis command that `write` writes, without `prefix`.
    var commandBytesMax: Int {
        keys.bytes.count + argumentByteCount + RedisCommandWriter.operationNameBytesMax
            + 4 * RedisCommandWriter.argumentOverheadBytes
    }

    /// Writes the Redis command for all collected calls, and returns its length in bytes.
    func write(prefix: UnsafeRawBufferPointer, to room: UnsafeMutableRawBufferPointer) -> Int {
        var writer = RedisCommandWriter(room, argumentCount: ScriptCallPrefixes.argumentsPerPrefix + 3 + count)
        writer.writeVerbatim(prefix)
        writer.writeArgument(number: count)
        writer.writeVerbatim(keys.bytes)
        writer.writeArgument(operation: "registrations")
        writer.writeArgument(UnsafeRawBufferPointer(rebasing: arguments[..<argumentByteCount]))
        return writer.count
    }

    mutating func removeAll() {
        keys.removeAll()
        argumentByteCount = 0
    }
}

/// What a call in a ``RegistrationBatch`` says, and which parts it has after its fixed part: the bits of byte 1.
enum RegistrationBits {
    /// The registration says whether the activity may get frequent updates.
    static let mentionsFrequentUpdatesBit: UInt8 = 1
    static let allowsFrequentUpdatesBit: UInt8 = 2
    /// The bits with the values 4 and 8 are the code of the ``RegistrationSource``, shifted left by 2.
    static let sourceShift: UInt8 = 2
    /// The registration says which audiences the activity is in. The list may be empty.
    static let mentionsAudiencesBit: UInt8 = 16
    /// After the token and the audiences comes the version of the command that the app shows.
    static let versionFollowsBit: UInt8 = 32
    static let isDepartureConfirmationBit: UInt8 = 64
    /// An earlier call of the batch may have the same key, so the script reads the key's value again.
    static let mayRepeatKeyBit: UInt8 = 128
}

extension RegistrationSource {
    static let commandCode: UInt8 = 1
    static let rereadCode: UInt8 = 2

    /// The number of the source in a call of a ``RegistrationBatch``.
    var code: UInt8 {
        switch self {
        case .record: 0
        case .command: Self.commandCode
        case .reread: Self.rereadCode
        }
    }
}
