import LiveActivity
import Numbers
import Redis

/// A token in a device's hash: a letter that says its environment and whether it is packed (``TokenForm``), then the
/// token. An activity's value has a number instead of the letter.
///
/// Tokens are opaque, but all known tokens of Apple are lower-case hexadecimal digits. Such a token is packed, two
/// digits in a byte, which saves a fifth of a device's hash.
enum StoredDeviceToken {
    /// The maximum length of the token's first part, which is in the field `t` of a device's hash after the
    /// registration's time. The field `u` has the rest. So with the usual 160 digits, no field has more than 64 bytes,
    /// as Redis requires to store a hash compactly (`hash-max-listpack-value`).
    static let tokenBytesInFieldTMax = 64 - StoredTime.digitCount
    /// The maximum length of a stored token: a letter, and ``StoreLimits/tokenBytesMax`` bytes that cannot be packed.
    static let bytesMax = StoreLimits.tokenBytesMax + 1

    /// Writes a token as a device's hash stores it, and returns the length.
    static func encode(
        _ token: UnsafeRawBufferPointer,
        _ environment: APNsEnvironment,
        to destination: UnsafeMutableRawPointer
    ) -> Int {
        let (form, count) = encodeBytes(of: token, environment, to: destination + 1)
        destination.storeBytes(of: form.letter, as: UInt8.self)
        return count + 1
    }

    /// Writes only a token's bytes, packed if possible, and returns their number and the token's ``TokenForm``. The
    /// caller stores the form: as a letter before the bytes in a device's hash, as a number in an activity's value.
    static func encodeBytes(
        of token: UnsafeRawBufferPointer,
        _ environment: APNsEnvironment,
        to destination: UnsafeMutableRawPointer
    ) -> (form: TokenForm, count: Int) {
        if pack(token, to: destination) {
            return (environment == .production ? .packedProduction : .packedSandbox, token.count / 2)
        }
        UnsafeMutableRawBufferPointer(start: destination, count: token.count).copyMemory(from: token)
        return (environment == .production ? .unpackedProduction : .unpackedSandbox, token.count)
    }

    /// Reads a token from a device's hash, and writes the original token to `destination`, which has room for twice
    /// ``bytesMax``. Returns nil if the bytes are not a stored token.
    static func decode(
        _ stored: UnsafeRawBufferPointer,
        to destination: UnsafeMutableRawPointer
    ) -> (count: Int, environment: APNsEnvironment)? {
        guard let letter = stored.first, let form = TokenForm(letter: letter) else { return nil }
        return decode(form, UnsafeRawBufferPointer(rebasing: stored[1...]), to: destination)
    }

    /// Reads a token whose form is stored apart from its bytes, as in an activity's value. Writes the original token to
    /// `destination`. Returns nil if `token` is empty or too long.
    static func decode(
        _ form: TokenForm,
        _ token: UnsafeRawBufferPointer,
        to destination: UnsafeMutableRawPointer
    ) -> (count: Int, environment: APNsEnvironment)? {
        guard token.count > 0, token.count < bytesMax else { return nil }
        switch form {
        case .unpackedProduction, .unpackedSandbox:
            UnsafeMutableRawBufferPointer(start: destination, count: token.count).copyMemory(from: token)
            return (token.count, form == .unpackedProduction ? .production : .sandbox)
        case .packedProduction, .packedSandbox:
            let digits = UnsafeMutableRawBufferPointer(start: destination, count: token.count * 2)
            return (Hexadecimal.write(token, to: digits), form == .packedProduction ? .production : .sandbox)
        }
    }

    /// Packs a token, two digits in a byte. Returns false if the token is not an even number of lower-case hexadecimal
    /// digits; then the bytes at `destination` are meaningless.
    private static func pack(_ token: UnsafeRawBufferPointer, to destination: UnsafeMutableRawPointer) -> Bool {
        guard token.count % 2 == 0 else { return false }
        // The bitwise OR of the values of all digits. It is above 15 if any byte is not a lower-case hexadecimal digit,
        // because `value(of:)` returns 255 for such a byte.
        var combinedDigitBits: UInt8 = 0
        for index in 0..<(token.count / 2) {
            let high = value(of: token[index &* 2])
            let low = value(of: token[index &* 2 &+ 1])
            combinedDigitBits |= high | low
            destination.storeBytes(of: high << 4 | low, toByteOffset: index, as: UInt8.self)
        }
        return combinedDigitBits <= 15
    }

    /// Returns 0 to 15 for a lower-case hexadecimal digit, 255 for any other byte.
    private static func value(of digit: UInt8) -> UInt8 {
        let number = digit &- UInt8(ascii: "0")
        if number <= 9 { return number }
        let letter = digit &- UInt8(ascii: "a")
        return letter <= 5 ? letter &+ 10 : 255
    }
}

/// A token's environment, and whether its digits are packed. An activity's value stores the form as a number, a
/// device's hash as a letter.
enum TokenForm: UInt8 {
    case packedProduction = 1
    case packedSandbox
    case unpackedProduction
    case unpackedSandbox

    init?(letter: UInt8) {
        switch letter {
        case UInt8(ascii: "P"): self = .packedProduction
        case UInt8(ascii: "S"): self = .packedSandbox
        case UInt8(ascii: "p"): self = .unpackedProduction
        case UInt8(ascii: "s"): self = .unpackedSandbox
        default: return nil
        }
    }

    var letter: UInt8 {
        switch self {
        case .packedProduction: UInt8(ascii: "P")
        case .packedSandbox: UInt8(ascii: "S")
        case .unpackedProduction: UInt8(ascii: "p")
        case .unpackedSandbox: UInt8(ascii: "s")
        }
    }
}

/// A time in UNIX milliseconds, stored as digits. All times have the same number of digits, so the scripts compare them
/// as text.
enum StoredTime {
    static let digitCount = 13
    /// The last time that fits into the digits. A later time is stored as this time.
    static let millisecondsMax: Int64 = 9_999_999_999_999

    /// Returns the time as stored: a time before 1970 as 0, a time after 2286 as ``millisecondsMax``.
    static func clampedMilliseconds(_ milliseconds: Int64) -> UInt64 {
        UInt64(min(max(0, milliseconds), millisecondsMax))
    }

    static func write(_ milliseconds: Int64, to destination: UnsafeMutableRawPointer) {
        Decimal.write(clampedMilliseconds(milliseconds), digitCount: digitCount, to: destination)
    }

    static func parseMilliseconds(_ text: UnsafeRawBufferPointer) -> Int64? {
        guard text.count == digitCount else { return nil }
        return Decimal.parse(text).flatMap { Int64(exactly: $0) }
    }
}
