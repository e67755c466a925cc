/// Decides what a process does about the provider token that all workers share through Redis. It does no I/O.
///
/// *When to renew* depends on how long Redis has kept the token, so a process with a wrong clock does not renew too
/// early or too often. (Its clock counts only if Redis' clock was set back.) *Whether to use the token* depends on the
/// token's issue time (`iat`) and the process's clock.
public enum ProviderTokenRenewal {
    /// How long Redis keeps a token: as long as connections may use it.
    public static let timeToLiveMilliseconds = ProviderTokenTimes.ageSecondsMax * 1_000
    /// A token that has at most this time left in Redis is at least 35 minutes old, and a worker must renew it.
    public static let remainingMillisecondsAtRenewal =
        (ProviderTokenTimes.ageSecondsMax - ProviderTokenTimes.renewalAgeSeconds) * 1_000
    /// A token that has more than this time left in Redis is less than 20 minutes old. It is not renewed even if APNs
    /// refuses it, because Apple limits how often a team may create tokens.
    static let remainingMillisecondsAfterRefusalMax =
        (ProviderTokenTimes.ageSecondsMax - ProviderTokenTimes.tokenChangeIntervalSecondsMin) * 1_000
    /// How far the clock of the process that signed the token may be ahead of this process's clock.
    static let clockSkewSecondsMax: Int64 = 300

    /// The shared token's entry in Redis.
    public struct StoredToken: Equatable, Sendable {
        /// The token that Redis keeps; nil if this process cannot decrypt or read it.
        public var token: SharedToken?
        /// How long Redis still keeps the token.
        public var remainingMilliseconds: Int64

        public init(token: SharedToken?, remainingMilliseconds: Int64) {
            self.token = token
            self.remainingMilliseconds = remainingMilliseconds
        }
    }

    public enum Action: Equatable, Sendable {
        /// Change nothing. One of these is true: the token in use is the shared one, this process cannot use the shared
        /// one, or another worker renews it.
        case keep
        case adopt(SharedToken)
        /// Renew the token. The workers compete for a lease in Redis, which one worker has at a time. The worker that
        /// gets the lease checks the entry again, and signs if the renewal is still due.
        case renew
    }

    /// Returns what a process must do about the entry that it has just read in Redis.
    ///
    /// - Parameters:
    ///   - storedToken: the entry in Redis; nil if there is none.
    ///   - tokenIssuedAtSeconds: when the token that the process has for this key was issued; nil if it has none.
    ///     Pushes use this token, or only trials if the key is the candidate.
    ///   - refusedTokenIssuedAtSeconds: the issue time of the last token that APNs refused, and that this process
    ///     therefore stopped using; nil if there is none.
    ///   - unixSeconds: the time by this process's clock.
    public static func nextAction(
        _ storedToken: StoredToken?,
        tokenIssuedAtSeconds: Int64?,
        refusedTokenIssuedAtSeconds: Int64?,
        unixSeconds: Int64
    ) -> Action {
        guard let storedToken, storedToken.remainingMilliseconds > remainingMillisecondsAtRenewal else { return .renew }
        if let token = storedToken.token, storedToken.remainingMilliseconds > timeToLiveMilliseconds {
            // Redis never gives a token so much time, so Redis' clock was set back. Then the process's clock decides
            // about a renewal:
            // - The process follows Redis' clock, and has forgotten the token, because it is now from the future.
            // - The process does not follow it, and its token is old. Without a renewal, all such workers would sign at
            //   once when the token is too old. If Redis' clock was set back by 20 to 35 minutes, they still do (K23).
            let isFromFuture = token.issuedAtSeconds > unixSeconds + clockSkewSecondsMax
            let isOld = unixSeconds - ProviderTokenTimes.renewalAgeSeconds >= token.issuedAtSeconds
            let isInUse = token.issuedAtSeconds == tokenIssuedAtSeconds
            if tokenIssuedAtSeconds == nil && isFromFuture || isInUse && isOld { return .renew }
        }
        // APNs has refused the token in Redis. Without a renewal, each worker would sign a token of its own after some
        // seconds.
        if let refusedTokenIssuedAtSeconds, tokenIssuedAtSeconds == nil,
            let token = storedToken.token, token.issuedAtSeconds <= refusedTokenIssuedAtSeconds,
            storedToken.remainingMilliseconds <= remainingMillisecondsAfterRefusalMax
        {
            return .renew
        }
        guard let token = storedToken.token, token.issuedAtSeconds != tokenIssuedAtSeconds,
            isUsable(token, refusedTokenIssuedAtSeconds: refusedTokenIssuedAtSeconds, unixSeconds: unixSeconds)
        else { return .keep }
        return .adopt(token)
    }

    /// Returns what a worker must do if the shared token must be renewed, but another worker has the lease and renews
    /// it: use the old shared token if it has no token and may use that one, otherwise nothing.
    public static func nextActionWithoutLease(
        _ storedToken: StoredToken?,
        tokenIssuedAtSeconds: Int64?,
        refusedTokenIssuedAtSeconds: Int64?,
        unixSeconds: Int64
    ) -> Action {
        guard tokenIssuedAtSeconds == nil, let token = storedToken?.token,
            isUsable(token, refusedTokenIssuedAtSeconds: refusedTokenIssuedAtSeconds, unixSeconds: unixSeconds)
        else { return .keep }
        return .adopt(token)
    }

    /// Whether this process may use a shared token: it is not too old or too far from the future, and newer than the
    /// last one that APNs refused.
    private static func isUsable(
        _ token: SharedToken,
        refusedTokenIssuedAtSeconds: Int64?,
        unixSeconds: Int64
    ) -> Bool {
        let (ageSeconds, hasOverflowed) = unixSeconds.subtractingReportingOverflow(token.issuedAtSeconds)
        return !hasOverflowed && ageSeconds >= -clockSkewSecondsMax && ageSeconds < ProviderTokenTimes.ageSecondsMax
            && token.issuedAtSeconds > refusedTokenIssuedAtSeconds ?? .min
    }
}

/// A signed provider token that processes share through Redis.
public struct SharedToken: Equatable, Sendable {
    public var text: String
    public var issuedAtSeconds: Int64

    public init(text: String, issuedAtSeconds: Int64) {
        self.text = text
        self.issuedAtSeconds = issuedAtSeconds
    }

    /// The issue time and the token as one text, which ``ProviderTokenCipher`` encrypts.
    public var encodedText: String { "\(issuedAtSeconds) \(text)" }

    /// - Returns: nil if the text is not an encoded token, is too long for a header, or has bytes that a header
    ///   must not contain.
    public init?(encodedText: String) {
        let parts = encodedText.utf8.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard parts.count == 2, let issuedAtSeconds = Int64(String(parts[0]) ?? ""), let text = String(parts[1]),
            !text.isEmpty, parts[1].count <= HeaderEncoder.authorizationBytesMax - "bearer ".utf8.count,
            text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { return nil }
        self.init(text: text, issuedAtSeconds: issuedAtSeconds)
    }
}
