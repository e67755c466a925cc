import Reactor

/// Retires connections after responses that concern more than the push.
extension Pool {
    /// How long a connection must have used its provider token before TopicDisallowed retires it. So, while APNs
    /// refuses the topic, each connection is replaced at most this often, and the breaker still has one for its probes.
    /// After the fault is repaired, pushes continue within about this time.
    static let refusedTopicSecondsMin: Int64 = 30

    /// Retires the connection if the reason concerns it: APNs closes it, refuses its provider token, or, after
    /// ``refusedTopicSecondsMin``, refuses its topic. After ExpiredProviderToken or UnrelatedKeyIdInToken, the token
    /// source may also forget the token.
    func retireIfNeeded(_ connection: Connection, after reason: Reason) {
        switch reason {
        case .expiredProviderToken, .unrelatedKeyIdInToken:
            if let token = connection.providerToken {
                tokenSource.forgetRefusedToken(token, unixSeconds: loop.wallMilliseconds / 1_000)
            }
            retireForProviderToken(connection, reason)
        case .tooManyProviderTokenUpdates:
            retireForProviderToken(connection, reason)
        case .topicDisallowed:
            // APNs ties a connection to the bundle ids that the key may use when the connection is opened. If an
            // operator later corrects the key's bundle ids at Apple, only a new connection can send.
            let usedSeconds = loop.wallMilliseconds / 1_000 - connection.tokenUsedSinceSeconds
            guard usedSeconds >= Self.refusedTopicSecondsMin else { break }
            retireForProviderToken(connection, reason, detail: "\(reason.advice)")
        case .idleTimeout, .shutdown:
            connection.retire(.serverClosing)
        default:
            break
        }
    }

    private func retireForProviderToken(_ connection: Connection, _ reason: Reason, detail: String = "") {
        guard connection.isLive else { return }
        report(.providerTokenFailed(reason: reason, detail: detail))
        connection.retire(.providerToken)
    }
}
