/// What a process does about a token that a fleet shares. Pure.
///
/// A token's age is told in two ways. *When to renew* goes by how long the common memory has kept it, on which all agree: so a process
/// whose clock is wrong neither signs for the others nor is fought by them. *Whether to use it* goes by its `iat` and one's own clock.
public enum ProviderTokenSharing {
    /// How long the common memory keeps a token.
    public static let keptMilliseconds = ProviderTokenTimes.lastUseSeconds * 1_000
    /// A token that is kept no longer than this is to be renewed.
    public static let renewalRemainingMilliseconds =
        (ProviderTokenTimes.lastUseSeconds - ProviderTokenTimes.renewalSeconds) * 1_000
    /// How far the clocks of signer and user may be apart.
    static let clockSecondsMax: Int64 = 300

    /// What stands in the common memory.
    public struct Found: Equatable, Sendable {
        /// Nil: it cannot be read with this process's key.
        public var token: SharedToken?
        public var remainingMilliseconds: Int64

        public init(token: SharedToken?, remainingMilliseconds: Int64) {
            self.token = token
            self.remainingMilliseconds = remainingMilliseconds
        }
    }

    public enum Step: Equatable, Sendable {
        /// All is well, or nothing can be done: what is in use stays, to its end, and then one of one's own is signed.
        case keep
        case adopt(SharedToken)
        /// The worker that gets the lease looks again, and signs if it is still so.
        case renew
    }

    /// - Parameters:
    ///   - found: nil if there is nothing.
    ///   - inUseIssuedAt: when the one in use was issued; nil: there is none.
    ///   - refusedIssuedAt: when the newest was issued that APNs called expired; nil: none was.
    public static func step(
        _ found: Found?,
        inUseIssuedAt: Int64?,
        refusedIssuedAt: Int64?,
        unixSeconds: Int64
    ) -> Step {
        guard let found, found.remainingMilliseconds > renewalRemainingMilliseconds else { return .renew }
        guard let token = found.token, token.issuedAtSeconds != inUseIssuedAt,
            isUsable(token, unixSeconds: unixSeconds),
            token.issuedAtSeconds > refusedIssuedAt ?? .min
        else { return .keep }
        return .adopt(token)
    }

    /// What is done when it is due and somebody else has the lease: the old one serves meanwhile, for workers that have none.
    public static func stepWithoutLease(_ found: Found?, inUseIssuedAt: Int64?, unixSeconds: Int64) -> Step {
        guard inUseIssuedAt == nil, let token = found?.token, isUsable(token, unixSeconds: unixSeconds) else {
            return .keep
        }
        return .adopt(token)
    }

    private static func isUsable(_ token: SharedToken, unixSeconds: Int64) -> Bool {
        let (age, overflow) = unixSeconds.subtractingReportingOverflow(token.issuedAtSeconds)
        return !overflow && age >= -clockSecondsMax && age < ProviderTokenTimes.lastUseSeconds
    }
}

/// A signed provider token on its way between processes.
public struct SharedToken: Equatable, Sendable {
    public var text: String
    public var issuedAtSeconds: Int64

    public init(text: String, issuedAtSeconds: Int64) {
        self.text = text
        self.issuedAtSeconds = issuedAtSeconds
    }

    /// As one text, for the seal.
    public var encoded: String { "\(issuedAtSeconds) \(text)" }

    /// - Returns: nil if it is none, or holds what may not stand in a header.
    public init?(encoded: String) {
        let parts = encoded.utf8.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard parts.count == 2, let issuedAt = Int64(String(parts[0]) ?? ""), let text = String(parts[1]),
            !text.isEmpty, parts[1].count <= HeaderEncoder.authorizationBytesMax - "bearer ".utf8.count,
            text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { return nil }
        self.init(text: text, issuedAtSeconds: issuedAt)
    }
}
