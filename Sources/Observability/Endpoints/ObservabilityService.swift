import HTTP
import Logging
import Reactor
import ServiceLifecycle

/// Serves `/metrics`, `/livez`, `/readyz` and `/statusz` of a worker on its own thread, so that the pages respond even
/// if a lane is stuck.
///
/// This service must come before the worker in the service group. A group stops its services from the last to the
/// first, so the endpoint responds while the worker drains.
package final class ObservabilityService: Service {
    private let metricRegistry: MetricRegistry
    private let logger: Logger
    private let server: HTTPServer

    /// Listens at once, to notice a port in use before the worker starts. ``run()`` then accepts connections.
    ///
    /// - Parameters:
    ///   - host: a numeric address, such as 0.0.0.0, 127.0.0.1 or ::.
    ///   - port: the port; 0 lets the system choose one.
    /// - Throws: ``ObservabilityError`` if the host is no numeric address, or if it is not possible to listen at the
    ///   address.
    package init(host: String, port: UInt16, metricRegistry: MetricRegistry, logger: Logger) throws {
        guard let address = SocketAddress(numeric: host, port: port) else {
            throw ObservabilityError(reason: "http.host: \(host) is not a numeric address")
        }
        self.metricRegistry = metricRegistry
        self.logger = logger
        do throws(SystemError) {
            server = try HTTPServer(name: "http", address: address, limits: HTTPServerLimits())
        } catch {
            throw ObservabilityError(reason: "http.port: cannot listen on \(address): \(error.reason)")
        }
    }

    /// Waits until ``run()`` accepts connections, and returns the port.
    ///
    /// - Throws: ``ObservabilityError`` if the service could not start or has ended.
    package func awaitPort() async throws -> UInt16 {
        do throws(HTTPServerError) {
            return try await server.awaitPort()
        } catch {
            throw ObservabilityError(error)
        }
    }

    /// Serves requests until a graceful shutdown, or until the task is cancelled.
    ///
    /// - Throws: ``ObservabilityError`` if the endpoint's thread or loop cannot be set up.
    package func run() async throws {
        let (server, metricRegistry, logger) = (server, metricRegistry, logger)
        try await withTaskCancellationOrGracefulShutdownHandler {
            do throws(HTTPServerError) {
                try await server.run { WorkerEndpoints(metricRegistry: metricRegistry, logger: logger, loop: $0) }
            } catch {
                throw ObservabilityError(error)
            }
        } onCancelOrGracefulShutdown: {
            server.requestStop()
        }
    }
}

/// The error of an endpoint that cannot be set up.
package struct ObservabilityError: Error, CustomStringConvertible {
    package var reason: String
    package var description: String { reason }
}

extension ObservabilityError {
    init(_ error: HTTPServerError) { reason = "the HTTP endpoint \(error)" }
}
