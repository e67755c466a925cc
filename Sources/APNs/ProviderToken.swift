import COpenSSL

/// One signed provider token: immutable, shared by every connection that pinned it.
public final class ProviderToken: @unchecked Sendable {
    /// The token's `iat`, UNIX seconds.
    public let issuedAtSeconds: Int64
    /// `bearer <token>`, at an address that stays the same as long as the object lives: headers point into it.
    let headerValue: UnsafeRawBufferPointer
    /// Which of its source's keys signed it: 0 for the first, and one more for each that took its place.
    let keyGeneration: Int

    /// What precedes the token in the `authorization` header.
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

    /// The token itself, without the scheme, to share it with other processes or other senders.
    public var text: String {
        String(decoding: headerValue.dropFirst(ProviderToken.scheme.utf8CodeUnitCount), as: UTF8.self)
    }

    func ageSeconds(at unixSeconds: Int64) -> Int64 {
        unixSeconds - issuedAtSeconds
    }
}

/// The times that keep provider tokens within Apple's rules: a token is used for at most 60 minutes, and a connection
/// sees a new one at most once in 20, else it is answered TooManyProviderTokenUpdates ("Establishing a token-based connection to APNs").
///
/// - A connection pins the newest token that there is, for 20 minutes. A token is renewed at 35, so that as a rule what is pinned has
///   20 minutes left before it is 55 minutes old.
/// - It has not if the renewal is late: signing fails, or the fleet's common memory is away and the last token serves to its end, since
///   each process that signed its own would make one more for the team. A connection that pins such a token keeps it to its end and
///   is then replaced by another: it never sees a second one within its 20 minutes.
public enum ProviderTokenTimes {
    /// Age at which a new token takes the old one's place for new connections.
    public static let renewalSeconds: Int64 = 35 * 60
    /// Age past which no connection uses a token. A connection that pins one just before its renewal reaches exactly
    /// this age when its 20 minutes are over.
    public static let lastUseSeconds: Int64 = 55 * 60
    /// How long a connection stays with a token, and at least how long it has seen none but that when it changes.
    public static let pinSeconds: Int64 = 20 * 60

    /// Until a connection looks again after a signing that failed.
    static let retrySeconds: Int64 = 1

    /// When a connection that pinned a token looks for a newer one: not before the pin is over, nor before there can
    /// be one.
    static func reviewSeconds(pinnedAt: Int64, issuedAt: Int64) -> Int64 {
        min(max(pinnedAt + pinSeconds, issuedAt + renewalSeconds), issuedAt + lastUseSeconds)
    }

    /// Whether a connection may change the token that it pinned for another.
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
