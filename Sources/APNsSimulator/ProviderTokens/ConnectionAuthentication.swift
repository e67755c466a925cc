import Glibc

/// The provider tokens that one connection has presented. A state machine without I/O.
///
/// - `unauthenticated`: the connection has had no valid token yet. A valid token makes the connection `bound`, or
///   `expired` if the token is too old.
/// - `bound`: the connection belongs to the key of its first valid token. If the token in use is too old at a request,
///   the connection becomes `expired`. For another valid token, the first rule that applies decides:
///   1. It has another key: the response is `UnrelatedKeyIdInToken`.
///   2. The token in use was accepted less than 20 minutes ago: the response is a 429.
///   3. The new token is too old: the connection becomes `expired`.
///   4. Otherwise the new token becomes the token in use.
/// - `expired`: APNs responds with `ExpiredProviderToken` to every token. The client must open a new connection.
struct ConnectionAuthentication: ~Copyable {
    /// The shortest time between two changes of a connection's token. APNs responds with 429 to a change before this
    /// time is over.
    static let tokenChangeIntervalMillisecondsMin: Int64 = 20 * 60_000

    enum Phase {
        case unauthenticated
        case bound(VerifiedProviderToken, sinceMilliseconds: Int64)
        case expired
    }

    private(set) var phase = Phase.unauthenticated
    /// The bytes of the token in use. A request with the same bytes needs no new verification.
    private let currentToken: UnsafeMutableRawBufferPointer
    private var currentTokenByteCount = 0
    /// How often a token was verified on this connection, with or without success. The token in use is not verified
    /// again. ``ServiceStatistics/tokenVerificationCount`` is the sum over all connections.
    private(set) var verificationCount = 0

    init() {
        currentToken = .allocate(byteCount: VerifiedProviderToken.bytesMax, alignment: 8)
    }

    deinit {
        currentToken.deallocate()
    }

    var isAuthenticated: Bool {
        if case .bound = phase { return true }
        return false
    }

    /// Index of the key that the connection is bound to; nil if it is not bound.
    var keyIndex: Int? {
        if case .bound(let token, _) = phase { return token.keyIndex }
        return nil
    }

    /// Checks an `authorization` header field. An accepted token becomes the token in use, and its key becomes the
    /// connection's key. A token that is refused only because it is too old makes the connection `expired`. Any other
    /// refusal changes nothing.
    mutating func authenticate(
        _ authorization: UnsafeRawBufferPointer,
        keys: [VerifyingKey],
        environment: Environment,
        nowMilliseconds: Int64
    ) -> SimulatedResponse {
        if case .expired = phase { return .expiredProviderToken }
        guard let token = Self.bearerToken(authorization) else { return .invalidProviderToken }
        if case .bound(let boundToken, _) = phase,
            isEqual(
                token,
                UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(currentToken)[..<currentTokenByteCount])
            )
        {
            return expireIfTooOld(boundToken, nowMilliseconds: nowMilliseconds)
        }
        let verifiedToken: VerifiedProviderToken
        verificationCount += 1
        do throws(VerifiedProviderToken.Fault) {
            verifiedToken = try VerifiedProviderToken(token, keys: keys, environment: environment)
        } catch {
            return error == .otherEnvironment ? .badEnvironmentKeyIdInToken : .invalidProviderToken
        }
        return changeToken(to: verifiedToken, token, nowMilliseconds: nowMilliseconds)
    }

    private mutating func changeToken(
        to verifiedToken: VerifiedProviderToken,
        _ bytes: UnsafeRawBufferPointer,
        nowMilliseconds: Int64
    ) -> SimulatedResponse {
        if case .bound(let boundToken, let sinceMilliseconds) = phase {
            guard verifiedToken.keyIndex == boundToken.keyIndex else { return .unrelatedKeyIdInToken }
            guard nowMilliseconds - sinceMilliseconds >= Self.tokenChangeIntervalMillisecondsMin else {
                return .tooManyProviderTokenUpdates
            }
        }
        let response = expireIfTooOld(verifiedToken, nowMilliseconds: nowMilliseconds)
        guard response == .success else { return response }
        phase = .bound(verifiedToken, sinceMilliseconds: nowMilliseconds)
        currentToken.copyMemory(from: bytes)
        currentTokenByteCount = bytes.count
        return .success
    }

    private mutating func expireIfTooOld(_ token: VerifiedProviderToken, nowMilliseconds: Int64) -> SimulatedResponse {
        let (ageSeconds, overflow) = (nowMilliseconds / 1_000).subtractingReportingOverflow(token.issuedAtSeconds)
        guard !overflow, ageSeconds >= -VerifiedProviderToken.ageSecondsMax else { return .invalidProviderToken }
        guard ageSeconds <= VerifiedProviderToken.ageSecondsMax else {
            phase = .expired
            return .expiredProviderToken
        }
        return .success
    }

    /// Returns the text after `bearer `; nil for another scheme. The scheme's case does not matter (RFC 9110
    /// §11.1).
    private static func bearerToken(_ authorization: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        let scheme: StaticString = "bearer "
        let length = scheme.utf8CodeUnitCount
        guard authorization.count > length, let start = authorization.baseAddress,
            strncasecmp(start.assumingMemoryBound(to: CChar.self), "bearer ", length) == 0
        else { return nil }
        return UnsafeRawBufferPointer(rebasing: authorization[length...])
    }
}
