import APNs
import Delivery
import Logging
import Observability
import Reactor

/// Writes the log lines of a lane.
extension Lane {
    /// Logs a command that is sent although its content state or attributes break the app's contract, so that no phone
    /// can decode them.
    func noteContractWarning() {
        guard let warning = delivery.takeContractWarning() else { return }
        note(
            .commandUndecodable,
            [
                "app": "\(setup.registry.labels.apps[warning.appIndex])", "source": "\(warning.source)",
                "detail": "\(warning.message)",
            ]
        )
    }

    /// Logs an event of a pool's connections. If the pool itself closes a connection, the level is info.
    func note(_ event: PoolEvent, of pool: String) {
        switch event {
        case .connected(let connection, let peer):
            note(.apnsConnected, pool, ["connection": "\(connection)", "peer": "\(peer)"])
        case .authenticated(let connection, let streamsMax):
            note(.apnsAuthenticated, pool, ["connection": "\(connection)", "streams": "\(streamsMax)"])
        case .streamLimitChanged(let connection, let streamsMax):
            note(.apnsStreamLimit, pool, ["connection": "\(connection)", "streams": "\(streamsMax)"])
        case .goAway(let connection, let code, _, let text):
            note(.apnsGoAway, pool, ["connection": "\(connection)", "code": "\(code)", "reason": "\(text)"])
        case .retiring(let connection, let cause):
            note(.apnsRetiring, pool, ["connection": "\(connection)", "cause": "\(cause)"])
        case .closed(let connection, .certificateRefused, let detail):
            note(
                .apnsUntrusted,
                pool,
                ["connection": "\(connection)", "detail": "\(detail)", "authorities": "\(setup.apnsAuthorities)"]
            )
        case .closed(let connection, let cause, let detail):
            note(
                .apnsClosed,
                pool,
                level: cause == .retired || cause == .poolClosed ? .info : nil,
                ["connection": "\(connection)", "cause": "\(cause)", "detail": "\(detail)"]
            )
        case .resolveFailed(let host, let detail):
            note(.apnsUnresolved, pool, ["host": "\(host)", "detail": "\(detail)"])
        case .roomAwaited(let host):
            note(.apnsRoomAwaited, pool, ["host": "\(host)"])
        case .breakerOpened(let cause):
            note(.apnsBreakerOpen, pool, ["cause": "\(cause)"])
        case .breakerClosed:
            note(.apnsBreakerClosed, pool, [:])
        case .providerTokenTrouble(let reason, let detail):
            note(.providerTokenTrouble, pool, ["reason": "\(reason)", "detail": "\(detail)"])
        case .drained:
            note(.apnsDrained, pool, [:])
        }
    }

    private func note(
        _ kind: LogKind,
        _ pool: String,
        level: Logger.Level? = nil,
        _ metadata: @autoclosure () -> Logger.Metadata
    ) {
        note(
            kind,
            level: level,
            metadata().merging(["pool": "\(pool)", "lane": "\(number)"]) { own, _ in own }
        )
    }
}
