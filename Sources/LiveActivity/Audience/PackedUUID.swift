/// A UUID in sixteen bytes instead of 36 characters. This saves 21 bytes in a member's entry: 20 bytes of the id, and
/// the byte for the length of the id.
///
/// ActivityKit names activities by UUIDs in upper case, and many producers write UUIDs in lower case. A UUID with
/// letters of both cases is not packed, because unpacking could not give the same text again.
public enum PackedUUID {
    public enum LetterCase: UInt8, Sendable, BitwiseCopyable {
        /// Lower-case letters, or no letters at all.
        case lowercase = 1
        case uppercase
    }

    public static let byteCount = 16
    public static let textByteCount = 36

    /// Whether a UUID's text has a hyphen before the byte with this index, 0..<16.
    @inlinable
    public static func hasHyphen(before byte: Int) -> Bool { byte == 4 || byte == 6 || byte == 8 || byte == 10 }

    /// Writes a UUID's sixteen bytes.
    ///
    /// - Parameter destination: has room for ``byteCount``.
    /// - Returns: the case of the letters. Nil if the text is not a UUID or has letters of both cases; `destination`
    ///   may be overwritten even then.
    @inlinable
    public static func pack(_ text: UnsafeRawBufferPointer, to destination: UnsafeMutableRawPointer) -> LetterCase? {
        guard text.count == textByteCount else { return nil }
        var invalidBits: UInt8 = 0
        var letterCaseBits: UInt8 = 0
        var position = 0
        for index in 0..<byteCount {
            if hasHyphen(before: index) {
                invalidBits |= text[position] ^ UInt8(ascii: "-")
                position += 1
            }
            let high = digit(text[position], &letterCaseBits)
            let low = digit(text[position + 1], &letterCaseBits)
            invalidBits |= (high | low) & 0xF0
            destination.storeBytes(of: high << 4 | low, toByteOffset: index, as: UInt8.self)
            position += 2
        }
        guard invalidBits == 0 else { return nil }
        switch letterCaseBits {
        case 0, 1: return .lowercase
        case 2: return .uppercase
        default: return nil
        }
    }

    /// Writes a UUID's text, ``textByteCount`` bytes.
    ///
    /// - Parameter packed: ``byteCount`` bytes.
    public static func unpack(
        _ packed: UnsafeRawBufferPointer,
        _ letterCase: LetterCase,
        to destination: UnsafeMutableRawPointer
    ) {
        precondition(packed.count == byteCount)
        let digitTen = UInt8(ascii: letterCase == .lowercase ? "a" : "A")
        var position = 0
        for index in 0..<byteCount {
            if hasHyphen(before: index) {
                destination.storeBytes(of: UInt8(ascii: "-"), toByteOffset: position, as: UInt8.self)
                position += 1
            }
            for shift in stride(from: UInt8(4), through: 0, by: -4) {
                let digit = packed[index] >> shift & 15
                let character = digit < 10 ? UInt8(ascii: "0") + digit : digitTen + (digit - 10)
                destination.storeBytes(of: character, toByteOffset: position, as: UInt8.self)
                position += 1
            }
        }
    }

    /// Returns the value of a hexadecimal digit, or 255 for any other character. A letter also sets a bit of
    /// `letterCaseBits`: 1 if it is lower-case, 2 if it is upper-case.
    @inlinable
    static func digit(_ character: UInt8, _ letterCaseBits: inout UInt8) -> UInt8 {
        let number = character &- UInt8(ascii: "0")
        if number <= 9 { return number }
        let letter = (character | 0x20) &- UInt8(ascii: "a")
        guard letter <= 5 else { return 255 }
        letterCaseBits |= character & 0x20 == 0 ? 2 : 1
        return letter + 10
    }
}
