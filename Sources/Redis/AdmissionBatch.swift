/// Updates, ends and settlements of activities on their way into one command: a key for each, one argument with all of them, and the
/// paces that they go by.
///
/// | bytes | of an update or an end | of a settlement |
/// | --- | --- | --- |
/// | 1–13 | its version, as ``StoredVersion`` writes it | likewise; zeros without one |
/// | 14 | its pace: the number of the argument | likewise, of a 429; else 0 |
/// | 15 | bits: the request's three, 8 for an end, 16 if a token is registered with it | the ``SettlementNumber`` and 32, 16 if a token is retired |
/// | | 64 if its key stands in the command already: it is read again | likewise |
/// | 16–20 | its timestamp once more, to be read as one number with the two bytes before | likewise |
/// | 21–26 | the digest, see ``StoredDigest`` | likewise |
/// | 27–28 | with a token: the count of its bytes | likewise |
/// | 29–34 | when it was registered, milliseconds | before when it must have been registered |
/// | 35 | its ``TokenForm`` | likewise |
/// | 36– | the token | likewise |
///
/// The memory is made once.
struct AdmissionBatch: ~Copyable {
    static let callsMax = 64
    /// Different paces in one command.
    static let pacesMax = 8
    private static let keyBytesMax = HashKey.bytesMax + CommandWriter.argumentOverheadBytes
    private static let firstPaceNumber: UInt8 = 2

    let capacity: Int
    private(set) var count = 0
    private let keys: UnsafeMutableRawBufferPointer
    private var keyByteCount = 0
    /// Of the keys that are in it.
    private let fingerprints: UnsafeMutableBufferPointer<UInt64>
    private let arguments: UnsafeMutableRawBufferPointer
    private var argumentByteCount = 0
    private let paces: UnsafeMutableRawBufferPointer
    private var paceCount = 0
    /// Where the pace was that was looked for last: most often it is the next one's too.
    private var lastPace = 0

    init(capacity: Int) {
        precondition((1...Self.callsMax).contains(capacity))
        self.capacity = capacity
        keys = .allocate(byteCount: capacity * Self.keyBytesMax, alignment: 1)
        fingerprints = .allocate(capacity: capacity)
        arguments = .allocate(byteCount: capacity * CommandWriter.admissionBytesMax, alignment: 1)
        paces = .allocate(byteCount: Self.pacesMax * PaceArguments.bytes, alignment: 1)
    }

    deinit {
        keys.deallocate()
        fingerprints.deallocate()
        arguments.deallocate()
        paces.deallocate()
    }

    /// Whether there is room for a command by this pace; if there is none, `write` and `removeAll` make some.
    func takes(_ pace: PaceArguments) -> Bool {
        count < capacity && (paceCount < Self.pacesMax || position(of: pace) != nil)
    }

    /// - Parameters:
    ///   - key: within its limit.
    ///   - registration: likewise.
    mutating func append(
        _ key: HashKey,
        _ event: CommandEvent,
        _ version: ScriptVersion,
        _ digest: UInt64,
        _ pace: PaceArguments,
        _ request: PushRequest,
        _ registration: TokenRegistration?
    ) {
        let paceNumber = number(of: pace)
        let isAgain = appendKey(key)
        var writer = CommandWriter(arguments, continuingAt: argumentByteCount)
        writer.admission(event, request, isAgain: isAgain, paceNumber: paceNumber, version, digest, registration)
        argumentByteCount = writer.count
    }

    /// - Parameters:
    ///   - key: within its limit.
    ///   - version: nil: only the token is retired.
    ///   - pace: of a 429; there is room for it.
    ///   - retirement: within its limit.
    mutating func append(
        _ key: HashKey,
        _ number: SettlementNumber,
        _ version: ScriptVersion?,
        _ digest: UInt64,
        _ pace: PaceArguments?,
        _ retirement: TokenRetirement?
    ) {
        let paceNumber = pace.map { self.number(of: $0) } ?? 0
        let isAgain = appendKey(key)
        var writer = CommandWriter(arguments, continuingAt: argumentByteCount)
        writer.settlement(number, isAgain: isAgain, paceNumber: paceNumber, version, digest, retirement)
        argumentByteCount = writer.count
    }

    /// - Returns: the key may be in it already. It is if this is false never, and if it is true nearly always: then it is only read again.
    private mutating func appendKey(_ key: HashKey) -> Bool {
        precondition(count < capacity, "a batch has room for whatever is put into it")
        var writer = CommandWriter(keys, continuingAt: keyByteCount)
        writer.argument(key)
        keyByteCount = writer.count
        let fingerprint = KeyFingerprint(key).value
        let isAgain = fingerprints[..<count].contains(fingerprint)
        fingerprints.initializeElement(at: count, to: fingerprint)
        count += 1
        return isAgain
    }

    /// What `write` needs beside the prefix, at most.
    var commandBytesMax: Int {
        keyByteCount + argumentByteCount + paceCount * PaceArguments.bytes
            + (paceCount + 3) * CommandWriter.argumentOverheadBytes
    }

    /// Writes the command, and returns its length.
    func write(prefix: UnsafeRawBufferPointer, to room: UnsafeMutableRawBufferPointer) -> Int {
        let argumentCount = ScriptPrefixes.argumentCount + 2 + count + paceCount
        var writer = CommandWriter(room, argumentCount: argumentCount)
        writer.verbatim(prefix)
        writer.argument(number: count)
        writer.verbatim(UnsafeRawBufferPointer(rebasing: keys[..<keyByteCount]))
        writer.argument(UnsafeRawBufferPointer(rebasing: arguments[..<argumentByteCount]))
        for position in 0..<paceCount { writer.argument(pace(at: position)) }
        return writer.count
    }

    mutating func removeAll() {
        count = 0
        keyByteCount = 0
        argumentByteCount = 0
        paceCount = 0
        lastPace = 0
    }

    // MARK: - Paces

    private func pace(at position: Int) -> UnsafeRawBufferPointer {
        let start = position * PaceArguments.bytes
        return UnsafeRawBufferPointer(rebasing: paces[start..<(start + PaceArguments.bytes)])
    }

    private func position(of pace: PaceArguments) -> Int? {
        if lastPace < paceCount, pace.isWritten(in: self.pace(at: lastPace)) { return lastPace }
        for position in 0..<paceCount where pace.isWritten(in: self.pace(at: position)) { return position }
        return nil
    }

    /// The number of the argument that the pace is.
    private mutating func number(of pace: PaceArguments) -> UInt8 {
        precondition(takes(pace), "a batch has room for whatever is put into it")
        return Self.firstPaceNumber + UInt8(place(pace))
    }

    /// Where the pace is, from now on.
    private mutating func place(_ pace: PaceArguments) -> Int {
        if let known = position(of: pace) {
            lastPace = known
        } else {
            // There are paces, so their memory has an address.
            pace.write(to: paces.baseAddress.unsafelyUnwrapped + paceCount * PaceArguments.bytes)
            lastPace = paceCount
            paceCount += 1
        }
        return lastPace
    }
}

/// What a settlement says, as the script is told it.
enum SettlementNumber: UInt8 {
    case accepted, notShown, unknown, limited
    /// Nothing but that a token is dead.
    case retirement
}
