/// A verified provider token (RFC 7519, in Apple's form).
struct VerifiedProviderToken {
    /// The maximum number of bytes of a token. A longer token is refused and not read, because each connection has a
    /// buffer of this size for its token.
    static let bytesMax = 2_048
    /// The highest age of a token. The time of issue may also be this far in the future.
    static let ageSecondsMax: Int64 = 3_600

    /// Index of the key among the service's keys.
    var keyIndex: Int
    /// When the token was issued, UNIX seconds.
    var issuedAtSeconds: Int64

    enum Fault: Error {
        case invalid
        case otherEnvironment
    }

    /// Verifies everything of a token except its age. A connection checks the age at each request, because the age
    /// grows.
    init(
        _ token: UnsafeRawBufferPointer,
        keys: [VerifyingKey],
        environment: Environment
    ) throws(Fault) {
        guard token.count <= Self.bytesMax else { throw .invalid }
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3,
            let header = base64URLDecoded(UnsafeRawBufferPointer(rebasing: parts[0])),
            let claims = base64URLDecoded(UnsafeRawBufferPointer(rebasing: parts[1])),
            let signature = base64URLDecoded(UnsafeRawBufferPointer(rebasing: parts[2]))
        else { throw .invalid }
        guard let (algorithm, keyId) = Self.readHeader(header), algorithm == "ES256",
            let (issuer, issuedAtSeconds) = Self.readClaims(claims),
            let index = keys.firstIndex(where: { $0.keyId == keyId }),
            keys[index].teamId == issuer
        else { throw .invalid }
        let signedText = UnsafeRawBufferPointer(rebasing: token[..<(parts[0].count + 1 + parts[1].count)])
        guard keys[index].verifies(signedText, signature: signature) else { throw .invalid }
        if let keyEnvironment = keys[index].environment, keyEnvironment != environment { throw .otherEnvironment }
        keyIndex = index
        self.issuedAtSeconds = issuedAtSeconds
    }

    private static func readHeader(_ json: [UInt8]) -> (algorithm: String, keyId: String)? {
        read(json) { tape in
            guard let algorithm = tape.member("alg", of: 0), tape[algorithm].kind == .string,
                let key = tape.member("kid", of: 0), tape[key].kind == .string
            else { return nil }
            return (tape.string(algorithm), tape.string(key))
        }
    }

    private static func readClaims(_ json: [UInt8]) -> (issuer: String, issuedAtSeconds: Int64)? {
        read(json) { tape in
            guard let issuer = tape.member("iss", of: 0), tape[issuer].kind == .string,
                let issued = tape.member("iat", of: 0), let seconds = readSeconds(tape, at: issued)
            else { return nil }
            return (tape.string(issuer), seconds)
        }
    }

    private static func read<Value>(_ json: [UInt8], _ body: (borrowing JSONTape) -> Value?) -> Value? {
        json.withUnsafeBytes { bytes in
            var tape = JSONTape()
            do throws(JSONTape.Fault) {
                try tape.read(bytes)
            } catch {
                return nil
            }
            return body(tape)
        }
    }
}

extension VerifiedProviderToken {
    /// Reads the time of issue, UNIX seconds. Also reads a string of digits, because a common Swift client for APNs
    /// writes one.
    private static func readSeconds(_ tape: borrowing JSONTape, at index: Int) -> Int64? {
        tape[index].kind == .string ? parseUnsignedDecimal(tape.bytes(index)) : tape.integer(index)
    }
}

/// Decodes base64url without padding (RFC 4648 §5); nil if the text is not base64url.
func base64URLDecoded(_ text: UnsafeRawBufferPointer) -> [UInt8]? {
    guard text.count % 4 != 1 else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count * 3 / 4)
    var (bits, bitCount): (UInt32, UInt32) = (0, 0)
    for character in text {
        let value: UInt8
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = character - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): value = character - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): value = character - UInt8(ascii: "0") + 52
        case UInt8(ascii: "-"): value = 62
        case UInt8(ascii: "_"): value = 63
        default: return nil
        }
        bits = bits << 6 | UInt32(value)
        bitCount += 6
        if bitCount >= 8 {
            bitCount -= 8
            bytes.append(UInt8(truncatingIfNeeded: bits >> bitCount))
        }
    }
    return bytes
}
