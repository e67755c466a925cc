import Redis

/// The keys of the calls in one batch, one for each call. Each key is stored in the form in which it is sent: as an
/// argument of the Redis command that runs the script. The memory is allocated once (R3).
struct BatchKeys: ~Copyable {
    private static let keyBytesMax = SubjectKey.bytesMax + RedisCommandWriter.argumentOverheadBytes

    private let capacity: Int
    private(set) var count = 0
    private let arguments: UnsafeMutableRawBufferPointer
    private var byteCount = 0
    private let fingerprints: UnsafeMutableBufferPointer<UInt64>

    init(capacity: Int) {
        self.capacity = capacity
        arguments = .allocate(byteCount: capacity * Self.keyBytesMax, alignment: 1)
        fingerprints = .allocate(capacity: capacity)
    }

    deinit {
        arguments.deallocate()
        fingerprints.deallocate()
    }

    /// The keys, written as arguments of the Redis command.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: arguments[..<byteCount]) }

    /// Adds a key.
    ///
    /// - Returns: whether an earlier call of the batch probably has the same key (an equal ``KeyFingerprint``). The
    ///   script then reads the key's value again, because the earlier call may have changed it. If the keys differ
    ///   after all, this costs only time.
    mutating func appendAndCheckForRepeat(_ key: UnsafeRawBufferPointer) -> Bool {
        precondition(count < capacity, "a call was added to a batch without room")
        var writer = RedisCommandWriter(arguments, continuingAt: byteCount)
        writer.writeArgument(key)
        byteCount = writer.count
        let fingerprint = KeyFingerprint(key).value
        let mayRepeatKey = fingerprints[..<count].contains(fingerprint)
        fingerprints.initializeElement(at: count, to: fingerprint)
        count += 1
        return mayRepeatKey
    }

    mutating func removeAll() {
        count = 0
        byteCount = 0
    }
}
