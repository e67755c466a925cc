import Foundation
import Glibc
import Logging
import Reactor
import ServiceLifecycle
import Synchronization
import Testbed
import Testing

@testable import Observability

/// The endpoint over real sockets.
@Suite(.timeLimit(.minutes(5)))
struct EndpointTests {
    /// Runs the service around the test's body, as a service group would.
    static func withEndpoint(
        _ registry: MetricRegistry = Fixture.registry(),
        logger: Logger = LogCollector().logger,
        _ body: @Sendable @escaping (UInt16) async throws -> Void
    ) async throws {
        let service = try ObservabilityService(host: "127.0.0.1", port: 0, registry: registry, logger: logger)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await service.run() }
            let port = try await service.port()
            try await onOwnThread { try await body(port) }
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    @Test func everyPageIsThere() async throws {
        var worker = WellWorker()
        worker.publish(at: Clock.monotonicMilliseconds)
        try await Self.withEndpoint(worker.registry) { port in
            for (path, type) in [
                ("/metrics", "text/plain; version=0.0.4; charset=utf-8"), ("/livez", "text/plain; charset=utf-8"),
                ("/readyz", "text/plain; charset=utf-8"), ("/statusz", "text/html; charset=utf-8"),
                ("/statusz?format=json", "application/json"), ("/", "text/plain; charset=utf-8"),
            ] {
                let answer = try Client(port: port).ask("GET \(path) HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(answer.status == 200, "\(path)")
                #expect(answer.head.contains("Content-Type: \(type)\r\n"), "\(path)")
                #expect(!answer.body.isEmpty)
            }
            #expect(try Client(port: port).ask("GET /other HTTP/1.1\r\nHost: a\r\n\r\n").status == 404)
            let accept = "GET /statusz HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n"
            #expect(try Client(port: port).ask(accept).body.hasPrefix("{"))
        }
    }

    @Test func healthIsTheStatus() async throws {
        let registry = Fixture.registry()
        try await Self.withEndpoint(registry) { port in
            // Just started: the worker is alive, and not ready.
            #expect(try Client(port: port).ask("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").status == 200)
            let ready = try Client(port: port).ask("GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(ready.status == 503 && ready.body.hasSuffix("not ok\n"))
            for thread in registry.threads { thread.beat(nowMilliseconds: Clock.monotonicMilliseconds - 16_000) }
            #expect(try Client(port: port).ask("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").status == 503)
        }
    }

    @Test func aConnectionServesManyRequestsAlsoAtOnce() async throws {
        try await Self.withEndpoint { port in
            let client = try Client(port: port)
            for _ in 0..<20 { #expect(try client.ask("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").status == 200) }
            client.send(String(repeating: "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n", count: 3))
            for _ in 0..<3 { #expect(try client.answer().status == 200) }
            // The same, byte by byte.
            for byte in "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n" { client.send(String(byte)) }
            #expect(try client.answer().status == 200)
        }
    }

    @Test func aHeadHasNoBody() async throws {
        try await Self.withEndpoint { port in
            let client = try Client(port: port)
            client.send("HEAD /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            let all = client.rest()
            #expect(all.hasPrefix("HTTP/1.1 200 OK\r\n") && all.hasSuffix("\r\n\r\n"))
            #expect(!all.contains("Content-Length: 0\r\n"))
        }
    }

    @Test(arguments: [
        ("POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", 413),
        ("\u{16}\u{3}\u{1}\r\n\r\n", 400), ("GET / HTTP/1.1\r\nX: " + String(repeating: "x", count: 9_000), 431),
    ])
    func whatIsRefusedIsAnsweredAndEnded(_ request: String, _ status: Int) async throws {
        try await Self.withEndpoint { port in
            let client = try Client(port: port)
            client.send(request)
            #expect(client.rest().hasPrefix("HTTP/1.1 \(status) "))
            #expect(try Client(port: port).ask("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").status == 200)
        }
    }

    @Test func aCrowdOfIdleClientsKeepsNoProbeOut() async throws {
        try await Self.withEndpoint { port in
            let idle = try (0..<HTTPEndpoint.connectionsMax + 20).map { _ in try Client(port: port) }
            #expect(try Client(port: port).ask("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").status == 200)
            // The first client of the crowd made room.
            #expect(idle[0].rest() == "")
        }
    }

    @Test func theEndWaitsForNobody() async throws {
        let idle = Mutex<(clients: [Client], since: Int64)>(([], 0))
        try await Self.withEndpoint { port in
            let client = try Client(port: port)
            #expect(try client.ask("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").status == 200)
            idle.withLock { $0 = ([client], Clock.monotonicMilliseconds) }
        }
        #expect(Clock.monotonicMilliseconds - idle.withLock { $0.since } < HTTPConnection.idleMilliseconds)
    }

    @Test func aGracefulShutdownEndsIt() async throws {
        let service = try ObservabilityService(
            host: "127.0.0.1",
            port: 0,
            registry: Fixture.registry(),
            logger: LogCollector().logger
        )
        let group = ServiceGroup(
            configuration: .init(services: [.init(service: service)], logger: LogCollector().logger)
        )
        let running = Task { try await group.run() }
        _ = try await service.port()
        await group.triggerGracefulShutdown()
        try await running.value
    }

    @Test func aPortThatIsTakenIsSaid() async throws {
        try await Self.withEndpoint { port in
            let second = try ObservabilityService(
                host: "127.0.0.1",
                port: port,
                registry: Fixture.registry(),
                logger: LogCollector().logger
            )
            let error = await #expect(throws: ObservabilityError.self) { try await second.run() }
            #expect(error?.reason.contains("cannot listen on 127.0.0.1:\(port)") == true)
        }
        #expect(throws: ObservabilityError.self) {
            try ObservabilityService(
                host: "localhost",
                port: 0,
                registry: Fixture.registry(),
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

/// A simple blocking client.
final class Client: Sendable {
    struct Answer {
        var status: Int
        var head: String
        var body: String
    }

    struct Failure: Error {}

    private let descriptor: Int32

    init(port: UInt16) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var timeout = timeval(tv_sec: 120, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        let result = Reactor.SocketAddress.loopback(port: port).withRaw { connect(descriptor, $0, $1) }
        guard result == 0 else { throw Failure() }
    }

    deinit { close(descriptor) }

    func send(_ text: String) {
        let bytes = Array(text.utf8)
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...]
                .withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return }
            sent += count
        }
    }

    func ask(_ request: String) throws -> Answer {
        send(request)
        return try answer()
    }

    /// One answer, by its length.
    func answer() throws -> Answer {
        var bytes: [UInt8] = []
        while !bytes.suffix(4).elementsEqual("\r\n\r\n".utf8) {
            var byte: UInt8 = 0
            guard recv(descriptor, &byte, 1, 0) == 1 else { throw Failure() }
            bytes.append(byte)
        }
        let head = String(decoding: bytes, as: UTF8.self)
        guard let status = Int(head.dropFirst(9).prefix(3)),
            let length = head.firstMatch(of: /Content-Length: ([0-9]+)/).flatMap({ Int($0.1) })
        else { throw Failure() }
        var body: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 4_096)
        while body.count < length {
            let count = recv(descriptor, &part, min(part.count, length - body.count), 0)
            guard count > 0 else { throw Failure() }
            body += part[..<count]
        }
        return Answer(status: status, head: head, body: String(decoding: body, as: UTF8.self))
    }

    /// Everything until the server ends the connection.
    func rest() -> String {
        var all: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 4_096)
        while true {
            let count = recv(descriptor, &part, part.count, 0)
            guard count > 0 else { return String(decoding: all, as: UTF8.self) }
            all += part[..<count]
        }
    }
}
