/// A key's hash slot in a cluster, and a fingerprint that identifies the key.
struct KeyHashSlot: Equatable {
    /// The number of hash slots. It is the same in every cluster.
    static let hashSlotCount = 16_384

    /// The key's hash slot, 0..<``hashSlotCount``.
    var hashSlot: Int
    /// A hash of the whole key. By this hash, calls and ``AskRedirections`` identify a key without storing it. Never 0,
    /// which means that there is no key.
    var fingerprint: UInt64

    init(_ key: UnsafeRawBufferPointer) {
        hashSlot = Self.hashSlot(of: key)
        fingerprint = KeyFingerprint(key).value
    }

    /// Returns the hash slot of a key, by the cluster specification: the CRC16 of the key's hash tag, modulo
    /// ``hashSlotCount``. Without a hash tag, or with an empty one, the CRC16 of the whole key counts.
    static func hashSlot(of key: UnsafeRawBufferPointer) -> Int {
        var tag = key
        if let opening = key.firstIndex(of: UInt8(ascii: "{")) {
            let rest = UnsafeRawBufferPointer(rebasing: key[(opening + 1)...])
            if let closing = rest.firstIndex(of: UInt8(ascii: "}")), closing > 0 {
                tag = UnsafeRawBufferPointer(rebasing: rest[..<closing])
            }
        }
        var checksum = CRC16()
        checksum.add(tag)
        return Int(checksum.value) % hashSlotCount
    }
}

/// A hash that identifies a key: equal keys have equal hashes, and different keys almost always have different ones.
/// The hash is cheap: one multiplication for each eight bytes.
public struct KeyFingerprint {
    private var hash: UInt64 = 0xCBF2_9CE4_8422_2325

    public init(_ key: UnsafeRawBufferPointer) { add(key) }

    /// Never 0, because 0 means that there is no key.
    public var value: UInt64 { hash == 0 ? 1 : hash }

    private mutating func add(_ bytes: UnsafeRawBufferPointer) {
        var offset = 0
        while bytes.count - offset >= 8 {
            mix(bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
            offset += 8
        }
        var rest: UInt64 = 0
        while offset < bytes.count {
            rest = rest << 8 | UInt64(bytes[offset])
            offset += 1
        }
        // Add the length too. Leading zero bytes do not change `rest`, so keys that differ only in such bytes would
        // otherwise have the same hash.
        mix(rest ^ UInt64(bytes.count) << 56)
    }

    private mutating func mix(_ word: UInt64) {
        let product = (hash ^ word).multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
        hash = product.high ^ product.low
    }
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value 0, no reflection of bits (appendix A of the cluster specification).
private struct CRC16 {
    private(set) var value: UInt16 = 0

    /// The table is written once and never freed, so all threads may read it.
    nonisolated(unsafe) private static let table: UnsafePointer<UInt16> = {
        let table = UnsafeMutablePointer<UInt16>.allocate(capacity: 256)
        for index in 0..<256 {
            var value = UInt16(index) << 8
            for _ in 0..<8 { value = value & 0x8000 == 0 ? value << 1 : value << 1 ^ 0x1021 }
            (table + index).initialize(to: value)
        }
        return UnsafePointer(table)
    }()

    mutating func add(_ bytes: UnsafeRawBufferPointer) {
        let table = Self.table
        var checksum = value
        for byte in bytes {
            checksum = checksum << 8 ^ table[Int(UInt8(truncatingIfNeeded: checksum >> 8) ^ byte)]
        }
        value = checksum
    }
}
