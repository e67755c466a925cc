import Reactor
import Synchronization
import Testbed
import Testing

@testable import HTTP

/// A server for a test. Its handler gives each request to a closure.
struct TestServer: Sendable {
    typealias Responder = @Sendable (HTTPExchange) -> HTTPResponse?

    let port: UInt16
    let server: HTTPServer

    /// Runs a server while the test's body runs on a thread of its own, because the clients block their thread. Then
    /// stops the server.
    static func run(
        _ limits: HTTPServerLimits = HTTPServerLimits(),
        responder: @escaping Responder = { .init(status: 200, text: $0.head.path) },
        _ body: @Sendable @escaping (TestServer) async throws -> Void
    ) async throws {
        let server = try HTTPServer(name: "http", address: .loopback(port: 0), limits: limits)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run { _ in Handler(responder) } }
            let port = try await server.awaitPort()
            defer { server.requestStop() }
            try await onOwnThread { try await body(TestServer(port: port, server: server)) }
            server.requestStop()
            try await group.waitForAll()
        }
        #expect(server.usage == HTTPServerUsage())
    }

    func awaitConnections(_ count: Int) async throws {
        try await eventuallyInTask("\(count) connections, not \(server.usage)") {
            server.usage.connectionCount == count
        }
    }

    func connect(receiveBufferBytes: Int32? = nil) throws -> RawHTTPClient {
        try RawHTTPClient(port: port, receiveBufferBytes: receiveBufferBytes)
    }

    private final class Handler: HTTPRequestHandler {
        private let responder: Responder

        init(_ responder: @escaping Responder) { self.responder = responder }

        func respond(to exchange: HTTPExchange) -> HTTPResponse? { responder(exchange) }
        func refusal(status: Int) -> HTTPResponse { .statusOnly(status) }
    }
}

/// Passes values from a server's handler to the test, in order.
final class AsyncQueue<Value: Sendable>: Sendable {
    private let values: AsyncStream<Value>
    private let continuation: AsyncStream<Value>.Continuation

    init() { (values, continuation) = AsyncStream.makeStream() }

    func send(_ value: Value) { continuation.yield(value) }

    func next() async throws -> Value {
        for await value in values { return value }
        throw QueueHasEnded()
    }

    struct QueueHasEnded: Error {}
}
