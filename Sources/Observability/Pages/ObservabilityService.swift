import HTTP
import Logging
import Reactor
import ServiceLifecycle

/// Serves `/metrics`, `/livez`, `/readyz` and `/statusz` of a worker, on a thread of its own.
///
/// It must precede the worker in its service group. A group stops its services from the last to the first, so the
/// endpoint then still answers while the worker drains.
package final class ObservabilityService: Service {
    private let registry: MetricRegistry
    private let logger: Logger
    private let server: HTTPServer

    /// Listens at once, so that a taken port is known before anything starts. `run` then accepts the connections.
    ///
    /// - Parameters:
    ///   - host: a numeric address, such as 0.0.0.0, 127.0.0.1 or ::.
    ///   - port: 0 for a port of the system's choice.
    /// - Throws: ``ObservabilityError`` if the host is not a numeric address, or if nobody can listen there.
    package init(host: String, port: UInt16, registry: MetricRegistry, logger: Logger) throws {
        guard let address = SocketAddress(numeric: host, port: port) else {
            throw ObservabilityError(reason: "http.host: \(host) is not a numeric address")
        }
        self.registry = registry
        self.logger = logger
        do throws(SystemError) {
            server = try HTTPServer(name: "http", address: address, limits: HTTPServerLimits())
        } catch {
            throw ObservabilityError(reason: "http.port: cannot listen on \(address): \(error.reason)")
        }
    }

    /// The port that it listens on. Waits until it listens.
    ///
    /// - Throws: why it does not listen.
    package func port() async throws -> UInt16 {
        do throws(HTTPServerError) {
            return try await server.port()
        } catch {
            throw ObservabilityError(error)
        }
    }

    /// Returns after a graceful shutdown, or when the task is cancelled.
    /// - Throws: ``ObservabilityError`` if the endpoint's thread or loop cannot be set up.
    package func run() async throws {
        let (server, registry, logger) = (server, registry, logger)
        try await withTaskCancellationOrGracefulShutdownHandler {
            do throws(HTTPServerError) {
                try await server.run { WorkerPages(registry: registry, logger: logger, loop: $0) }
            } catch {
                throw ObservabilityError(error)
            }
        } onCancelOrGracefulShutdown: {
            server.requestStop()
        }
    }
}

/// Why the endpoint does not work.
package struct ObservabilityError: Error, CustomStringConvertible {
    package var reason: String
    package var description: String { reason }
}

extension ObservabilityError {
    init(_ error: HTTPServerError) { reason = "the HTTP endpoint \(error)" }
}
