import CausewayCommandLine
import Foundation
import HTTP
import Reactor

/// Serves the live page of phones. It listens on this machine's loopback interface unless another address is given.
///
/// - `GET /`, and the files that the page loads.
/// - `GET /events`: an event stream. `PageEventWriter` writes each event.
/// - `GET /history?phone`: the known facts about a phone, by its number.
/// - `POST /press?action`: presses a button (`PageAction`).
final class LivePageServer: Sendable {
    /// The maximum number of viewers at one time. For each of them, up to `streamBytesMax` may wait to be sent. (R4)
    static let viewersMax = 8
    private static let streamBytesMax = 1 << 20

    let pageMailbox: LivePageMailbox
    let port: UInt16
    private let server: HTTPServer
    private let sampler: LivePageSampler
    private let endSemaphore = DispatchSemaphore(value: 0)

    /// The page's address on this machine. Requests must name this machine in `Host` (`LivePageHandler.isLocal`), even
    /// if the server listens at another address.
    var address: String { "http://127.0.0.1:\(port)/" }

    /// Serves the page from now on.
    ///
    /// - Parameter listeningAt: the address; port 0 means any free port.
    init(pageMailbox: LivePageMailbox, listeningAt address: SocketAddress = .loopback(port: 0)) throws(LabError) {
        self.pageMailbox = pageMailbox
        var limits = HTTPServerLimits()
        limits.streamsMax = Self.viewersMax
        limits.streamBytesMax = Self.streamBytesMax
        let (sampler, phoneHistoryResponder) = (
            LivePageSampler(pageMailbox: pageMailbox), PhoneHistoryResponder(pageMailbox: pageMailbox)
        )
        self.sampler = sampler
        let server: HTTPServer
        do throws(SystemError) {
            server = try HTTPServer(name: "page", address: address, limits: limits)
        } catch {
            throw LabError("the page cannot be served: \(error)")
        }
        self.server = server
        let endSemaphore = endSemaphore
        Task {
            try? await server.run { _ in
                LivePageHandler(
                    pageMailbox: pageMailbox,
                    sampler: sampler,
                    phoneHistoryResponder: phoneHistoryResponder
                )
            }
            endSemaphore.signal()
        }
        self.port = try Self.wait { () async throws in try await server.awaitPort() }
        sampler.start()
        phoneHistoryResponder.start()
    }

    /// Prints the page's address, and opens it in a browser if `opensBrowser` is set.
    func printAddress(opensBrowser: Bool) {
        StandardStreams.printError("Watch the phones at \(address)")
        guard opensBrowser else { return }
        let browser = Process()
        browser.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        browser.arguments = ["xdg-open", address]
        browser.standardOutput = FileHandle.nullDevice
        browser.standardError = FileHandle.nullDevice
        do {
            try ProcessStartLock.runExclusively(browser.run)
        } catch {
            StandardStreams.printError("No browser could be opened: \(error)")
        }
    }

    /// Sends every viewer a last event, and stops the server.
    func stop() {
        sampler.stop()
        server.requestStop()
        endSemaphore.wait()
    }

    /// Blocks the calling thread until an asynchronous call returns. Never call this on a thread that runs Swift tasks:
    /// the call may need this thread.
    private static func wait<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) throws(LabError)
        -> Value
    {
        let blockingResult = BlockingResult<Value>()
        Task {
            do { blockingResult.set(.success(try await body())) } catch {
                blockingResult.set(.failure(LabError("the page cannot be served: \(error)")))
            }
        }
        return try blockingResult.wait().get()
    }
}

/// A value for which one thread waits and which another thread delivers.
private final class BlockingResult<Value: Sendable>: @unchecked Sendable {
    private let condition = NSCondition()
    private var value: Result<Value, LabError>?

    func set(_ value: Result<Value, LabError>) {
        condition.withLock {
            self.value = value
            condition.signal()
        }
    }

    func wait() -> Result<Value, LabError> {
        condition.withLock {
            while true {
                if let value { return value }
                condition.wait()
            }
        }
    }
}
