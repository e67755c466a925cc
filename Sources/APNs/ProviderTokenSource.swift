import Synchronization

/// Signs the provider tokens of one team, and gives the newest token to all connections that use the source. A token
/// never changes; a renewal creates a new one. Connections keep references to their tokens, so a push takes no lock.
///
/// The key may be replaced while pushes are sent. A new key is first a *candidate*: one pool of the process opens one
/// more connection with the candidate's token, and sends one push at a time on this connection.
/// - If APNs refuses the candidate, the source discards it, and the push is sent again with the key in use.
/// - If APNs accepts the candidate's token, the candidate becomes the key in use. The pools then replace their
///   connections with the old key one after the other, because one connection must never carry tokens of two keys.
public final class ProviderTokenSource: Sendable {
    /// The state of the source's keys, for logs and metrics.
    public struct KeyStatus: Sendable, Equatable {
        /// The id of the key in use.
        public var keyIdentifier: String
        /// The id of the candidate key; nil if there is none.
        public var candidateKeyIdentifier: String?
        /// Why the last candidate key failed; `absent` if APNs gave no reason, or if the key could not sign a token.
        /// Nil if no candidate has failed since APNs last accepted one.
        public var candidateRefusalReason: Reason?
    }

    /// How a pool's trial of the candidate key ended.
    enum KeyTrialResult {
        case accepted
        case refused(Reason)
        /// The trial ended before APNs accepted or refused the key; another pool may try the key.
        case inconclusive
    }

    private struct Signer {
        var key: SigningKey
        var keyIdentifier: String
        var generation: Int
    }

    private struct State {
        var signerInUse: Signer
        var tokenInUse: ProviderToken?
        /// The signer of the candidate key; nil if there is none.
        var candidateSigner: Signer?
        /// The candidate key's token while a pool tries the key; otherwise nil.
        var trialToken: ProviderToken?
        var keyTrialBeganAtSeconds: Int64 = 0
        var candidateRefusalReason: Reason?
        var offeredKeyCount = 0
        /// Whether all workers share tokens through Redis. One worker then renews the token for all.
        var sharesTokens = false
        /// When the last token was issued that `forgetRefusedToken` forgot; nil if there is none. Redis may still have
        /// this token, and the process must not adopt it again.
        var refusedTokenIssuedAtSeconds: Int64?
    }

    public let teamIdentifier: String
    private let state: Mutex<State>

    /// - Parameters:
    ///   - keyIdentifier: the key's id, which Apple gives with the key: 10 letters and digits.
    ///   - teamIdentifier: the developer team's id: 10 letters and digits.
    /// - Throws: ``InvalidSettingError`` if an identifier is not 10 letters and digits.
    public init(key: SigningKey, keyIdentifier: String, teamIdentifier: String) throws(InvalidSettingError) {
        try ProviderTokenSource.validate("keyIdentifier", keyIdentifier)
        try ProviderTokenSource.validate("teamIdentifier", teamIdentifier)
        self.teamIdentifier = teamIdentifier
        state = Mutex(State(signerInUse: Signer(key: key, keyIdentifier: keyIdentifier, generation: 0)))
    }

    private static func validate(_ setting: String, _ identifier: String) throws(InvalidSettingError) {
        guard identifier.utf8.count == 10, identifier.utf8.allSatisfy(\.isASCIIAlphanumeric) else {
            throw InvalidSettingError(setting: setting, detail: "must be 10 letters and digits")
        }
    }

    /// Returns the token to send now; nil if no token is usable. Signs a new token if there is none, or if the token in
    /// use has reached ``ProviderTokenTimes/renewalAgeSeconds`` or was issued in the future. If signing fails, returns
    /// the token in use until it reaches ``ProviderTokenTimes/ageSecondsMax``.
    ///
    /// If the workers share tokens, one worker signs for all. This method then signs only as a last resort: there is no
    /// token, the token has reached `ageSecondsMax`, or it was issued too far in the future.
    public func currentToken(unixSeconds: Int64) -> ProviderToken? {
        state.withLock { state in
            if let token = state.tokenInUse {
                let ageSeconds = token.ageSeconds(at: unixSeconds)
                // A token with a negative age was issued in the future: this clock was set back, or the clock of
                // another process, which signed a shared token, is ahead. Only a shared token may be a little ahead.
                let ageSecondsMin = state.sharesTokens ? -ProviderTokenRenewal.clockSkewSecondsMax : 0
                let ageSecondsMax =
                    state.sharesTokens ? ProviderTokenTimes.ageSecondsMax : ProviderTokenTimes.renewalAgeSeconds
                if ageSeconds >= ageSecondsMin && ageSeconds < ageSecondsMax { return token }
            }
            if let token = makeToken(signedBy: state.signerInUse, unixSeconds: unixSeconds) {
                state.tokenInUse = token
                return token
            }
            guard let token = state.tokenInUse, token.ageSeconds(at: unixSeconds) < ProviderTokenTimes.ageSecondsMax
            else {
                return nil
            }
            return token
        }
    }

    /// Forgets a token that APNs refused with ExpiredProviderToken or UnrelatedKeyIdInToken, so that `currentToken`
    /// signs a new one. Does nothing if the token is 0 to 20 minutes old. APNs calls such a token expired only because
    /// the clocks differ, and signing again so soon could lead to TooManyProviderTokenUpdates.
    func forgetRefusedToken(_ token: ProviderToken, unixSeconds: Int64) {
        state.withLock { state in
            guard state.tokenInUse === token else { return }
            let ageSeconds = token.ageSeconds(at: unixSeconds)
            if ageSeconds < 0 || ageSeconds >= ProviderTokenTimes.tokenChangeIntervalSecondsMin {
                state.tokenInUse = nil
                state.refusedTokenIssuedAtSeconds = token.issuedAtSeconds
            }
        }
    }

    // MARK: - Sharing tokens with other workers

    /// Tells the source that the workers share tokens. From now on, the source signs by itself only if it has no token
    /// that may be used. The caller must read the shared token in Redis, pass it to ``adopt(_:keyIdentifier:)``, and
    /// renew it with ``signSharedToken(keyIdentifier:unixSeconds:)``.
    public func beginSharing() {
        state.withLock { $0.sharesTokens = true }
    }

    /// The id of the key in use, and two issue times: of the token in use, and of the last token that the source forgot
    /// because APNs refused the token. A time is nil if there is no such token. ``ProviderTokenRenewal`` uses these
    /// values.
    public var keyAndIssueTimes:
        (keyIdentifier: String, tokenInUseIssuedAtSeconds: Int64?, refusedTokenIssuedAtSeconds: Int64?)
    {
        state.withLock {
            ($0.signerInUse.keyIdentifier, $0.tokenInUse?.issuedAtSeconds, $0.refusedTokenIssuedAtSeconds)
        }
    }

    /// Uses a token of another process from now on. Does nothing if the key with this id is no longer in use.
    public func adopt(_ token: SharedToken, keyIdentifier: String) {
        state.withLock { state in
            guard state.signerInUse.keyIdentifier == keyIdentifier else { return }
            state.tokenInUse = ProviderToken(
                token: Array(token.text.utf8),
                issuedAtSeconds: token.issuedAtSeconds,
                keyGeneration: state.signerInUse.generation
            )
        }
    }

    /// Signs a new token for all workers, and uses it here at once. Returns nil if signing fails or the key
    /// with this id is no longer in use.
    public func signSharedToken(keyIdentifier: String, unixSeconds: Int64) -> SharedToken? {
        state.withLock { state in
            guard state.signerInUse.keyIdentifier == keyIdentifier,
                let token = makeToken(signedBy: state.signerInUse, unixSeconds: unixSeconds)
            else { return nil }
            state.tokenInUse = token
            return SharedToken(text: token.text, issuedAtSeconds: unixSeconds)
        }
    }

    // MARK: - Replacing the key in use

    /// Offers a new key. It replaces the key in use when APNs has accepted the new key. Discards an earlier candidate.
    ///
    /// - Throws: ``InvalidSettingError`` if the identifier is not 10 letters and digits.
    public func offer(_ key: SigningKey, keyIdentifier: String) throws(InvalidSettingError) {
        try ProviderTokenSource.validate("keyIdentifier", keyIdentifier)
        state.withLock { state in
            state.offeredKeyCount += 1
            state.candidateSigner = Signer(key: key, keyIdentifier: keyIdentifier, generation: state.offeredKeyCount)
            state.trialToken = nil
        }
    }

    public var keyStatus: KeyStatus {
        state.withLock { state in
            KeyStatus(
                keyIdentifier: state.signerInUse.keyIdentifier,
                candidateKeyIdentifier: state.candidateSigner?.keyIdentifier,
                candidateRefusalReason: state.candidateRefusalReason
            )
        }
    }

    /// Whether the source has this key, under this id, and no other key: the key is in use, and there is no candidate.
    /// Keys are the same if they were read from the same file, unchanged.
    public func holdsOnly(_ key: SigningKey, keyIdentifier: String) -> Bool {
        state.withLock { state in
            state.candidateSigner == nil && state.signerInUse.keyIdentifier == keyIdentifier
                && state.signerInUse.key.fileIdentity == key.fileIdentity
        }
    }

    /// The key that signs tokens now. A new key becomes this key only after APNs has accepted it.
    public var signingKey: SigningKey { state.withLock { $0.signerInUse.key } }

    /// The number of the key in use; see ``ProviderToken/keyGeneration``.
    var keyGeneration: Int { state.withLock { $0.signerInUse.generation } }

    /// How long one pool may try the candidate key. After this time another pool may try the key, because a pool
    /// without pushes gets no result.
    static let keyTrialSecondsMax: Int64 = 30

    /// Begins a trial of the candidate key, and returns the candidate's token to the first pool that asks. This pool
    /// must try the token, and then call `endKeyTrial`. Until then, for at most `keyTrialSecondsMax`, other pools get
    /// nil.
    ///
    /// Every pool gets nil if there is no candidate. A candidate that cannot sign a token is discarded.
    func beginKeyTrial(unixSeconds: Int64) -> ProviderToken? {
        state.withLock { state in
            guard let candidateSigner = state.candidateSigner,
                state.trialToken == nil || unixSeconds - state.keyTrialBeganAtSeconds >= Self.keyTrialSecondsMax
            else { return nil }
            guard let token = makeToken(signedBy: candidateSigner, unixSeconds: unixSeconds) else {
                state.candidateSigner = nil
                state.candidateRefusalReason = .absent
                return nil
            }
            state.trialToken = token
            state.keyTrialBeganAtSeconds = unixSeconds
            return token
        }
    }

    /// Whether the trial of this token (`beginKeyTrial`) must end, because its key is neither the key in use nor the
    /// candidate any longer: the key failed in another pool, or a newer candidate replaced it.
    func isKeyTrialObsolete(_ token: ProviderToken) -> Bool {
        state.withLock { state in
            token.keyGeneration != state.signerInUse.generation
                && token.keyGeneration != state.candidateSigner?.generation
        }
    }

    /// Records the result of the trial of a token from `beginKeyTrial`. Does nothing if this trial is no longer under
    /// way: a newer candidate was offered, or another pool now tries the candidate.
    func endKeyTrial(of token: ProviderToken, _ result: KeyTrialResult) {
        state.withLock { state in
            guard state.trialToken === token, let candidateSigner = state.candidateSigner else { return }
            state.trialToken = nil
            switch result {
            case .inconclusive:
                break
            case .refused(let reason):
                state.candidateSigner = nil
                state.candidateRefusalReason = reason
            case .accepted:
                state.signerInUse = candidateSigner
                state.tokenInUse = token
                state.candidateSigner = nil
                state.candidateRefusalReason = nil
            }
        }
    }

    /// Signs a provider token, a JWT with the ids of the key and the team. Returns nil if OpenSSL fails.
    private func makeToken(signedBy signer: Signer, unixSeconds: Int64) -> ProviderToken? {
        let header = "{\"alg\":\"ES256\",\"kid\":\"\(signer.keyIdentifier)\"}"
        let claims = "{\"iss\":\"\(teamIdentifier)\",\"iat\":\(unixSeconds)}"
        var token = Base64URL.encode(Array(header.utf8))
        token.append(UInt8(ascii: "."))
        token += Base64URL.encode(Array(claims.utf8))
        guard let signature = signer.key.signature(of: token) else { return nil }
        token.append(UInt8(ascii: "."))
        token += Base64URL.encode(signature)
        return ProviderToken(token: token, issuedAtSeconds: unixSeconds, keyGeneration: signer.generation)
    }
}
