import APNs
import Delivery
import Kafka
import LiveActivity
import Logging
import Observability
import Reactor

extension Lane {
    /// Logs a command whose content state or attributes no phone can decode, because they break the app's contract.
    /// Does nothing if there is no such command. The command is sent nevertheless.
    func logContractWarning() {
        guard let warning = delivery.takeContractWarning() else { return }
        writeLog(
            .commandUndecodable,
            [
                "app": "\(setup.metricRegistry.labels.apps[warning.appIndex])", "source": "\(warning.source)",
                "detail": "\(warning.message)",
            ]
        )
    }

    /// If Redis held a command that cannot be read, logs this. The log gets no bytes of the command, because they may
    /// be personal data.
    func logHeldCommandFault() {
        guard let fault = delivery.takeHeldCommandFault() else { return }
        let reason = "a held command cannot be read: \(fault.code.name) at byte \(fault.offset)"
        writeLog(.redisRefused, ["script": "admit", "reason": "\(reason)"])
    }

    /// Logs that Kafka has not taken a record, and whether the core has given up the record. The texts are made only if
    /// the line is written.
    func logUnwrittenRecord(_ error: @autoclosure () -> KafkaError, to topic: ProducerTopic, isGivenUp: Bool) {
        writeLog(isGivenUp ? .recordGivenUp : .resultNotProduced, ["topic": "\(topic.name)", "error": "\(error())"])
    }

    /// Logs an event of a pool's connections. The end of a connection has the level `info` if the connection was
    /// retired, or if the pool was closed.
    func writeLog(_ event: PoolEvent, of pool: String) {
        switch event {
        case .connected(let connection, let peer):
            writeLog(.apnsConnected, pool, ["connection": "\(connection)", "peer": "\(peer)"])
        case .authenticated(let connection, let streamsMax):
            writeLog(.apnsAuthenticated, pool, ["connection": "\(connection)", "streams": "\(streamsMax)"])
        case .streamLimitChanged(let connection, let streamsMax):
            writeLog(.apnsStreamLimit, pool, ["connection": "\(connection)", "streams": "\(streamsMax)"])
        case .goAway(let connection, let code, _, let text):
            writeLog(.apnsGoaway, pool, ["connection": "\(connection)", "code": "\(code)", "reason": "\(text)"])
        case .retiring(let connection, let cause):
            writeLog(.apnsRetiring, pool, ["connection": "\(connection)", "cause": "\(cause)"])
        case .closed(let connection, .certificateRefused, let detail):
            writeLog(
                .apnsUntrusted,
                pool,
                ["connection": "\(connection)", "detail": "\(detail)", "authorities": "\(setup.apnsAuthorities)"]
            )
        case .closed(let connection, let cause, let detail):
            writeLog(
                .apnsClosed,
                pool,
                level: cause == .retired || cause == .poolClosed ? .info : nil,
                ["connection": "\(connection)", "cause": "\(cause)", "detail": "\(detail)"]
            )
        case .resolveFailed(let host, let detail):
            writeLog(.apnsUnresolved, pool, ["host": "\(host)", "detail": "\(detail)"])
        case .connectionLimitReached(let host):
            writeLog(.apnsConnectionLimit, pool, ["host": "\(host)"])
        case .breakerOpened(let cause):
            writeLog(.apnsBreakerOpen, pool, ["cause": "\(cause.name)"])
        case .breakerClosed:
            writeLog(.apnsBreakerClosed, pool, [:])
        case .providerTokenFailed(let reason, let detail):
            writeLog(.providerTokenRefused, pool, ["reason": "\(reason)", "detail": "\(detail)"])
        case .drained:
            writeLog(.apnsDrained, pool, [:])
        }
    }

    private func writeLog(
        _ kind: LogKind,
        _ pool: String,
        level: Logger.Level? = nil,
        _ metadata: @autoclosure () -> Logger.Metadata
    ) {
        writeLog(
            kind,
            level: level,
            metadata().merging(["pool": "\(pool)", "lane": "\(number)"]) { own, _ in own }
        )
    }
}
