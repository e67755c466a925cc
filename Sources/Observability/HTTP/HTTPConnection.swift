import Reactor

/// One client of the endpoint.
///
/// *reading* (waits for a head, or for the rest of one) → answers → *reading*, or *ending* (the last answer is on its way).
final class HTTPConnection: StreamHandler {
    /// From a request's first byte to the end of its head.
    static let requestMilliseconds: Int64 = 10_000
    /// For taking an answer, and for sending the next request after it.
    static let idleMilliseconds: Int64 = 30_000
    /// Requests answered for one arrival of bytes; what is behind them is read when the answers have gone.
    private static let answersPerArrivalMax = 16

    private(set) lazy var stream = Stream(accepted: descriptor, loop: endpoint.loop, handler: self, tls: nil)
    /// In the order of their coming.
    let number: UInt64
    private let descriptor: Int32
    private unowned let endpoint: HTTPEndpoint
    private var received: [UInt8] = []
    private var isEnding = false
    /// The connection is given up at this time.
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
                // A client that asks without reading is not read from: one that pipelines more than this is no scraper.
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

    /// Its time is over.
    func expire() {
        if !received.isEmpty, !isEnding { return refuse(408) }
        abandon()
    }

    /// Answers what is under way, and nothing more.
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
