/// Converts bytes, numbers and UUIDs to hexadecimal ASCII digits and back. Only the functions `text` allocate memory.
public enum Hexadecimal {
    /// Returns the value of one digit of either case; nil for any other byte.
    @inlinable
    public static func digitValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte &- UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte &- UInt8(ascii: "a") &+ 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte &- UInt8(ascii: "A") &+ 10
        default: nil
        }
    }

    /// Returns the lower-case digit of a value below 16.
    @inlinable
    @inline(__always)
    public static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") &+ value : UInt8(ascii: "a") &+ (value &- 10)
    }

    /// Whether all bytes are hexadecimal digits of either case.
    /// - Precondition: there are at least eight bytes.
    @inlinable
    public static func areDigits(_ bytes: UnsafeRawBufferPointer) -> Bool {
        precondition(bytes.count >= 8, "eight digits are read at a time")
        var isValid = true
        var position = 0
        while position &+ 8 <= bytes.count {
            isValid = isValid && areDigits(bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self))
            position &+= 8
        }
        // The loop left at most seven bytes unread. Check them with the last eight bytes.
        return isValid && areDigits(bytes.loadUnaligned(fromByteOffset: bytes.count &- 8, as: UInt64.self))
    }

    /// Whether each of the eight bytes of `word` is `0`-`9`, `a`-`f` or `A`-`F`.
    ///
    /// One addition compares all eight bytes with a bound: after 0x50 is added to each, the top bit of a sum is set if
    /// the byte is 0x30 (`0`) or higher. No sum carries into the next byte, because the `guard` has refused bytes above
    /// 0x7F.
    @inlinable
    @inline(__always)
    static func areDigits(_ word: UInt64) -> Bool {
        guard word & topBits == 0 else { return false }
        let lower = word | (oneInEachByte &* 0x20)
        let decimals = (word &+ oneInEachByte &* (0x80 - 0x30)) & ~(word &+ oneInEachByte &* (0x80 - 0x3A))
        let letters = (lower &+ oneInEachByte &* (0x80 - 0x61)) & ~(lower &+ oneInEachByte &* (0x80 - 0x67))
        return (decimals | letters) & topBits == topBits
    }

    /// Whether every byte is one of `0`-`9`, `a`-`f`. The loop has no early exit, so that the compiler can test sixteen
    /// bytes at once.
    @inlinable
    public static func areLowerCaseDigits(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let start = bytes.baseAddress else { return true }
        var nonDigitFlag: UInt8 = 0
        for offset in 0..<bytes.count {
            let byte = start.load(fromByteOffset: offset, as: UInt8.self)
            nonDigitFlag |= (byte &- UInt8(ascii: "0") > 9 ? 1 : 0) & (byte &- UInt8(ascii: "a") > 5 ? 1 : 0)
        }
        return nonDigitFlag == 0
    }

    // A word with 1 in each byte, and a word with only the highest bit of each byte.
    @inlinable static var oneInEachByte: UInt64 { 0x0101_0101_0101_0101 }
    @inlinable static var topBits: UInt64 { 0x8080_8080_8080_8080 }

    /// Returns a word that has 0x80 in the place of each byte of `block` that is `0`-`9` or `a`-`f`, and 0 in all other
    /// places.
    ///
    /// One addition compares all eight bytes with a bound: after 0x50 is added to each, the top bit of a sum is set if
    /// the byte is 0x30 (`0`) or higher. No sum carries into the next byte, because the top bits are cleared first.
    @inlinable
    @inline(__always)
    static func lowerCaseDigitTopBits(_ block: UInt64) -> UInt64 {
        let low = block & ~topBits
        let digitBits = (low &+ 0x5050_5050_5050_5050) & ~(low &+ 0x4646_4646_4646_4646)
        let letterBits = (low &+ 0x1F1F_1F1F_1F1F_1F1F) & ~(low &+ 0x1919_1919_1919_1919)
        return (digitBits | letterBits) & ~block & topBits
    }

    /// The length of a UUID's canonical text: 32 digits in groups of 8, 4, 4, 4 and 12, and four dashes.
    public static let uuidTextByteCount = 36

    /// Writes a UUID in the canonical lower-case form that `apns-id` asks for.
    @inlinable
    public static func writeUUID(_ uuid: (UInt64, UInt64), to text: UnsafeMutablePointer<UInt8>) {
        let raw = UnsafeMutableRawPointer(text)
        let second = digits(UInt32(truncatingIfNeeded: uuid.0))
        let third = digits(UInt32(truncatingIfNeeded: uuid.1 >> 32))
        raw.storeBytes(of: digits(UInt32(uuid.0 >> 32)), as: UInt64.self)
        raw.storeBytes(of: UInt32(truncatingIfNeeded: second), toByteOffset: 9, as: UInt32.self)
        raw.storeBytes(of: UInt32(second >> 32), toByteOffset: 14, as: UInt32.self)
        raw.storeBytes(of: UInt32(truncatingIfNeeded: third), toByteOffset: 19, as: UInt32.self)
        raw.storeBytes(of: UInt32(third >> 32), toByteOffset: 24, as: UInt32.self)
        raw.storeBytes(of: digits(UInt32(truncatingIfNeeded: uuid.1)), toByteOffset: 28, as: UInt64.self)
        let dash = UInt8(ascii: "-")
        (text[8], text[13], text[18], text[23]) = (dash, dash, dash, dash)
    }

    /// Reads a UUID in the form that `writeUUID` writes; nil for any other text.
    @inlinable
    public static func readUUID(_ text: UnsafeRawBufferPointer) -> (UInt64, UInt64)? {
        let dash = UInt8(ascii: "-")
        guard text.count == uuidTextByteCount, text[8] == dash, text[13] == dash, text[18] == dash, text[23] == dash
        else { return nil }
        let first = text.loadUnaligned(as: UInt64.self)
        let second =
            UInt64(text.loadUnaligned(fromByteOffset: 14, as: UInt32.self)) << 32
            | UInt64(text.loadUnaligned(fromByteOffset: 9, as: UInt32.self))
        let third =
            UInt64(text.loadUnaligned(fromByteOffset: 24, as: UInt32.self)) << 32
            | UInt64(text.loadUnaligned(fromByteOffset: 19, as: UInt32.self))
        let fourth = text.loadUnaligned(fromByteOffset: 28, as: UInt64.self)
        let areLowerCaseDigits =
            lowerCaseDigitTopBits(first) & lowerCaseDigitTopBits(second) & lowerCaseDigitTopBits(third)
            & lowerCaseDigitTopBits(fourth) == topBits
        guard areLowerCaseDigits else { return nil }
        return (
            UInt64(number(first)) << 32 | UInt64(number(second)),
            UInt64(number(third)) << 32 | UInt64(number(fourth))
        )
    }

    /// Returns the number that eight hexadecimal digits represent. The first digit is in the lowest byte, as in the
    /// result of `digits(_:)`.
    @inlinable
    static func number(_ digits: UInt64) -> UInt32 {
        // In the low four bits, a digit `0` to `9` has its value, and a letter its value minus 9. Only letters have the
        // bit 0x40, which adds the 9.
        var nibbles = (digits & (oneInEachByte &* 0x0F)) &+ (digits >> 6 & oneInEachByte) &* 9
        nibbles = (nibbles << 4 | nibbles >> 8) & 0x00FF_00FF_00FF_00FF
        nibbles = (nibbles | nibbles >> 8) & 0x0000_FFFF_0000_FFFF
        nibbles = nibbles | nibbles >> 16
        return UInt32(truncatingIfNeeded: nibbles).byteSwapped
    }

    /// Returns the eight hexadecimal digits of a number. The first digit is in the lowest byte.
    @inlinable
    static func digits(_ number: UInt32) -> UInt64 {
        // Give each of the number's eight groups of four bits (nibbles) a byte of its own, in three steps.
        var nibbles = UInt64(number.byteSwapped)
        nibbles = (nibbles | nibbles << 16) & 0x0000_FFFF_0000_FFFF
        nibbles = (nibbles | nibbles << 8) & 0x00FF_00FF_00FF_00FF
        nibbles = (nibbles >> 4 | nibbles << 8) & 0x0F0F_0F0F_0F0F_0F0F
        // `letters` has 1 in each byte whose nibble is 10 or more. Its digit is a letter, with the ASCII code 0x30 +
        // nibble + 39.
        let letters = (nibbles &+ oneInEachByte &* 6) >> 4 & oneInEachByte
        return (nibbles &+ oneInEachByte &* 0x30 &+ letters &* 39).littleEndian
    }

    /// Returns a number as sixteen hexadecimal digits, letters in lower case.
    public static func text(_ number: UInt64) -> String { withUnsafeBytes(of: number.bigEndian) { text($0) } }

    /// Returns bytes as hexadecimal digits, two for each byte, letters in lower case.
    public static func text(_ bytes: UnsafeRawBufferPointer) -> String {
        String(unsafeUninitializedCapacity: bytes.count * 2) { write(bytes, to: UnsafeMutableRawBufferPointer($0)) }
    }

    /// Writes bytes as hexadecimal digits, letters in lower case, and returns the number of digits.
    /// - Precondition: `target` has room for two digits for each byte.
    @inlinable
    public static func write(_ bytes: UnsafeRawBufferPointer, to target: UnsafeMutableRawBufferPointer) -> Int {
        precondition(target.count >= bytes.count &* 2, "two digits a byte")
        for index in 0..<bytes.count {
            target[index &* 2] = digit(bytes[index] &>> 4)
            target[index &* 2 &+ 1] = digit(bytes[index] & 15)
        }
        return bytes.count &* 2
    }
}
