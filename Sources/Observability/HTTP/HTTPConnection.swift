import Reactor

/// One client's connection to the endpoint.
///
/// States: *reading* waits for a request head, or for the rest of one. Its answers lead to *reading* or *ending*.
/// *ending* sends the last answer.
final class HTTPConnection: StreamHandler {
    /// The time limit from a request's first byte to the end of its head.
    static let requestMilliseconds: Int64 = 10_000
    /// The time limit for taking an answer and sending the next request.
    static let idleMilliseconds: Int64 = 30_000
    /// The most requests that are answered for one arrival of bytes. Further ones are read when the answers have been sent.
    private static let answersPerArrivalMax = 16

    private(set) lazy var stream = Stream(accepted: descriptor, loop: endpoint.loop, handler: self, tls: nil)
    /// The connection's number, in the order of arrival.
    let number: UInt64
    private let descriptor: Int32
    private unowned let endpoint: HTTPEndpoint
    private var received: [UInt8] = []
    private var isEnding = false
    /// The time at which the connection is closed.
    private(set) var deadlineMilliseconds: Int64

    init(number: UInt64, descriptor: Int32, endpoint: HTTPEndpoint) {
        self.number = number
        self.descriptor = descriptor
        self.endpoint = endpoint
        deadlineMilliseconds = endpoint.loop.nowMilliseconds + Self.requestMilliseconds
    }

    func start() { _ = stream }

    func streamConnected(_ stream: Stream) {}

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        guard !isEnding else { return }
        if received.isEmpty { deadlineMilliseconds = endpoint.loop.nowMilliseconds + Self.requestMilliseconds }
        received.append(contentsOf: bytes)
        answerReceived()
    }

    func streamDrained(_ stream: Stream) {
        stream.resumeReading()
        if !isEnding { answerReceived() }
    }

    func streamClosed(_ stream: Stream, error: StreamError?) {
        stream.close()
        endpoint.connectionEnded(self)
    }

    private func answerReceived() {
        var answers = 0
        while !isEnding, !received.isEmpty {
            guard stream.pendingOutputBytes < Stream.highWaterBytes, answers < Self.answersPerArrivalMax else {
                // Do not read from a client that does not read its answers. A client that pipelines so many requests is no scraper.
                if stream.pendingOutputBytes >= Stream.highWaterBytes { return stream.pauseReading() }
                return refuse(400)
            }
            switch HTTPRequestHead.parse(received) {
            case .incomplete: return
            case .refused(let status): return refuse(status)
            case .complete(let head, let length):
                received.removeFirst(length)
                answers += 1
                answer(head)
            }
        }
    }

    private func answer(_ head: HTTPRequestHead) {
        let isHead = head.method == "HEAD"
        guard isHead || head.method == "GET" else { return send(.plain(405), headOnly: false, keepsAlive: false) }
        var answer = endpoint.answer(head)
        if answer.body.count > HTTPAnswer.bodyBytesMax { answer = .plain(500) }
        send(answer, headOnly: isHead, keepsAlive: head.keepsAlive && !endpoint.isStopping)
    }

    private func refuse(_ status: Int) {
        endpoint.refused(status: status)
        send(.plain(status), headOnly: false, keepsAlive: false)
    }

    private func send(_ answer: HTTPAnswer, headOnly: Bool, keepsAlive: Bool) {
        answer.bytes(headOnly: headOnly, keepsAlive: keepsAlive).withUnsafeBytes { stream.write($0) }
        deadlineMilliseconds = endpoint.loop.nowMilliseconds + Self.idleMilliseconds
        guard !keepsAlive else { return }
        isEnding = true
        received = []
        stream.shutdownAfterFlush()
    }

    /// Closes the connection because its time is over.
    func expire() {
        if !received.isEmpty, !isEnding { return refuse(408) }
        abandon()
    }

    /// Sends the answers in progress, then closes.
    func end() {
        guard !isEnding else { return }
        isEnding = true
        stream.shutdownAfterFlush()
    }

    func abandon() {
        stream.close()
        endpoint.connectionEnded(self)
    }
}
