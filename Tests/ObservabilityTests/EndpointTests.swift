import Foundation
import Glibc
import HTTP
import Logging
import Reactor
import ServiceLifecycle
import Synchronization
import Testbed
import Testing

@testable import Observability

/// Tests the endpoint with requests over real sockets.
@Suite(.timeLimit(.minutes(5)))
struct EndpointTests {
    /// Runs the service while the body runs, as a service group does.
    static func withEndpoint(
        _ metricRegistry: MetricRegistry = Fixture.metricRegistry(),
        logger: Logger = LogCollector().logger,
        _ body: @Sendable @escaping (UInt16) async throws -> Void
    ) async throws {
        let service = try ObservabilityService(
            host: "127.0.0.1",
            port: 0,
            metricRegistry: metricRegistry,
            logger: logger
        )
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await service.run() }
            let port = try await service.awaitPort()
            try await onOwnThread { try await body(port) }
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    @Test func `Every page exists`() async throws {
        var worker = HealthyWorker()
        worker.publish(at: Clock.monotonicMilliseconds)
        try await Self.withEndpoint(worker.metricRegistry) { port in
            for (path, type) in [
                ("/metrics", "text/plain; version=0.0.4; charset=utf-8"), ("/livez", "text/plain; charset=utf-8"),
                ("/readyz", "text/plain; charset=utf-8"), ("/statusz", "text/plain; charset=utf-8"),
                ("/statusz?format=json", "application/json"), ("/statusz?format=html", "text/html; charset=utf-8"),
                ("/", "text/plain; charset=utf-8"),
            ] {
                let response = try RawHTTPClient(port: port).sendAndRead("GET \(path) HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(response.status == 200, "\(path)")
                #expect(response.head.contains("Content-Type: \(type)\r\n"), "\(path)")
                #expect(!response.body.isEmpty)
            }
            #expect(try RawHTTPClient(port: port).sendAndRead("GET /other HTTP/1.1\r\nHost: a\r\n\r\n").status == 404)
            let accept = "GET /statusz HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n"
            #expect(try RawHTTPClient(port: port).sendAndRead(accept).body.hasPrefix("{"))
        }
    }

    @Test func `The pages respond with 503 while the worker is not ready or not alive`() async throws {
        let metricRegistry = Fixture.metricRegistry()
        try await Self.withEndpoint(metricRegistry) { port in
            // A worker that has just started is alive but not ready.
            #expect(try RawHTTPClient(port: port).sendAndRead("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").status == 200)
            let readiness = try RawHTTPClient(port: port).sendAndRead("GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(readiness.status == 503 && readiness.body.hasSuffix("not ok\n"))
            for thread in metricRegistry.publishedMetrics {
                thread.noteIteration(nowMilliseconds: Clock.monotonicMilliseconds - 16_000)
            }
            #expect(try RawHTTPClient(port: port).sendAndRead("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").status == 503)
        }
    }

    @Test func `The pages accept only reading requests`() async throws {
        try await Self.withEndpoint { port in
            let response = try RawHTTPClient(port: port).sendAndRead("POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(response.status == 405 && response.head.contains("\r\nAllow: GET, HEAD\r\n"))
        }
    }

    @Test(arguments: [
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", 413),
        ("\u{16}\u{3}\u{1}\r\n\r\n", 400), ("GET / HTTP/1.1\r\nX: " + String(repeating: "x", count: 9_000), 431),
    ])
    func `A refused request gets a response, and its connection ends`(_ request: String, _ status: Int) async throws {
        try await Self.withEndpoint { port in
            let client = try RawHTTPClient(port: port)
            client.send(request)
            #expect(client.readToEnd().hasPrefix("HTTP/1.1 \(status) "))
            #expect(try RawHTTPClient(port: port).sendAndRead("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").status == 200)
        }
    }

    @Test func `The end of the endpoint does not wait for clients`() async throws {
        let idle = Mutex<(clients: [RawHTTPClient], since: Int64)>(([], 0))
        try await Self.withEndpoint { port in
            let client = try RawHTTPClient(port: port)
            #expect(try client.sendAndRead("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").status == 200)
            idle.withLock { $0 = ([client], Clock.monotonicMilliseconds) }
        }
        #expect(Clock.monotonicMilliseconds - idle.withLock { $0.since } < HTTPServerLimits().idleTimeoutMilliseconds)
    }

    @Test func `A graceful shutdown ends the endpoint`() async throws {
        let service = try ObservabilityService(
            host: "127.0.0.1",
            port: 0,
            metricRegistry: Fixture.metricRegistry(),
            logger: LogCollector().logger
        )
        let group = ServiceGroup(
            configuration: .init(services: [.init(service: service)], logger: LogCollector().logger)
        )
        let runTask = Task { try await group.run() }
        _ = try await service.awaitPort()
        await group.triggerGracefulShutdown()
        try await runTask.value
    }

    @Test func `A port that is taken is reported before anything runs`() async throws {
        try await Self.withEndpoint { port in
            let error = #expect(throws: ObservabilityError.self) {
                try ObservabilityService(
                    host: "127.0.0.1",
                    port: port,
                    metricRegistry: Fixture.metricRegistry(),
                    logger: LogCollector().logger
                )
            }
            #expect(error?.reason == "http.port: cannot listen on 127.0.0.1:\(port): Address already in use")
        }
        #expect(throws: ObservabilityError.self) {
            try ObservabilityService(
                host: "localhost",
                port: 0,
                metricRegistry: Fixture.metricRegistry(),
                logger: LogCollector().logger
            )
        }
    }
}

enum Clock {
    static var monotonicMilliseconds: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }
}
