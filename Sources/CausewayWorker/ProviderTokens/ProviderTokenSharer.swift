import APNs
import Logging
import Observability
import Reactor
import Redis

/// Shares the provider tokens of the fleet through Redis. All workers use the same token of a key, because Apple limits
/// how often a team may create tokens. This actor takes each key's token from Redis, and signs a new one only while it
/// has the lease for this. ``ProviderTokenRenewal`` decides.
///
/// While Redis is down, the current token stays in use until it expires or APNs refuses it. Then each worker signs a
/// token of its own.
actor ProviderTokenSharer {
    static let pollInterval = Duration.seconds(5)
    /// The time between two polls while pushes or the trial of a new key wait for a shared token.
    static let awaitedTokenPollInterval = Duration.seconds(1)
    /// The time between two polls at the start of this worker, while another worker signs a token.
    static let signingPollInterval = Duration.milliseconds(200)
    /// How long the lease to sign a shared token lasts. Only the worker that has the lease signs this token. If that
    /// worker dies, another worker signs after this time.
    static let leaseMilliseconds: Int64 = 10_000
    /// The maximum number of polls before the first push, while another worker signs a token: for about 3 s. If these
    /// polls find no shared token, this worker signs a token of its own.
    static let pollsBeforeFirstPushMax = 15

    private let executor = BlockingExecutor(label: "fleet tokens")
    private let tokenStore: ProviderTokenStore
    private let cipher: ProviderTokenCipher
    private let wallClock: WallClock
    private let sources: [ProviderTokenSource]
    private let log: SharedLimitedLog
    /// Whether the last poll failed. Of several failures in a row, only the first is logged.
    private var isFailing = false

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(
        _ sources: [ProviderTokenSource],
        redis: RedisConfiguration,
        cipher: ProviderTokenCipher,
        wallClock: WallClock,
        log: SharedLimitedLog
    ) throws(RedisError) {
        tokenStore = try ProviderTokenStore(configuration: redis)
        self.cipher = cipher
        self.wallClock = wallClock
        self.sources = sources
        self.log = log
        for source in sources { source.beginSharing() }
    }

    /// Gets the first tokens. Call this before the first push. If another worker is signing, waits a short time for its
    /// token. If Redis fails, does not wait.
    func awaitFirstTokens() async {
        for _ in 0..<Self.pollsBeforeFirstPushMax {
            poll()
            if isFailing || sources.allSatisfy({ $0.keyAndIssueTimes.tokenIssuedAtSeconds != nil }) { return }
            try? await Task.sleep(for: Self.signingPollInterval)
        }
    }

    /// Checks the tokens once every `pollInterval`, or every `awaitedTokenPollInterval` while pushes or the trial of a
    /// new key wait for a token, until the task is cancelled. So this worker soon uses a token that another worker has
    /// signed.
    func run() async {
        var pollDue = ContinuousClock.now + Self.pollInterval
        while !Task.isCancelled {
            try? await Task.sleep(for: Self.awaitedTokenPollInterval)
            // Check again whether the task was cancelled. A poll waits for Redis and would delay the task's end.
            let isPollDue = ContinuousClock.now >= pollDue || sources.contains(where: \.awaitsSharedToken)
            guard isPollDue, !Task.isCancelled else { continue }
            poll()
            pollDue = ContinuousClock.now + Self.pollInterval
        }
    }

    /// Takes a newer token of each key from Redis, or signs one if a new token is due and this worker may sign. An
    /// error of Redis ends the poll, and the sources learn that sharing is interrupted. Blocks for several round trips.
    func poll() {
        do {
            for source in sources {
                try adoptOrSign(source, source.keyAndIssueTimes)
                if let candidate = source.candidateKeyAndIssueTimes { try adoptOrSign(source, candidate) }
            }
            if isFailing { log(.sharedTokensAvailableAgain) }
            isFailing = false
        } catch {
            if !isFailing {
                log(.sharedTokensUnavailable, ["error": "\(error)"])
            }
            isFailing = true
        }
        for source in sources { source.noteSharing(isInterrupted: isFailing) }
    }

    /// Takes the newer token of one key from Redis, signs a new one, or keeps the token in use.
    private func adoptOrSign(
        _ source: ProviderTokenSource,
        _ keyAndIssueTimes: ProviderTokenSource.KeyAndIssueTimes
    ) throws(RedisError) {
        let unixSeconds = wallClock.wallMilliseconds / 1_000
        let name = "\(source.teamId)/\(keyAndIssueTimes.keyId)"
        func decideAction(_ storedToken: ProviderTokenRenewal.StoredToken?) -> ProviderTokenRenewal.Action {
            ProviderTokenRenewal.nextAction(
                storedToken,
                tokenIssuedAtSeconds: keyAndIssueTimes.tokenIssuedAtSeconds,
                refusedTokenIssuedAtSeconds: keyAndIssueTimes.refusedTokenIssuedAtSeconds,
                unixSeconds: unixSeconds
            )
        }
        var storedToken = try readStoredToken(name)
        var nextAction = decideAction(storedToken)
        if nextAction == .renew {
            if try tokenStore.acquireLease(name, leaseMilliseconds: Self.leaseMilliseconds) {
                // Read the stored token again, because another worker may have signed before this one got the lease.
                storedToken = try readStoredToken(name)
                nextAction = decideAction(storedToken)
            } else {
                nextAction = ProviderTokenRenewal.nextActionWithoutLease(
                    storedToken,
                    tokenIssuedAtSeconds: keyAndIssueTimes.tokenIssuedAtSeconds,
                    refusedTokenIssuedAtSeconds: keyAndIssueTimes.refusedTokenIssuedAtSeconds,
                    unixSeconds: unixSeconds
                )
            }
        }
        switch nextAction {
        case .keep: break
        case .adopt(let token): source.adopt(token, keyId: keyAndIssueTimes.keyId)
        case .renew:
            try renew(source, name: name, keyId: keyAndIssueTimes.keyId, unixSeconds: unixSeconds)
        }
    }

    private func readStoredToken(_ name: String) throws(RedisError) -> ProviderTokenRenewal.StoredToken? {
        guard let entry = try tokenStore.readToken(name) else { return nil }
        let token = cipher.open(entry.text, name: name).flatMap { SharedToken(encodedText: $0) }
        if token == nil {
            log(.sharedTokenUnreadable)
        }
        return ProviderTokenRenewal.StoredToken(token: token, remainingMilliseconds: entry.remainingMilliseconds)
    }

    private func renew(
        _ source: ProviderTokenSource,
        name: String,
        keyId: String,
        unixSeconds: Int64
    ) throws(RedisError) {
        guard let token = source.signSharedToken(keyId: keyId, unixSeconds: unixSeconds),
            let text = cipher.seal(token.encodedText, name: name)
        else { return log(.sharedTokenNotSigned) }
        try tokenStore.writeToken(name, text: text, timeToLiveMilliseconds: ProviderTokenRenewal.timeToLiveMilliseconds)
        log(.sharedTokenSigned, ["key": "\(name)"])
    }
}
