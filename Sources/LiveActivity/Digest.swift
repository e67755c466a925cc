/// A 64-bit digest of bytes. Two 64-bit words at a time are folded by a multiplication to 128 bits.
///
/// Digests are stored and compared across machines and releases, so the digest of the same bytes never
/// changes. It is not keyed. A producer that chooses contents or ids can make two of them collide, which harms only
/// its own activities and audiences.
struct Digest {
    // The first 64 bits of the fractional parts of the square roots of 2, 3 and 5. `multiplier` is odd, so that a
    // multiplication by it loses no bits. The words of a pair are combined with the other two constants by XOR, then
    // multiplied. A word that equals its constant would make the product zero, whatever the other word is. No text has
    // such a word, because the two constants are not well-formed UTF-8.
    private static let firstConstant: UInt64 = 0x6A09_E667_F3BC_C908
    private static let secondConstant: UInt64 = 0xBB67_AE85_84CA_A73B
    private static let multiplier: UInt64 = 0x3C6E_F372_FE94_F82B

    private var state: UInt64 = 0

    var value: UInt64 { Digest.fold(state ^ Digest.firstConstant, Digest.multiplier) }

    /// Adds one part. The digest depends on where parts begin and end, not only on all bytes together.
    mutating func add(_ bytes: UnsafeRawBufferPointer) {
        let count = bytes.count
        var position = 0
        while position &+ 16 <= count {
            add(word(bytes, position), word(bytes, position &+ 8))
            position &+= 16
        }
        // Adds the last 16 bytes, or all bytes of a shorter part, as one word pair. The pair may repeat bytes of the
        // pair before. The number of bytes, which is added last, says how many. So two different inputs never add the
        // same words.
        if count >= 16 {
            add(word(bytes, count &- 16), word(bytes, count &- 8))
        } else if count >= 8 {
            add(word(bytes, 0), word(bytes, count &- 8))
        } else {
            var low: UInt64 = 0
            for byte in bytes { low = low &<< 8 | UInt64(byte) }
            add(low, 0)
        }
        add(UInt64(truncatingIfNeeded: count), 0)
    }

    /// Adds the bytes of `whole` without those of `part`: first the bytes before `part`, then those after it.
    @inline(__always)
    mutating func add(_ whole: ByteRange, without part: ByteRange, of record: UnsafeRawBufferPointer) {
        add(ByteRange(from: Int(whole.offset), to: Int(part.offset)).bytes(in: record))
        add(ByteRange(from: part.end, to: whole.end).bytes(in: record))
    }

    @inline(__always)
    private func word(_ bytes: UnsafeRawBufferPointer, _ position: Int) -> UInt64 {
        UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self))
    }

    @inline(__always)
    private mutating func add(_ low: UInt64, _ high: UInt64) {
        state = (state ^ Digest.fold(low ^ Digest.firstConstant, high ^ Digest.secondConstant)) &* Digest.multiplier
        state = state &<< 27 | state &>> 37
    }

    @inline(__always)
    private static func fold(_ left: UInt64, _ right: UInt64) -> UInt64 {
        let product = left.multipliedFullWidth(by: right)
        return product.high ^ product.low
    }
}
