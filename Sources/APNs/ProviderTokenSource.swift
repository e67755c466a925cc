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
        public var keyId: String
        /// The id of the candidate key; nil if there is none.
        public var candidateKeyId: String?
        /// Why the last candidate key failed; nil if none has failed since APNs last accepted one. `absent` if APNs
        /// gave no reason, or if the key could not sign a token.
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
        var keyId: String
        var generation: Int
    }

    private struct State {
        var signerInUse: Signer
        var tokenInUse: ProviderToken?
        /// The signer of the candidate key; nil if there is no candidate.
        var candidateSigner: Signer?
        /// The candidate key's token, as the pool that tries the key has it; nil if no pool does.
        var trialToken: ProviderToken?
        /// The token from which each trial of the candidate key gets its copy; nil if there is none yet.
        var candidateToken: ProviderToken?
        /// Since when a trial waits for a shared token of the candidate key; nil if none waits.
        var candidateTokenAwaitedSinceSeconds: Int64?
        var keyTrialBeganAtSeconds: Int64 = 0
        var candidateRefusalReason: Reason?
        var offeredKeyCount = 0
        /// Whether all workers share tokens through Redis. One worker then renews the token for all.
        var sharesTokens = false
        /// Whether the last attempt to read or write the shared tokens failed.
        var isSharingInterrupted = false
        /// When the source forgot its token, because APNs refused it or it was issued too far in the future; nil once
        /// it has another token.
        var tokenAwaitedSinceSeconds: Int64?
        /// When the last token that `forgetRefusedToken` forgot was issued; nil if there is none. The source must not
        /// adopt this token again, which may still be in Redis.
        var refusedTokenIssuedAtSeconds: Int64?

        /// Whether the token may be sent now, without a renewal. If the workers share tokens, it is usable until
        /// ``ProviderTokenTimes/ageSecondsMax``, because another worker may renew it. A shared token may also be a
        /// little from the future, because the clock of the process that signed it may be ahead.
        func isUsable(_ token: ProviderToken, unixSeconds: Int64) -> Bool {
            let ages =
                sharesTokens
                ? -ProviderTokenRenewal.clockSkewSecondsMax..<ProviderTokenTimes.ageSecondsMax
                : 0..<ProviderTokenTimes.renewalAgeSeconds
            return ages.contains(token.ageSeconds(at: unixSeconds))
        }

        /// Whether the source still waits for a shared token, instead of signing one. The wait begins at `sinceSeconds`
        /// and lasts ``ProviderTokenSource/sharedTokenWaitSecondsMax``. It ends earlier if the sharing is interrupted
        /// or the clock is set back.
        func mayAwaitSharedToken(sinceSeconds: Int64, unixSeconds: Int64) -> Bool {
            sharesTokens && !isSharingInterrupted
                && (0..<ProviderTokenSource.sharedTokenWaitSecondsMax).contains(unixSeconds - sinceSeconds)
        }
    }

    public let teamId: String
    private let state: Mutex<State>

    /// - Parameters:
    ///   - keyId: the key's id, which Apple gives with the key: 10 letters and digits.
    ///   - teamId: the developer team's id: 10 letters and digits.
    /// - Throws: ``InvalidSettingError`` if an identifier is not 10 letters and digits.
    public init(key: SigningKey, keyId: String, teamId: String) throws(InvalidSettingError) {
        try ProviderTokenSource.validate("keyId", keyId)
        try ProviderTokenSource.validate("teamId", teamId)
        self.teamId = teamId
        state = Mutex(State(signerInUse: Signer(key: key, keyId: keyId, generation: 0)))
    }

    private static func validate(_ setting: String, _ identifier: String) throws(InvalidSettingError) {
        guard identifier.utf8.count == 10, identifier.utf8.allSatisfy(\.isASCIIAlphanumeric) else {
            throw InvalidSettingError(setting: setting, detail: "must be 10 letters and digits")
        }
    }

    /// Returns the token to send now; nil if no token is usable. Signs a token if there is none, or if the one in use
    /// has reached ``ProviderTokenTimes/renewalAgeSeconds`` or is from the future. If signing fails, the one in use
    /// serves until ``ProviderTokenTimes/ageSecondsMax``.
    ///
    /// If the workers share tokens, one worker signs for all, and this method signs only if the token in use has
    /// reached `ageSecondsMax` or is missing. After the source has forgotten a token, it returns nil while it waits for
    /// a shared one (``sharedTokenWaitSecondsMax``).
    public func provideToken(unixSeconds: Int64) -> ProviderToken? {
        state.withLock { state in
            if let token = state.tokenInUse, state.isUsable(token, unixSeconds: unixSeconds) { return token }
            if state.sharesTokens, let token = state.tokenInUse,
                token.ageSeconds(at: unixSeconds) < -ProviderTokenRenewal.clockSkewSecondsMax
            {
                // Perhaps Redis' clock was ahead and was set back, and the workers follow it. Then the token is from
                // the future for all workers at once, so wait for a shared token.
                (state.tokenInUse, state.tokenAwaitedSinceSeconds) = (nil, unixSeconds)
            }
            if let sinceSeconds = state.tokenAwaitedSinceSeconds,
                state.mayAwaitSharedToken(sinceSeconds: sinceSeconds, unixSeconds: unixSeconds)
            {
                return nil
            }
            if let token = makeToken(signedBy: state.signerInUse, unixSeconds: unixSeconds) {
                (state.tokenInUse, state.tokenAwaitedSinceSeconds) = (token, nil)
                return token
            }
            guard let token = state.tokenInUse, token.ageSeconds(at: unixSeconds) < ProviderTokenTimes.ageSecondsMax
            else {
                return nil
            }
            return token
        }
    }

    /// Forgets a token that APNs refused with ExpiredProviderToken or UnrelatedKeyIdInToken, so that `provideToken`
    /// signs a new one, or waits for a new shared one. Does nothing if the token is not in use, or if it is 0 to 20
    /// minutes old: signing again so soon could lead to TooManyProviderTokenUpdates.
    func forgetRefusedToken(_ token: ProviderToken, unixSeconds: Int64) {
        state.withLock { state in
            guard state.tokenInUse === token else { return }
            let ageSeconds = token.ageSeconds(at: unixSeconds)
            if ageSeconds < 0 || ageSeconds >= ProviderTokenTimes.tokenChangeIntervalSecondsMin {
                state.tokenInUse = nil
                state.refusedTokenIssuedAtSeconds = token.issuedAtSeconds
                state.tokenAwaitedSinceSeconds = unixSeconds
            }
        }
    }

    // MARK: - Sharing tokens with other workers

    /// How long a source without a token waits for a shared one, before it signs one for this process alone. If each
    /// worker signed at once, the team would create as many tokens as it has workers, which Apple does not allow. This
    /// time is longer than the lease with which one worker signs for all (`ProviderTokenSharer.leaseMilliseconds`).
    static let sharedTokenWaitSecondsMax: Int64 = 15

    /// Tells the source that the workers share tokens, so that it signs for this process alone only if no token may be
    /// used. The caller must read the shared token in Redis, pass it to ``adopt(_:keyId:)``, and renew it with
    /// ``signSharedToken(keyId:unixSeconds:)``.
    public func beginSharing() {
        state.withLock { $0.sharesTokens = true }
    }

    /// Notes whether the last attempt to read or write the shared tokens failed (`isInterrupted`). While it has failed,
    /// the source waits for no shared token.
    public func noteSharing(isInterrupted: Bool) {
        state.withLock { $0.isSharingInterrupted = isInterrupted }
    }

    /// Whether pushes or a trial wait for a shared token.
    public var awaitsSharedToken: Bool {
        state.withLock {
            $0.sharesTokens
                && ($0.tokenInUse == nil && $0.tokenAwaitedSinceSeconds != nil
                    || $0.candidateSigner != nil && $0.candidateTokenAwaitedSinceSeconds != nil)
        }
    }

    /// The id of a key, and the issue times of its tokens in UNIX seconds, which ``ProviderTokenRenewal`` needs.
    public struct KeyAndIssueTimes: Sendable, Equatable {
        public var keyId: String
        /// The issue time of the key's current token: the token for pushes if the key is in use, the token for trials
        /// if the key is the candidate. Nil if the source has no such token.
        public var tokenIssuedAtSeconds: Int64?
        /// The issue time of the last token that the source forgot because APNs refused the token; nil if there is
        /// none. Always nil for the candidate: if APNs refuses its token, the source discards the key.
        public var refusedTokenIssuedAtSeconds: Int64?
    }

    /// The key in use, with the issue times of its tokens.
    public var keyAndIssueTimes: KeyAndIssueTimes {
        state.withLock {
            KeyAndIssueTimes(
                keyId: $0.signerInUse.keyId,
                tokenIssuedAtSeconds: $0.tokenInUse?.issuedAtSeconds,
                refusedTokenIssuedAtSeconds: $0.refusedTokenIssuedAtSeconds
            )
        }
    }

    /// The candidate key, with the issue time of its token: the trials also use a shared token. Nil if there is no
    /// candidate. Also nil if the candidate has the id of the key in use, because Redis has only one token for each id.
    public var candidateKeyAndIssueTimes: KeyAndIssueTimes? {
        state.withLock { state in
            guard let candidateSigner = state.candidateSigner,
                candidateSigner.keyId != state.signerInUse.keyId
            else { return nil }
            return KeyAndIssueTimes(
                keyId: candidateSigner.keyId,
                tokenIssuedAtSeconds: state.candidateToken?.issuedAtSeconds
            )
        }
    }

    /// Uses a token of another process from now on: for pushes if this key is in use, for the next trials if it is the
    /// candidate. Does nothing if the source has no key with this id, or if its key has not signed the token: another
    /// worker's file may have another key under this id.
    public func adopt(_ token: SharedToken, keyId: String) {
        state.withLock { state in
            let isInUse = state.signerInUse.keyId == keyId
            guard let signer = isInUse ? state.signerInUse : state.candidateSigner,
                signer.keyId == keyId, signer.key.hasSigned(token.text)
            else { return }
            let sharedToken = ProviderToken(token, keyGeneration: signer.generation)
            if isInUse {
                (state.tokenInUse, state.tokenAwaitedSinceSeconds) = (sharedToken, nil)
            } else {
                (state.candidateToken, state.candidateTokenAwaitedSinceSeconds) = (sharedToken, nil)
            }
        }
    }

    /// Signs a new token for all workers, and uses it here at once, as `adopt` does. Returns nil if signing fails, or
    /// if the key with this id is neither in use nor the candidate any longer.
    public func signSharedToken(keyId: String, unixSeconds: Int64) -> SharedToken? {
        state.withLock { state in
            let isInUse = state.signerInUse.keyId == keyId
            guard let signer = isInUse ? state.signerInUse : state.candidateSigner,
                signer.keyId == keyId,
                let token = makeToken(signedBy: signer, unixSeconds: unixSeconds)
            else { return nil }
            if isInUse {
                (state.tokenInUse, state.tokenAwaitedSinceSeconds) = (token, nil)
            } else {
                (state.candidateToken, state.candidateTokenAwaitedSinceSeconds) = (token, nil)
            }
            return SharedToken(text: token.text, issuedAtSeconds: unixSeconds)
        }
    }

    // MARK: - Replacing the key in use

    /// Offers a new key. It replaces the key in use when APNs has accepted the new key. Discards an earlier candidate.
    ///
    /// - Throws: ``InvalidSettingError`` if the identifier is not 10 letters and digits.
    public func offer(_ key: SigningKey, keyId: String) throws(InvalidSettingError) {
        try ProviderTokenSource.validate("keyId", keyId)
        state.withLock { state in
            state.offeredKeyCount += 1
            state.candidateSigner = Signer(key: key, keyId: keyId, generation: state.offeredKeyCount)
            (state.trialToken, state.candidateToken) = (nil, nil)
            state.candidateTokenAwaitedSinceSeconds = nil
        }
    }

    public var keyStatus: KeyStatus {
        state.withLock { state in
            KeyStatus(
                keyId: state.signerInUse.keyId,
                candidateKeyId: state.candidateSigner?.keyId,
                candidateRefusalReason: state.candidateRefusalReason
            )
        }
    }

    /// Whether this key, under this id, is in use, and there is no candidate. Two keys are the same if they were read
    /// from the same file, unchanged.
    public func holdsOnly(_ key: SigningKey, keyId: String) -> Bool {
        state.withLock { state in
            state.candidateSigner == nil && state.signerInUse.keyId == keyId
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
    /// must try the token, and then call `endKeyTrial`. Returns nil in these cases:
    /// - There is no candidate, or it cannot sign a token. The source then discards it.
    /// - Another pool has begun a trial in the last `keyTrialSecondsMax`, and has not ended it.
    /// - The workers share tokens, and the source waits for one of this key (``sharedTokenWaitSecondsMax``).
    func beginKeyTrial(unixSeconds: Int64) -> ProviderToken? {
        state.withLock { state in
            guard let candidateSigner = state.candidateSigner,
                state.trialToken == nil || unixSeconds - state.keyTrialBeganAtSeconds >= Self.keyTrialSecondsMax
            else { return nil }
            if state.candidateToken.map({ state.isUsable($0, unixSeconds: unixSeconds) }) != true {
                let sinceSeconds = state.candidateTokenAwaitedSinceSeconds ?? unixSeconds
                if candidateSigner.keyId != state.signerInUse.keyId,
                    state.mayAwaitSharedToken(sinceSeconds: sinceSeconds, unixSeconds: unixSeconds)
                {
                    state.candidateTokenAwaitedSinceSeconds = sinceSeconds
                    return nil
                }
                state.candidateToken = makeToken(signedBy: candidateSigner, unixSeconds: unixSeconds)
            }
            state.candidateTokenAwaitedSinceSeconds = nil
            guard let candidateToken = state.candidateToken else {
                state.candidateSigner = nil
                state.candidateRefusalReason = .absent
                return nil
            }
            // Each trial has an object of its own, so that `endKeyTrial` ignores the result of an earlier trial.
            let token = ProviderToken(
                SharedToken(text: candidateToken.text, issuedAtSeconds: candidateToken.issuedAtSeconds),
                keyGeneration: candidateSigner.generation
            )
            state.trialToken = token
            state.keyTrialBeganAtSeconds = unixSeconds
            return token
        }
    }

    /// Whether a pool must end its trial of this token (`beginKeyTrial`): the key has failed in another pool, or a
    /// newer key has replaced it.
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
                (state.candidateSigner, state.candidateToken) = (nil, nil)
                state.candidateRefusalReason = reason
            case .accepted:
                state.signerInUse = candidateSigner
                (state.tokenInUse, state.tokenAwaitedSinceSeconds) = (token, nil)
                // APNs refused a token of the old key. This says nothing about tokens of the new key.
                state.refusedTokenIssuedAtSeconds = nil
                (state.candidateSigner, state.candidateToken) = (nil, nil)
                state.candidateRefusalReason = nil
            }
        }
    }

    /// Signs a provider token, a JWT with the ids of the key and the team. Returns nil if OpenSSL fails.
    private func makeToken(signedBy signer: Signer, unixSeconds: Int64) -> ProviderToken? {
        let header = "{\"alg\":\"ES256\",\"kid\":\"\(signer.keyId)\"}"
        let claims = "{\"iss\":\"\(teamId)\",\"iat\":\(unixSeconds)}"
        var token = Base64URL.encode(Array(header.utf8))
        token.append(UInt8(ascii: "."))
        token += Base64URL.encode(Array(claims.utf8))
        guard let signature = signer.key.signature(of: token) else { return nil }
        token.append(UInt8(ascii: "."))
        token += Base64URL.encode(signature)
        return ProviderToken(token: token, issuedAtSeconds: unixSeconds, keyGeneration: signer.generation)
    }
}
