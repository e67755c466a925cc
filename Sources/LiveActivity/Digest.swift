/// A 64-bit digest of bytes. It multiplies two 64-bit words at a time, and uses both halves of the 128-bit product.
///
/// Digests are stored and compared across machines and releases, so the same bytes always have the same digest. The
/// digest has no secret key: a producer can choose two contents or ids with the same digest. But this harms only the
/// producer's own activities and audiences.
struct Digest {
    // The first 64 bits of the fractional parts of the square roots of 2, 3 and 5.
    //
    // Two words are multiplied at a time, after a XOR of each with its constant. A word that equals its constant would
    // make the product 0, whatever the other word is. No text contains such a word, because neither constant is
    // well-formed UTF-8. `multiplier` is odd, so that a multiplication by it loses no bits.
    private static let firstConstant: UInt64 = 0x6A09_E667_F3BC_C908
    private static let secondConstant: UInt64 = 0xBB67_AE85_84CA_A73B
    private static let multiplier: UInt64 = 0x3C6E_F372_FE94_F82B

    private var accumulator: UInt64 = 0

    var value: UInt64 { Digest.fold(accumulator ^ Digest.firstConstant, Digest.multiplier) }

    /// Adds one part. The digest depends on where parts begin and end, not only on all bytes together.
    mutating func add(_ bytes: UnsafeRawBufferPointer) {
        let byteCount = bytes.count
        var position = 0
        while position &+ 16 <= byteCount {
            addWords(readWord(bytes, position), readWord(bytes, position &+ 8))
            position &+= 16
        }
        // Adds the last 16 bytes, or all bytes of a shorter part, as one pair of words. Of a part of 20 bytes, the
        // first pair has bytes 0 to 15, and the last pair has bytes 4 to 19. The length is added last: it says how many
        // bytes are repeated, so that two different parts never add the same words.
        if byteCount >= 16 {
            addWords(readWord(bytes, byteCount &- 16), readWord(bytes, byteCount &- 8))
        } else if byteCount >= 8 {
            addWords(readWord(bytes, 0), readWord(bytes, byteCount &- 8))
        } else {
            var low: UInt64 = 0
            for byte in bytes { low = low &<< 8 | UInt64(byte) }
            addWords(low, 0)
        }
        addWords(UInt64(truncatingIfNeeded: byteCount), 0)
    }

    /// Adds the bytes of `whole` without those of `part`: first the bytes before `part`, then the bytes after it.
    @inline(__always)
    mutating func add(_ whole: ByteRange, without part: ByteRange, of record: UnsafeRawBufferPointer) {
        add(ByteRange(from: Int(whole.offset), to: Int(part.offset)).bytes(in: record))
        add(ByteRange(from: part.end, to: whole.end).bytes(in: record))
    }

    @inline(__always)
    private func readWord(_ bytes: UnsafeRawBufferPointer, _ position: Int) -> UInt64 {
        UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self))
    }

    @inline(__always)
    private mutating func addWords(_ low: UInt64, _ high: UInt64) {
        let mixedWords = Digest.fold(low ^ Digest.firstConstant, high ^ Digest.secondConstant)
        accumulator = (accumulator ^ mixedWords) &* Digest.multiplier
        accumulator = accumulator &<< 27 | accumulator &>> 37
    }

    /// Multiplies two words, and returns the XOR of the two halves of the 128-bit product.
    @inline(__always)
    private static func fold(_ left: UInt64, _ right: UInt64) -> UInt64 {
        let product = left.multipliedFullWidth(by: right)
        return product.high ^ product.low
    }
}
