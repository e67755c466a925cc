/// Masks secrets in a line before the line is written to the log or kept for /statusz. No code should log a secret;
/// this type masks what is logged by mistake:
///
/// - runs of 40 or more hex digits: the device tokens seen so far have 64 to 160
/// - provider tokens: a JWT begins with `eyJ`, the Base64 of `{"`
/// - PEM text, such as a private key: from `-----BEGIN` to the next double quote or the end of the line
/// - the user and password of a URL
enum Redaction {
    static let mask = "[masked]"
    private static let hexDigitsMin = 40
    /// A shorter text that begins with `eyJ` is not masked, because no provider token is so short.
    private static let jwtBytesMin = 20

    static func masked(_ line: String) -> String {
        var line = line
        let ranges = line.withUTF8 { secretRanges(in: $0) }
        guard !ranges.isEmpty else { return line }
        let bytes = Array(line.utf8)
        var maskedText: [UInt8] = []
        var copiedEnd = 0
        for range in ranges {
            maskedText += bytes[copiedEnd..<range.lowerBound]
            maskedText += mask.utf8
            copiedEnd = range.upperBound
        }
        maskedText += bytes[copiedEnd...]
        return String(decoding: maskedText, as: UTF8.self)
    }

    /// Returns the ranges of secrets, in order and without overlap.
    private static func secretRanges(in bytes: UnsafeBufferPointer<UInt8>) -> [Range<Int>] {
        var ranges: [Range<Int>] = []
        var index = 0
        while index < bytes.count {
            if hasPrefix("-----BEGIN", bytes, at: index) {
                ranges.append(index..<end(of: bytes, from: index) { $0 != UInt8(ascii: "\"") })
            } else if hasPrefix("://", bytes, at: index), let range = credentialsRange(in: bytes, from: index + 3) {
                ranges.append(range)
            } else if let end = deviceTokenOrJWTEnd(in: bytes, from: index) {
                ranges.append(index..<end)
            } else {
                // Hex digits that begin here are too few for a device token, so skip them. But stop at a last digit `e`
                // with which a JWT begins (`eyJ`).
                let hexEnd = end(of: bytes, from: index, while: isHexDigit)
                index = max(index + 1, hexEnd > index && hasPrefix("eyJ", bytes, at: hexEnd - 1) ? hexEnd - 1 : hexEnd)
                continue
            }
            index = ranges[ranges.count - 1].upperBound
        }
        return ranges
    }

    /// Returns the end of the device token (a long run of hex digits) or JWT that begins at `start`; nil if neither
    /// begins there. If the last digit of the run is the `e` with which a JWT begins, the secret includes the JWT.
    private static func deviceTokenOrJWTEnd(in bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
        let hexEnd = end(of: bytes, from: start, while: isHexDigit)
        if hexEnd - start >= hexDigitsMin { return jwtEnd(in: bytes, from: hexEnd - 1) ?? hexEnd }
        return jwtEnd(in: bytes, from: start)
    }

    private static func jwtEnd(in bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
        guard hasPrefix("eyJ", bytes, at: start) else { return nil }
        let end = end(of: bytes, from: start) { isBase64urlByte($0) || $0 == UInt8(ascii: ".") }
        return end - start >= jwtBytesMin ? end : nil
    }

    /// Returns the range of `user:password` in a URL; nil if there is none. `start` is the beginning of the URL's
    /// authority, after `://`.
    private static func credentialsRange(in bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> Range<Int>? {
        let end = end(of: bytes, from: start) { $0 > UInt8(ascii: " ") && $0 != UInt8(ascii: "\"") }
        guard let atSign = bytes[start..<end].lastIndex(of: UInt8(ascii: "@")), atSign > start else { return nil }
        return start..<atSign
    }

    private static func end(
        of bytes: UnsafeBufferPointer<UInt8>,
        from start: Int,
        while belongs: (UInt8) -> Bool
    ) -> Int {
        var end = start
        while end < bytes.count, belongs(bytes[end]) { end += 1 }
        return end
    }

    private static func hasPrefix(_ prefix: StaticString, _ bytes: UnsafeBufferPointer<UInt8>, at index: Int) -> Bool {
        let count = prefix.utf8CodeUnitCount
        guard bytes.count - index >= count else { return false }
        return (0..<count).allSatisfy { bytes[index + $0] == prefix.utf8Start[$0] }
    }

    private static func isHexDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
            UInt8(ascii: "A")...UInt8(ascii: "F"):
            true
        default: false
        }
    }

    /// Whether the byte is a character of the Base64url alphabet, in which a JWT is written.
    private static func isBase64urlByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
