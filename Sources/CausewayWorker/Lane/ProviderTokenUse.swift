/// The provider token of a pool's last push, and the time of that push. While the pool sends nothing, the age of its
/// token does not matter.
struct ProviderTokenUse {
    /// How long a token counts as in use after a push. This is longer than the usual time between two requests for the
    /// metrics, so that the metrics show each token that is used.
    static let inUseMilliseconds: Int64 = 60_000

    /// When the token was issued, UNIX seconds; nil: not known yet.
    var issuedAtSeconds: Int64?
    private var submittedPushCount: UInt64 = 0
    private var lastUsedAtMilliseconds: Int64?

    /// Notes the pool's pushes and its token at one publication of the metrics.
    ///
    /// - Parameters:
    ///   - submittedPushCount: all pushes that the pool has taken since the start.
    ///   - hasUnfinishedPushes: whether pushes wait for a connection or for their response.
    ///   - issuedAtSeconds: when the connections' token was issued, UNIX seconds; nil if there is no connection.
    mutating func notePushes(
        submittedPushCount: UInt64,
        hasUnfinishedPushes: Bool,
        issuedAtSeconds: Int64?,
        nowMilliseconds: Int64
    ) {
        if submittedPushCount != self.submittedPushCount || hasUnfinishedPushes {
            lastUsedAtMilliseconds = nowMilliseconds
        }
        self.submittedPushCount = submittedPushCount
        if let issuedAtSeconds { self.issuedAtSeconds = issuedAtSeconds }
    }

    func isInUse(nowMilliseconds: Int64) -> Bool {
        lastUsedAtMilliseconds.map { nowMilliseconds - $0 < Self.inUseMilliseconds } ?? false
    }
}
