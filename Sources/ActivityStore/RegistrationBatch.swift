import LiveActivity
import Redis

/// Registrations of activities, and confirmations of the audiences that they have left, that are collected for one command: a key for each,
/// and one argument with all calls.
///
/// | bytes | of a registration | of a confirmation |
/// | --- | --- | --- |
/// | 1 | ``RegistrationBits`` | likewise |
/// | 2 | the ``TokenForm`` | 0 |
/// | 3–4 | the count of the token's bytes | 0 |
/// | 5 | how many audiences it names | 0 |
/// | 6–11 | when the token was registered, milliseconds | the time that the leaves were named with |
/// | 12– | the token | |
/// | | if it names audiences: how many (1), a 0, and their digests | |
/// | | where the bits say so, the version of the command that the app shows, in digits (30) | |
///
/// From the time on, the bytes are those of a new activity's value.
///
/// The memory is made once.
struct RegistrationBatch: ~Copyable {
    private static let headBytes = 5
    private static let callBytesMax =
        headBytes + StoredRecord.millisecondsBytes + TokenText.bytesMax + StoredVersion.textBytes + 2
        + Limits.audiences * AudienceList.digestBytes

    private let capacity: Int
    private var keys: BatchKeys
    private let arguments: UnsafeMutableRawBufferPointer
    private var argumentByteCount = 0

    init(capacity: Int) {
        precondition((1...RedisConnection.callsPerCommandMax).contains(capacity))
        self.capacity = capacity
        keys = BatchKeys(capacity: capacity)
        arguments = .allocate(
            byteCount: capacity * Self.callBytesMax + CommandWriter.argumentOverheadBytes,
            alignment: 1
        )
    }

    deinit {
        arguments.deallocate()
    }

    var count: Int { keys.count }
    var isFull: Bool { count == capacity }

    /// - Parameters:
    ///   - audiences: digests, nil if the registration says nothing of them.
    ///   - shows: the version of the command that the app shows.
    mutating func append(
        _ key: UnsafeRawBufferPointer,
        _ registration: TokenRegistration<UnsafeRawBufferPointer>,
        frequentUpdates: Bool?,
        shows: Version?,
        source: RegistrationSource,
        audiences: UnsafeRawBufferPointer?
    ) {
        var bits = source.rawValue << RegistrationBits.sourceShift
        if let frequentUpdates {
            bits |= RegistrationBits.tellsFrequentUpdates | (frequentUpdates ? RegistrationBits.frequentUpdates : 0)
        }
        if audiences != nil { bits |= RegistrationBits.namesAudiences }
        if shows != nil { bits |= RegistrationBits.versionFollows }
        if keys.append(key) { bits |= RegistrationBits.isAgain }
        var writer = CommandWriter(arguments, continuingAt: argumentByteCount)
        writer.registration(bits, registration, audiences: audiences, shows: shows)
        argumentByteCount = writer.count
    }

    /// Adds a confirmation of what was named with a time.
    mutating func append(_ key: UnsafeRawBufferPointer, confirmingLeavesAt milliseconds: Int64) {
        let bits = RegistrationBits.confirms | (keys.append(key) ? RegistrationBits.isAgain : 0)
        var writer = CommandWriter(arguments, continuingAt: argumentByteCount)
        writer.confirmation(bits, milliseconds: milliseconds)
        argumentByteCount = writer.count
    }

    /// What `write` needs beside the prefix, at most.
    var commandBytesMax: Int { keys.bytes.count + argumentByteCount + 5 * CommandWriter.argumentOverheadBytes }

    /// Writes the command, and returns its length.
    func write(prefix: UnsafeRawBufferPointer, to room: UnsafeMutableRawBufferPointer) -> Int {
        var writer = CommandWriter(room, argumentCount: ScriptPrefixes.argumentCount + 4 + count)
        writer.verbatim(prefix)
        writer.argument(number: count)
        writer.verbatim(keys.bytes)
        writer.argument(letter: UInt8(ascii: "r"))
        writer.emptyArgument()
        writer.argument(UnsafeRawBufferPointer(rebasing: arguments[..<argumentByteCount]))
        return writer.count
    }

    mutating func removeAll() {
        keys.removeAll()
        argumentByteCount = 0
    }
}

/// What a call of a ``RegistrationBatch`` is and has.
enum RegistrationBits {
    /// It says whether frequent updates are allowed.
    static let tellsFrequentUpdates: UInt8 = 1
    static let frequentUpdates: UInt8 = 2
    /// Of a ``RegistrationSource``, in two bits.
    static let sourceShift: UInt8 = 2
    /// It says which audiences the activity is in, none perhaps.
    static let namesAudiences: UInt8 = 16
    /// The version of the command that the app shows follows.
    static let versionFollows: UInt8 = 32
    static let confirms: UInt8 = 64
    /// The key may already be in the command, so the script reads its value again.
    static let isAgain: UInt8 = 128
}
