import COpenSSL

/// One signed provider token. Immutable, and shared by every connection that pinned it.
public final class ProviderToken: @unchecked Sendable {
    /// The token's `iat`, UNIX seconds.
    public let issuedAtSeconds: Int64
    /// `bearer <token>`. Its address stays the same as long as the object lives, since headers point to it.
    let headerValue: UnsafeRawBufferPointer
    /// The number of the source's key that signed the token: 0 for the first key, and one more for each
    /// replacement.
    let keyGeneration: Int

    /// The text before the token in the `authorization` header.
    static let scheme: StaticString = "bearer "

    init(token: [UInt8], issuedAtSeconds: Int64, keyGeneration: Int = 0) {
        let schemeBytes = ProviderToken.scheme.utf8CodeUnitCount
        let text = UnsafeMutableRawBufferPointer.allocate(byteCount: schemeBytes + token.count, alignment: 16)
        text.copyMemory(from: UnsafeRawBufferPointer(start: ProviderToken.scheme.utf8Start, count: schemeBytes))
        UnsafeMutableRawBufferPointer(rebasing: text[schemeBytes...]).copyBytes(from: token)
        headerValue = UnsafeRawBufferPointer(text)
        self.issuedAtSeconds = issuedAtSeconds
        self.keyGeneration = keyGeneration
    }

    deinit {
        let text = UnsafeMutableRawBufferPointer(mutating: headerValue)
        OPENSSL_cleanse(text.baseAddress, text.count)
        text.deallocate()
    }

    /// The token itself, without the scheme, to share it with other processes or senders.
    public var text: String {
        String(decoding: headerValue.dropFirst(ProviderToken.scheme.utf8CodeUnitCount), as: UTF8.self)
    }

    func ageSeconds(at unixSeconds: Int64) -> Int64 {
        unixSeconds - issuedAtSeconds
    }
}

/// The times that keep provider tokens within Apple's rules. A token may be used for at most 60 minutes, and
/// a connection may change its token at most once in 20 minutes, or APNs answers TooManyProviderTokenUpdates
/// ("Establishing a token-based connection to APNs").
///
/// - A connection pins the newest token for 20 minutes. Tokens are renewed at 35 minutes, so a pinned token normally
///   has 20 minutes left before it is 55 minutes old.
/// - A renewal can be late: signing fails, or the shared Redis is unreachable. Then all use the last token
///   until its last use, because a new token from each process would break Apple's limit for the team. A
///   connection that pins such a token keeps it until then and is replaced. No connection changes its token
///   within 20 minutes.
public enum ProviderTokenTimes {
    /// The age at which a new token replaces the old one for new connections.
    public static let renewalSeconds: Int64 = 35 * 60
    /// The age past which no connection uses a token. A connection that pins a token just before its renewal
    /// reaches exactly this age at the end of its 20 minutes.
    public static let lastUseSeconds: Int64 = 55 * 60
    /// The shortest time for which a connection keeps a token before it may change it.
    public static let pinSeconds: Int64 = 20 * 60

    /// How long a connection waits after a failed signing before it asks for a token again.
    static let retrySeconds: Int64 = 1

    /// Returns when a connection looks for a newer token: once it may change its token and a newer one can
    /// exist, at the latest at the pinned token's last use.
    static func reviewSeconds(pinnedAt: Int64, issuedAt: Int64) -> Int64 {
        min(max(pinnedAt + pinSeconds, issuedAt + renewalSeconds), issuedAt + lastUseSeconds)
    }

    /// Whether a connection may replace the token that it pinned.
    static func permitsChange(pinnedAt: Int64, now: Int64) -> Bool {
        now - pinnedAt >= pinSeconds
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
}
