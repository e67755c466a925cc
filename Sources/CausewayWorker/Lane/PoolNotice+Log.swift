import APNs
import Logging

extension PoolNotice {
    /// Says what happened to a pool's connections, loudly only where a person should look.
    func log(to logger: Logger, pool: String, lane: Int) {
        var metadata: Logger.Metadata = ["pool": "\(pool)", "lane": "\(lane)"]
        func log(_ level: Logger.Level, _ message: Logger.Message, _ more: Logger.Metadata) {
            metadata.merge(more) { _, new in new }
            logger.log(level: level, message, metadata: metadata)
        }
        switch self {
        case .connected(let connection, let peer):
            log(.info, "APNs connection is up", ["connection": "\(connection)", "peer": "\(peer)"])
        case .authenticated(let connection, let streamsMax):
            log(.info, "APNs connection is authenticated", ["connection": "\(connection)", "streams": "\(streamsMax)"])
        case .streamLimitChanged(let connection, let streamsMax):
            log(.debug, "APNs changed its stream limit", ["connection": "\(connection)", "streams": "\(streamsMax)"])
        case .goAway(let connection, let code, _, let text):
            log(.notice, "APNs sent GOAWAY", ["connection": "\(connection)", "code": "\(code)", "reason": "\(text)"])
        case .retiring(let connection, let cause):
            log(.info, "APNs connection takes no more pushes", ["connection": "\(connection)", "cause": "\(cause)"])
        case .closed(let connection, let cause, let detail):
            log(
                cause == .retired || cause == .poolClosed ? .info : .warning,
                "APNs connection has ended",
                ["connection": "\(connection)", "cause": "\(cause)", "detail": "\(detail)"]
            )
        case .resolveFailed(let host, let detail):
            log(.warning, "APNs host has no address", ["host": "\(host)", "detail": "\(detail)"])
        case .breakerOpened(let cause):
            log(
                .critical,
                "APNs refuses too much: only probes are sent, and no token is retired",
                ["cause": "\(cause)"]
            )
        case .breakerClosed:
            log(.notice, "APNs accepts again", [:])
        case .providerTokenTrouble(let reason, let detail):
            log(.critical, "APNs refuses the provider token", ["reason": "\(reason)", "detail": "\(detail)"])
        case .drained:
            log(.debug, "APNs pool is drained", [:])
        }
    }
}
