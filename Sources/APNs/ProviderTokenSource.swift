import Synchronization

/// Signs the provider tokens of one team and hands the same one to every connection of the process.
///
/// A connection takes a token when it opens and at its next review, at most every 20 minutes, and keeps a reference:
/// the lock is never taken for a push. A token once handed out is never changed; a renewal swaps the reference.
///
/// A key may take another's place while pushes go on. The new one is a *candidate* first: one pool of the process opens one more
/// connection with its token and sends one push there. If APNs accepts it, the candidate becomes the key, and connections with tokens
/// of the old one are replaced one after the other, since one connection never sees two keys. If not, the candidate is dropped, and
/// the push goes elsewhere.
public final class ProviderTokenSource: Sendable {
    /// What the source knows of its keys, for logs and metrics.
    public struct KeyStatus: Sendable, Equatable {
        /// The id of the key in use.
        public var keyIdentifier: String
        /// The id of the key that is on trial; nil if there is none.
        public var candidateIdentifier: String?
        /// Why the last candidate was refused; nil if none was, or one has been accepted since.
        public var refusal: Reason?
    }

    enum Verdict {
        case accepted
        case refused(Reason)
        /// The connection ended first: somebody else may try.
        case inconclusive
    }

    private struct Signer {
        var key: SigningKey
        var keyIdentifier: String
        var generation: Int
    }

    private struct State {
        var signer: Signer
        var newest: ProviderToken?
        var candidate: Signer?
        /// The candidate's token while a connection tries it.
        var onTrial: ProviderToken?
        var trialBeganSeconds: Int64 = 0
        var refusal: Reason?
        var generationsOffered = 0
        /// Somebody renews the tokens for the whole fleet.
        var isShared = false
        /// Of the newest token that APNs called expired.
        var refusedIssuedAtSeconds: Int64?
    }

    public let teamIdentifier: String
    private let state: Mutex<State>

    /// - Parameters:
    ///   - keyIdentifier: the key's id, which Apple gives with the key: 10 letters and digits.
    ///   - teamIdentifier: the developer team's id: 10 letters and digits.
    /// - Throws: ``ConfigurationError`` if an identifier is anything else.
    public init(key: SigningKey, keyIdentifier: String, teamIdentifier: String) throws(ConfigurationError) {
        try ProviderTokenSource.check("keyIdentifier", keyIdentifier)
        try ProviderTokenSource.check("teamIdentifier", teamIdentifier)
        self.teamIdentifier = teamIdentifier
        state = Mutex(State(signer: Signer(key: key, keyIdentifier: keyIdentifier, generation: 0)))
    }

    private static func check(_ field: String, _ identifier: String) throws(ConfigurationError) {
        guard identifier.utf8.count == 10, identifier.utf8.allSatisfy(\.isASCIIAlphanumeric) else {
            throw ConfigurationError(field: field, detail: "must be 10 letters and digits")
        }
    }

    /// The token to use now, signed again when the last one is old. If signing fails, the last one serves to its end;
    /// nil once that has passed. One that is shared is renewed by the worker that shares it, and here only when it is at its end.
    public func current(unixSeconds: Int64) -> ProviderToken? {
        state.withLock { state in
            if let token = state.newest {
                let age = token.ageSeconds(at: unixSeconds)
                // A token from the future was signed by a clock that has been set back since, or by another's that is ahead.
                let youngest = state.isShared ? -ProviderTokenSharing.clockSecondsMax : 0
                let oldest = state.isShared ? ProviderTokenTimes.lastUseSeconds : ProviderTokenTimes.renewalSeconds
                if age >= youngest && age < oldest { return token }
            }
            if let token = sign(state.signer, unixSeconds: unixSeconds) {
                state.newest = token
                return token
            }
            guard let token = state.newest, token.ageSeconds(at: unixSeconds) < ProviderTokenTimes.lastUseSeconds else {
                return nil
            }
            return token
        }
    }

    /// APNs called this token expired. The next look-up signs a new one, unless this one is younger than the shortest
    /// time between two tokens: then the clocks disagree, and more tokens would only earn TooManyProviderTokenUpdates.
    func refused(_ token: ProviderToken, unixSeconds: Int64) {
        state.withLock { state in
            guard state.newest === token else { return }
            let age = token.ageSeconds(at: unixSeconds)
            if age < 0 || age >= ProviderTokenTimes.pinSeconds {
                state.newest = nil
                state.refusedIssuedAtSeconds = token.issuedAtSeconds
            }
        }
    }

    // MARK: - Sharing

    /// From now on the tokens are renewed by the caller, for the whole fleet, and handed in with ``adopt(_:keyIdentifier:)``.
    public func beginSharing() {
        state.withLock { $0.isShared = true }
    }

    /// What a sharer has to know: which key signs, and when the tokens were issued that are in use and that APNs called expired.
    public var sharingState: (keyIdentifier: String, inUseIssuedAt: Int64?, refusedIssuedAt: Int64?) {
        state.withLock { ($0.signer.keyIdentifier, $0.newest?.issuedAtSeconds, $0.refusedIssuedAtSeconds) }
    }

    /// Another process's token takes the place of the one in use. Nothing happens if another key has come into use meanwhile.
    public func adopt(_ token: SharedToken, keyIdentifier: String) {
        state.withLock { state in
            guard state.signer.keyIdentifier == keyIdentifier else { return }
            state.newest = ProviderToken(
                token: Array(token.text.utf8),
                issuedAtSeconds: token.issuedAtSeconds,
                keyGeneration: state.signer.generation
            )
        }
    }

    /// A new token for the whole fleet, which is in use here at once. Nil if signing fails, or another key has come into use.
    public func signForAll(keyIdentifier: String, unixSeconds: Int64) -> SharedToken? {
        state.withLock { state in
            guard state.signer.keyIdentifier == keyIdentifier,
                let token = sign(state.signer, unixSeconds: unixSeconds)
            else { return nil }
            state.newest = token
            return SharedToken(text: token.text, issuedAtSeconds: unixSeconds)
        }
    }

    // MARK: - Another key

    /// Another key is to take this one's place, once APNs has accepted it. An earlier candidate is forgotten.
    ///
    /// - Throws: ``ConfigurationError`` if the identifier is none.
    public func offer(_ key: SigningKey, keyIdentifier: String) throws(ConfigurationError) {
        try ProviderTokenSource.check("keyIdentifier", keyIdentifier)
        state.withLock { state in
            state.generationsOffered += 1
            state.candidate = Signer(key: key, keyIdentifier: keyIdentifier, generation: state.generationsOffered)
            state.onTrial = nil
        }
    }

    public var keyStatus: KeyStatus {
        state.withLock { state in
            KeyStatus(
                keyIdentifier: state.signer.keyIdentifier,
                candidateIdentifier: state.candidate?.keyIdentifier,
                refusal: state.refusal
            )
        }
    }

    /// The key in use was read from a file that others may read too.
    public var isKeyReadableByOthers: Bool { state.withLock { $0.signer.key.isReadableByOthers } }

    /// Which key signs now; see ``ProviderToken/keyGeneration``.
    var keyGeneration: Int { state.withLock { $0.signer.generation } }

    /// How long a pool has the candidate to itself: one that has nothing to send gives no verdict.
    static let trialSeconds: Int64 = 30

    /// The candidate's token, for the first pool that asks: it has to try it and give its verdict.
    func takeTrial(unixSeconds: Int64) -> ProviderToken? {
        state.withLock { state in
            guard let candidate = state.candidate,
                state.onTrial == nil || unixSeconds - state.trialBeganSeconds >= Self.trialSeconds
            else { return nil }
            guard let token = sign(candidate, unixSeconds: unixSeconds) else {
                state.candidate = nil
                state.refusal = .absent
                return nil
            }
            state.onTrial = token
            state.trialBeganSeconds = unixSeconds
            return token
        }
    }

    /// Whether a token from `takeTrial` is of a key that was refused to another pool, or that another candidate has replaced.
    func hasForsaken(_ token: ProviderToken) -> Bool {
        state.withLock { state in
            token.keyGeneration != state.signer.generation && token.keyGeneration != state.candidate?.generation
        }
    }

    /// What became of a token from `takeTrial`. Says nothing if another candidate has been offered since, or another pool is trying.
    func endTrial(of token: ProviderToken, _ verdict: Verdict) {
        state.withLock { state in
            guard state.onTrial === token, let candidate = state.candidate else { return }
            state.onTrial = nil
            switch verdict {
            case .inconclusive:
                break
            case .refused(let reason):
                state.candidate = nil
                state.refusal = reason
            case .accepted:
                state.signer = candidate
                state.newest = token
                state.candidate = nil
                state.refusal = nil
            }
        }
    }

    private func sign(_ signer: Signer, unixSeconds: Int64) -> ProviderToken? {
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
