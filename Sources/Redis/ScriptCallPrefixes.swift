/// The first bytes of a call of each script, ready to be copied: `EVALSHA` and the script's digest.
public final class ScriptCallPrefixes {
    static let digestBytes = 40
    private static let digestPrefix: StaticString = "$7\r\nEVALSHA\r\n$40\r\n"
    private static let digestSuffix: StaticString = "\r\n"
    /// The number of arguments in each prefix: `EVALSHA` and the digest.
    public static let argumentsPerPrefix = 2
    public static let bytesPerPrefix = digestPrefix.utf8CodeUnitCount + digestBytes + digestSuffix.utf8CodeUnitCount

    private let memory: UnsafeMutableRawBufferPointer

    /// Makes prefixes without digests; ``setDigest(_:of:)`` adds them.
    ///
    /// - Parameter scriptCount: the number of scripts. A script's number is its index in ``RedisSession/scripts``.
    init(scriptCount: Int) {
        memory = .allocate(byteCount: max(1, scriptCount) * Self.bytesPerPrefix, alignment: 1)
        for script in 0..<scriptCount {
            let start = script * Self.bytesPerPrefix
            Self.digestPrefix.withUTF8Buffer { memory[start...].copyBytes(from: $0) }
            memory[(start + Self.digestPrefix.utf8CodeUnitCount)...]
                .copyBytes(from: repeatElement(0, count: Self.digestBytes))
            Self.digestSuffix.withUTF8Buffer {
                memory[(start + Self.digestPrefix.utf8CodeUnitCount + Self.digestBytes)...].copyBytes(from: $0)
            }
        }
    }

    deinit {
        memory.deallocate()
    }

    public subscript(script: Int) -> UnsafeRawBufferPointer {
        let start = script * Self.bytesPerPrefix
        return UnsafeRawBufferPointer(rebasing: memory[start..<(start + Self.bytesPerPrefix)])
    }

    /// Stores the digest that the server returned to SCRIPT LOAD. Returns false if the bytes do not have a digest's
    /// length.
    public func setDigest(_ digest: UnsafeRawBufferPointer, of script: Int) -> Bool {
        guard digest.count == Self.digestBytes else { return false }
        let start = script * Self.bytesPerPrefix + Self.digestPrefix.utf8CodeUnitCount
        memory[start...].copyBytes(from: digest)
        return true
    }
}
