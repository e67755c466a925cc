/// Updates and ends on their way into one command: a key and an argument for each, and the paces that they go by.
///
/// An argument is, without anything between: the operation's letter, the request's digit, the pace's letter (`A` is the first after the
/// arguments), the version, the digest of eight bytes and, if a token is registered with it, the fields `t` and `u` as they are to
/// stand. The memory is made once.
struct AdmissionBatch: ~Copyable {
    static let callsMax = 64
    /// Different paces in one command.
    static let pacesMax = 8
    private static let keyBytesMax = HashKey.bytesMax + CommandWriter.argumentOverheadBytes
    private static let argumentBytesMax =
        CommandWriter.admissionBytesMax + CommandWriter.argumentOverheadBytes

    let capacity: Int
    private(set) var count = 0
    private let keys: UnsafeMutableRawBufferPointer
    private var keyByteCount = 0
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
        arguments = .allocate(byteCount: capacity * Self.argumentBytesMax, alignment: 1)
        paces = .allocate(byteCount: Self.pacesMax * PaceArguments.bytes, alignment: 1)
    }

    deinit {
        keys.deallocate()
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
        precondition(takes(pace), "a batch has room for whatever is put into it")
        var writer = CommandWriter(keys, continuingAt: keyByteCount)
        writer.argument(key)
        keyByteCount = writer.count
        let letter = UInt8(ascii: "A") + UInt8(place(pace))
        writer = CommandWriter(arguments, continuingAt: argumentByteCount)
        writer.admission(event, request, paceLetter: letter, version, digest, registration)
        argumentByteCount = writer.count
        count += 1
    }

    /// What `write` needs beside the prefix, at most.
    var commandBytesMax: Int {
        keyByteCount + argumentByteCount + paceCount * PaceArguments.bytes
            + (paceCount + 2) * CommandWriter.argumentOverheadBytes
    }

    /// Writes the command, and returns its length.
    func write(prefix: UnsafeRawBufferPointer, to room: UnsafeMutableRawBufferPointer) -> Int {
        let argumentCount = ScriptPrefixes.argumentCount + 1 + 2 * count + paceCount
        var writer = CommandWriter(room, argumentCount: argumentCount)
        writer.verbatim(prefix)
        writer.argument(number: count)
        writer.verbatim(UnsafeRawBufferPointer(rebasing: keys[..<keyByteCount]))
        writer.verbatim(UnsafeRawBufferPointer(rebasing: arguments[..<argumentByteCount]))
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
