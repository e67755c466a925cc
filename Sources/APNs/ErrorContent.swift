import Numbers

/// The reason and timestamp in the JSON of a response's body or of a GOAWAY's debug data.
///
/// The JSON comes from outside, and may be cut short or invalid. The values before the first invalid place are kept.
/// `reasonText` is a slice of these bytes, not a copy.
struct ErrorContent {
    /// The `reason` between its quotes, with its JSON escapes; empty if there is none.
    var reasonText = UnsafeRawBufferPointer(start: nil, count: 0)
    /// `timestamp` without its fraction, 0 to 2^63-1; nil if there is no such number.
    var timestampMilliseconds: Int64?

    var reason: Reason { Reason(text: reasonText) }

    /// The deepest nesting of a value that the scanner skips. A deeper value ends the scan, and the rest of the bytes
    /// is ignored.
    private static let depthMax = 8

    init() {}

    init(_ bytes: UnsafeRawBufferPointer) {
        var scanner = Scanner(bytes: bytes)
        guard scanner.skipIfNext(UInt8(ascii: "{")) else { return }
        while let key = scanner.readString(), scanner.skipIfNext(UInt8(ascii: ":")) {
            if ("reason" as StaticString).equals(key), let text = scanner.readString() {
                reasonText = text
            } else if ("timestamp" as StaticString).equals(key), let number = scanner.readWholeDigits() {
                timestampMilliseconds = Decimal.parse(number, max: UInt64(Int64.max)).map { Int64($0) }
            } else if !scanner.skipValue(depthMax: ErrorContent.depthMax) {
                return
            }
            guard scanner.skipIfNext(UInt8(ascii: ",")) else { return }
        }
    }

    /// Reads JSON from a position. If a method does not find what it reads, it returns nil or false and skips at most
    /// white space, so the caller may try another method. The exception is `skipValue`: after false, the caller must
    /// end the scan, because the position may be within a value.
    private struct Scanner {
        let bytes: UnsafeRawBufferPointer
        var position = 0

        init(bytes: UnsafeRawBufferPointer) {
            self.bytes = bytes
        }

        /// Skips white space and returns the next byte; nil at the end. The position stays at this byte.
        mutating func peek() -> UInt8? {
            while position < bytes.count {
                switch bytes[position] {
                case 0x20, 0x09, 0x0A, 0x0D: position += 1
                case let byte: return byte
                }
            }
            return nil
        }

        /// Skips the given byte if it comes next. Returns whether it was there.
        mutating func skipIfNext(_ byte: UInt8) -> Bool {
            guard peek() == byte else { return false }
            position += 1
            return true
        }

        /// Reads a string and returns the text between its quotes.
        mutating func readString() -> UnsafeRawBufferPointer? {
            guard peek() == UInt8(ascii: "\"") else { return nil }
            let start = position + 1
            var end = start
            while end < bytes.count, bytes[end] != UInt8(ascii: "\"") {
                end += bytes[end] == UInt8(ascii: "\\") ? 2 : 1
            }
            guard end < bytes.count else { return nil }
            position = end + 1
            return UnsafeRawBufferPointer(rebasing: bytes[start..<end])
        }

        /// Reads a number and returns the digits of its whole part. Skips a fraction.
        mutating func readWholeDigits() -> UnsafeRawBufferPointer? {
            guard let first = peek(), first &- UInt8(ascii: "0") < 10 else { return nil }
            let start = position
            while position < bytes.count, bytes[position] &- UInt8(ascii: "0") < 10 { position += 1 }
            let digits = UnsafeRawBufferPointer(rebasing: bytes[start..<position])
            guard position < bytes.count, bytes[position] == UInt8(ascii: ".") else { return digits }
            position += 1
            while position < bytes.count, bytes[position] &- UInt8(ascii: "0") < 10 { position += 1 }
            return digits
        }

        /// Skips one value of any type. Returns whether there was a value, nested no deeper than `depthMax`. Counts
        /// brackets, so that deep nesting needs no recursion.
        mutating func skipValue(depthMax: Int) -> Bool {
            var depth = 0
            repeat {
                guard let byte = peek() else { return false }
                switch byte {
                case UInt8(ascii: "\""):
                    guard readString() != nil else { return false }
                case UInt8(ascii: "{"), UInt8(ascii: "["):
                    depth += 1
                    position += 1
                    guard depth <= depthMax else { return false }
                case UInt8(ascii: "}"), UInt8(ascii: "]"):
                    guard depth > 0 else { return false }
                    depth -= 1
                    position += 1
                case UInt8(ascii: ","), UInt8(ascii: ":"):
                    guard depth > 0 else { return false }
                    position += 1
                default:
                    skipLiteral()
                }
            } while depth > 0
            return true
        }

        /// Skips `true`, `null`, a number, or anything else up to the next white space, quote, bracket, comma or colon.
        private mutating func skipLiteral() {
            while position < bytes.count {
                switch bytes[position] {
                case 0x20, 0x09, 0x0A, 0x0D, UInt8(ascii: ","), UInt8(ascii: ":"), UInt8(ascii: "}"),
                    UInt8(ascii: "]"), UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: "\""):
                    return
                default: position += 1
                }
            }
        }
    }
}
