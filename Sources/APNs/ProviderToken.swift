import COpenSSL

/// One signed provider token. The object never changes, and all connections that use the token share it.
public final class ProviderToken: @unchecked Sendable {
    /// When the token was issued, UNIX seconds: the claim `iat` in the token.
    public let issuedAtSeconds: Int64
    /// `bearer <token>`. The bytes are valid as long as the object lives.
    let headerValue: UnsafeRawBufferPointer
    /// The number of the key that signed the token. The first key of the ``ProviderTokenSource`` has number 0, and each
    /// key that is offered later has the next number.
    let keyGeneration: Int

    /// The text before the token in the `authorization` header.
    static let scheme: StaticString = "bearer "

    init(token: [UInt8], issuedAtSeconds: Int64, keyGeneration: Int = 0) {
        let schemeBytes = ProviderToken.scheme.utf8CodeUnitCount
        let headerBytes = UnsafeMutableRawBufferPointer.allocate(byteCount: schemeBytes + token.count, alignment: 16)
        headerBytes.copyMemory(from: UnsafeRawBufferPointer(start: ProviderToken.scheme.utf8Start, count: schemeBytes))
        UnsafeMutableRawBufferPointer(rebasing: headerBytes[schemeBytes...]).copyBytes(from: token)
        headerValue = UnsafeRawBufferPointer(headerBytes)
        self.issuedAtSeconds = issuedAtSeconds
        self.keyGeneration = keyGeneration
    }

    convenience init(_ token: SharedToken, keyGeneration: Int) {
        self.init(
            token: Array(token.text.utf8),
            issuedAtSeconds: token.issuedAtSeconds,
            keyGeneration: keyGeneration
        )
    }

    deinit {
        let headerBytes = UnsafeMutableRawBufferPointer(mutating: headerValue)
        OPENSSL_cleanse(headerBytes.baseAddress, headerBytes.count)
        headerBytes.deallocate()
    }

    /// The token without the scheme, to share it with other processes or senders.
    public var text: String {
        String(decoding: headerValue.dropFirst(ProviderToken.scheme.utf8CodeUnitCount), as: UTF8.self)
    }

    func ageSeconds(at unixSeconds: Int64) -> Int64 {
        unixSeconds - issuedAtSeconds
    }
}

/// The times that keep provider tokens within Apple's rules ("Establishing a token-based connection to APNs"):
/// - A token may be used for at most 60 minutes.
/// - A connection may change its token at most once in 20 minutes. Otherwise APNs responds with
///   TooManyProviderTokenUpdates.
///
/// So a token is renewed at the age of 35 minutes: a connection that has just taken it can keep it for 20 minutes.
public enum ProviderTokenTimes {
    /// At this age of a token, the source signs a new token. A connection changes to the new token after it has kept
    /// the old token for ``tokenChangeIntervalSecondsMin``.
    public static let renewalAgeSeconds: Int64 = 35 * 60
    /// No connection uses a token of this age. Even one that took the token just before ``renewalAgeSeconds`` can keep
    /// it for ``tokenChangeIntervalSecondsMin``.
    ///
    /// If a renewal is late, because signing fails or the shared Redis is unreachable, all processes use the last token
    /// until this age: a new token from each process would break Apple's limit for the team.
    public static let ageSecondsMax: Int64 = 55 * 60
    /// A connection must keep a token for at least this time before it changes the token.
    public static let tokenChangeIntervalSecondsMin: Int64 = 20 * 60

    /// How long a connection waits after it has asked for a newer token and got none. Otherwise each push would ask,
    /// and take the lock of the ``ProviderTokenSource``.
    static let newerTokenRetrySeconds: Int64 = 1

    /// Returns when a connection must look for a newer token: after it has kept its token for
    /// ``tokenChangeIntervalSecondsMin`` and the token has reached ``renewalAgeSeconds``, but at the latest when the
    /// token reaches ``ageSecondsMax``. For example, if the token was 5, 30 or 40 minutes old when its use began, the
    /// connection looks when the token is 35, 50 or 55 minutes old.
    static func newerTokenCheckAtSeconds(usedSinceSeconds: Int64, issuedAtSeconds: Int64) -> Int64 {
        min(
            max(usedSinceSeconds + tokenChangeIntervalSecondsMin, issuedAtSeconds + renewalAgeSeconds),
            issuedAtSeconds + ageSecondsMax
        )
    }

    /// Whether a connection may take another token: it has kept its token for at least
    /// ``tokenChangeIntervalSecondsMin``.
    ///
    /// - Parameter usedSinceSeconds: when the connection began to use the token, UNIX seconds.
    static func mayChangeToken(usedSinceSeconds: Int64, nowSeconds: Int64) -> Bool {
        nowSeconds - usedSinceSeconds >= tokenChangeIntervalSecondsMin
    }
}

/// Base64 with the URL-safe alphabet and without padding (RFC 7515, section 2).
enum Base64URL {
    static func encode(_ bytes: [UInt8]) -> [UInt8] {
        // OpenSSL writes four digits for every three bytes, and a final NUL.
        var text = [UInt8](repeating: 0, count: (bytes.count + 2) / 3 * 4 + 1)
        let count = Int(EVP_EncodeBlock(&text, bytes, Int32(bytes.count)))
        text.removeSubrange(count...)
        while text.last == UInt8(ascii: "=") { text.removeLast() }
        for index in text.indices {
            switch text[index] {
            case UInt8(ascii: "+"): text[index] = UInt8(ascii: "-")
            case UInt8(ascii: "/"): text[index] = UInt8(ascii: "_")
            default: break
            }
        }
        return text
    }

    /// Returns the bytes that the text encodes; nil if the text is not in this encoding.
    static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        var digits = text.map { digit in
            switch digit {
            case UInt8(ascii: "-"): UInt8(ascii: "+")
            case UInt8(ascii: "_"): UInt8(ascii: "/")
            default: digit
            }
        }
        let paddingCount = (4 - digits.count % 4) % 4
        digits += [UInt8](repeating: UInt8(ascii: "="), count: paddingCount)
        var bytes = [UInt8](repeating: 0, count: digits.count / 4 * 3)
        let count = Int(EVP_DecodeBlock(&bytes, digits, Int32(digits.count)))
        guard paddingCount < 3, count >= paddingCount else { return nil }
        return Array(bytes.prefix(count - paddingCount))
    }
}
