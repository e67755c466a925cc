import CausewayConfiguration
import Reactor

/// One `POST` to a collector, over a connection and a loop of its own. It blocks, so it needs a thread that has nothing else to do.
struct CollectorRequest: Sendable {
    /// The most addresses of one name that are tried.
    static let addressesMax = 8

    struct Failure: Error, Equatable, CustomStringConvertible {
        var cause: TracePostFailure
        /// For logs. Has nothing from the request's headers.
        var description: String
    }

    var address: CollectorAddress
    /// Required for an address with `https`.
    var tls: TLSContext?
    /// Read again for each request, so that a credential can be replaced; see ``CollectorHeaders``.
    var headersFile: String?
    /// The limit for the whole request, including the name look-up.
    var timeoutMilliseconds: Int
    /// Signalled when nobody waits any longer. It is never drained, so that later requests end at once, too.
    var interruption: Wakeup

    /// - Returns: the status of the answer.
    func post(_ body: String) throws(Failure) -> Int {
        let headers: String
        do throws(SecretFileError) {
            headers = try headersFile.map { path throws(SecretFileError) in try CollectorHeaders.read(path) } ?? ""
        } catch {
            throw Failure(cause: .headers, description: error.description)
        }
        let head =
            "POST \(address.path) HTTP/1.1\r\nHost: \(address.authority)\r\nContent-Type: application/json\r\n\(headers)"
            + "Content-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n"
        let exchange: CollectorExchange
        do throws(SystemError) {
            exchange = try CollectorExchange(self, bytes: Array((head + body).utf8))
        } catch {
            throw Failure(cause: .unconnected, description: error.description)
        }
        return try exchange.run()
    }
}

/// Why a request failed; `reason` in `causeway_trace_posts_failed_total`.
enum TracePostFailure: UInt8, CaseIterable, Sendable {
    /// The collector's name could not be resolved.
    case unresolved
    /// No connection could be made.
    case unconnected
    /// The collector's certificate is not trusted, out of date, or for another name.
    case certificate
    /// The connection ended, or TLS failed otherwise, before the answer.
    case lost
    /// The answer is not HTTP.
    case malformed
    /// The time limit passed before the answer.
    case late
    /// The answer is 429, 502, 503 or 504: a retry may succeed.
    case overloaded
    /// The answer is another status that is no success.
    case refused
    /// The file with the headers could not be read.
    case headers
    /// The worker was told a second time to stop.
    case hurried

    var name: String { "\(self)" }
}

/// A request in progress. Used on one thread.
private final class CollectorExchange: StreamHandler, TimerHandler, DescriptorHandler {
    /// Only the first line of the answer matters, which is far shorter.
    private static let answerBytesMax = 4_096

    private let loop: EventLoop
    private let request: CollectorRequest
    private let bytes: [UInt8]
    private var places: ArraySlice<SocketAddress> = []
    private var stream: Stream?
    private var answer: [UInt8] = []
    private var result: Result<Int, CollectorRequest.Failure>?
    private var deadline = TimerIdentifier.none
    private var deadlineMilliseconds: Int64 = 0

    init(_ request: CollectorRequest, bytes: [UInt8]) throws(SystemError) {
        loop = try EventLoop()
        self.request = request
        self.bytes = bytes
    }

    func run() throws(CollectorRequest.Failure) -> Int {
        begin()
        if result == nil { loop.run() }
        guard let result else { preconditionFailure("the loop ends with the exchange") }
        return try result.get()
    }

    private func begin() {
        loop.refreshClock()
        let limit = Int64(request.timeoutMilliseconds)
        deadlineMilliseconds = loop.nowMilliseconds + limit
        deadline = loop.schedule(afterMilliseconds: limit, handler: self, tag: 0)
        do throws(SystemError) {
            try loop.add(descriptor: request.interruption.descriptor, interest: .readable, handler: self)
        } catch {
            return end(.unconnected, error.description)
        }
        // The look-up may outlive the exchange, since nobody waits for its thread.
        loop.resolve(host: request.address.host, port: request.address.port) { [weak self] resolution in
            self?.resolved(resolution)
        }
    }

    private func resolved(_ resolution: Result<[SocketAddress], ResolveError>) {
        guard result == nil else { return }
        switch resolution {
        case .success(let addresses):
            places = addresses.prefix(CollectorRequest.addressesMax)
            connectToNext(after: (.unresolved, "no address"))
        case .failure(let error): end(.unresolved, error.description)
        }
    }

    private func connectToNext(after failure: (cause: TracePostFailure, text: String)) {
        guard let place = places.popFirst() else { return end(failure.cause, failure.text) }
        let stream = Stream(loop: loop, handler: self)
        self.stream = stream
        answer = []
        stream.connect(
            to: place,
            tls: request.tls,
            serverName: request.address.host,
            timeoutMilliseconds: max(1, deadlineMilliseconds - loop.nowMilliseconds)
        )
    }

    private func end(_ cause: TracePostFailure, _ text: String) {
        end(.failure(CollectorRequest.Failure(cause: cause, description: text)))
    }

    private func end(_ result: Result<Int, CollectorRequest.Failure>) {
        guard self.result == nil else { return }
        self.result = result
        stream?.close()
        loop.cancel(deadline)
        loop.remove(descriptor: request.interruption.descriptor)
        loop.stop()
    }

    func timerFired(tag: UInt64) { end(.late, "no answer within the time limit") }

    func descriptorReady(_ events: Interest) { end(.hurried, "the worker was told again to stop") }

    func streamConnected(_ stream: Stream) { bytes.withUnsafeBytes { stream.write($0) } }

    func streamDrained(_ stream: Stream) {}

    /// Reads the status line, such as `HTTP/1.1 200 OK`.
    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        answer.append(contentsOf: bytes.prefix(Self.answerBytesMax - answer.count))
        guard answer.contains(UInt8(ascii: "\n")) || answer.count == Self.answerBytesMax else { return }
        let words = String(decoding: answer, as: UTF8.self).split(separator: " ", maxSplits: 2)
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), let status = Int(words[1].prefix(3)) else {
            return end(.malformed, "the answer is not HTTP")
        }
        end(.success(status))
    }

    func streamClosed(_ stream: Stream, error: StreamError?) {
        switch error?.code {
        case .connectFailed: connectToNext(after: (.unconnected, error?.reason ?? ""))
        case .connectTimeout: end(.late, error?.reason ?? "")
        case .certificate: connectToNext(after: (.certificate, "its certificate: \(error?.reason ?? "")"))
        case nil: end(.lost, "the connection ended before its answer")
        default: end(.lost, error?.reason ?? "")
        }
    }
}
