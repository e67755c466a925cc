import COpenSSL
import Synchronization

/// One signed provider token: immutable, shared by every connection that pinned it.
public final class ProviderToken: @unchecked Sendable {
    /// The token's `iat`, UNIX seconds.
    public let issuedAtSeconds: Int64
    /// `bearer <token>`, at an address that stays the same as long as the object lives: headers point into it.
    let headerValue: UnsafeRawBufferPointer

    /// What precedes the token in the `authorization` header.
    static let scheme: StaticString = "bearer "

    init(token: [UInt8], issuedAtSeconds: Int64) {
        let schemeBytes = ProviderToken.scheme.utf8CodeUnitCount
        let text = UnsafeMutableRawBufferPointer.allocate(byteCount: schemeBytes + token.count, alignment: 16)
        text.copyMemory(from: UnsafeRawBufferPointer(start: ProviderToken.scheme.utf8Start, count: schemeBytes))
        UnsafeMutableRawBufferPointer(rebasing: text[schemeBytes...]).copyBytes(from: token)
        headerValue = UnsafeRawBufferPointer(text)
        self.issuedAtSeconds = issuedAtSeconds
    }

    deinit {
        let text = UnsafeMutableRawBufferPointer(mutating: headerValue)
        OPENSSL_cleanse(text.baseAddress, text.count)
        text.deallocate()
    }

    func ageSeconds(at unixSeconds: Int64) -> Int64 {
        unixSeconds - issuedAtSeconds
    }
}

/// The times that keep provider tokens within Apple's rules: a token is used for at most 60 minutes, and a connection
/// sees a new one at most once in 20 ("Establishing a token-based connection to APNs").
public enum ProviderTokenTimes {
    /// Age at which a new token takes the old one's place for new connections.
    public static let renewalSeconds: Int64 = 35 * 60
    /// Age past which no connection uses a token. A connection that pins one just before its renewal reaches exactly
    /// this age when its 20 minutes are over.
    public static let lastUseSeconds: Int64 = 55 * 60
    /// How long a connection stays with a token.
    public static let pinSeconds: Int64 = 20 * 60

    /// Until a connection looks again after a signing that failed.
    static let retrySeconds: Int64 = 1

    /// When a connection that pinned a token looks for a newer one: not before the pin is over, nor before there can
    /// be one.
    static func reviewSeconds(pinnedAt: Int64, issuedAt: Int64) -> Int64 {
        min(max(pinnedAt + pinSeconds, issuedAt + renewalSeconds), issuedAt + lastUseSeconds)
    }
}

/// Signs the provider tokens of one (team, key) and hands the same one to every connection of the process.
///
/// A connection takes a token when it opens and at its next review, at most every 20 minutes, and keeps a reference:
/// the lock is never taken for a push. A token once handed out is never changed; a renewal swaps the reference.
public final class ProviderTokenSource: Sendable {
    private let key: SigningKey
    private let keyIdentifier: String
    private let teamIdentifier: String
    private let newest = Mutex<ProviderToken?>(nil)

    /// - Parameters:
    ///   - keyIdentifier: the key's id, which Apple gives with the key: 10 letters and digits.
    ///   - teamIdentifier: the developer team's id: 10 letters and digits.
    /// - Throws: ``ConfigurationError`` if an identifier is anything else.
    public init(key: SigningKey, keyIdentifier: String, teamIdentifier: String) throws(ConfigurationError) {
        try ProviderTokenSource.check("keyIdentifier", keyIdentifier)
        try ProviderTokenSource.check("teamIdentifier", teamIdentifier)
        self.key = key
        self.keyIdentifier = keyIdentifier
        self.teamIdentifier = teamIdentifier
    }

    private static func check(_ field: String, _ identifier: String) throws(ConfigurationError) {
        guard identifier.utf8.count == 10, identifier.utf8.allSatisfy(\.isASCIIAlphanumeric) else {
            throw ConfigurationError(field: field, detail: "must be 10 letters and digits")
        }
    }

    /// The token to use now, signed anew when the last one is old. If signing fails, the last one serves to its end;
    /// nil once that has passed.
    public func current(unixSeconds: Int64) -> ProviderToken? {
        newest.withLock { newest in
            if let token = newest {
                let age = token.ageSeconds(at: unixSeconds)
                // A token from the future was signed by a clock that has been set back since.
                if age >= 0 && age < ProviderTokenTimes.renewalSeconds { return token }
            }
            if let token = sign(unixSeconds: unixSeconds) {
                newest = token
                return token
            }
            guard let token = newest, token.ageSeconds(at: unixSeconds) < ProviderTokenTimes.lastUseSeconds else {
                return nil
            }
            return token
        }
    }

    /// APNs called this token expired. The next look-up signs a new one, unless this one is younger than the shortest
    /// time between two tokens: then the clocks disagree, and more tokens would only earn TooManyProviderTokenUpdates.
    func refused(_ token: ProviderToken, unixSeconds: Int64) {
        newest.withLock { newest in
            guard newest === token else { return }
            let age = token.ageSeconds(at: unixSeconds)
            if age < 0 || age >= ProviderTokenTimes.pinSeconds { newest = nil }
        }
    }

    private func sign(unixSeconds: Int64) -> ProviderToken? {
        let header = "{\"alg\":\"ES256\",\"kid\":\"\(keyIdentifier)\"}"
        let claims = "{\"iss\":\"\(teamIdentifier)\",\"iat\":\(unixSeconds)}"
        var token = Base64URL.encode(Array(header.utf8))
        token.append(UInt8(ascii: "."))
        token += Base64URL.encode(Array(claims.utf8))
        guard let signature = key.signature(of: token) else { return nil }
        token.append(UInt8(ascii: "."))
        token += Base64URL.encode(signature)
        return ProviderToken(token: token, issuedAtSeconds: unixSeconds)
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
