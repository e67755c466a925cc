import Glibc
import Reactor

/// An HTTP/1.1 server for a few reading clients: `GET` and `HEAD` without bodies. It has a loop and thread of its own,
/// so that it answers while the rest of the process is busy. Everything in it has a limit.
final class HTTPEndpoint: ListenerHandler, TimerHandler, DescriptorHandler {
    /// The most connections. One more replaces the connection that is nearest to its deadline.
    static let connectionsMax = 64
    static let sampleMilliseconds: Int64 = 5_000
    private static let sweepMilliseconds: Int64 = 1_000
    /// How long answers may still be sent after the endpoint was told to stop.
    private static let stopMilliseconds: Int64 = 1_000

    private enum TimerTag {
        static let sweep: UInt64 = 0
        static let sample: UInt64 = 1
        static let stop: UInt64 = 2
    }

    let loop: EventLoop
    private let pages: any ObservedPages
    private let control: HTTPControl
    private var listener: Listener?
    private var connections: [UInt64: HTTPConnection] = [:]
    private var acceptedCount: UInt64 = 0
    private(set) var isStopping = false

    init(loop: EventLoop, address: SocketAddress, pages: any ObservedPages, control: HTTPControl) throws(SystemError) {
        self.loop = loop
        self.pages = pages
        self.control = control
        let listener = try Listener(loop: loop, address: address, handler: self, backlog: 64)
        self.listener = listener
        try loop.add(descriptor: control.wakeup.descriptor, interest: .readable, handler: self)
        _ = loop.schedule(afterMilliseconds: 0, handler: self, tag: TimerTag.sample)
        _ = loop.schedule(afterMilliseconds: Self.sweepMilliseconds, handler: self, tag: TimerTag.sweep)
        control.noteListening(port: listener.port)
    }

    func accepted(descriptor: Int32, from: SocketAddress?) {
        guard !isStopping else {
            Glibc.close(descriptor)
            return
        }
        if connections.count >= Self.connectionsMax {
            connections.values
                .min { ($0.deadlineMilliseconds, $0.number) < ($1.deadlineMilliseconds, $1.number) }?
                .abandon()
        }
        acceptedCount += 1
        let connection = HTTPConnection(number: acceptedCount, descriptor: descriptor, endpoint: self)
        connections[connection.number] = connection
        connection.start()
    }

    func answer(_ head: HTTPRequestHead) -> HTTPAnswer { pages.answer(head, nowMilliseconds: loop.nowMilliseconds) }

    func refused(status: Int) {
        pages.refused(status: status, nowMilliseconds: loop.nowMilliseconds, wallMilliseconds: loop.wallMilliseconds)
    }

    func connectionEnded(_ connection: HTTPConnection) {
        connections[connection.number] = nil
        if isStopping, connections.isEmpty { loop.stop() }
    }

    func timerFired(tag: UInt64) {
        switch tag {
        case TimerTag.sweep:
            for connection in connections.values where connection.deadlineMilliseconds <= loop.nowMilliseconds {
                connection.expire()
            }
            _ = loop.schedule(afterMilliseconds: Self.sweepMilliseconds, handler: self, tag: TimerTag.sweep)
        case TimerTag.sample:
            pages.sample(nowMilliseconds: loop.nowMilliseconds)
            _ = loop.schedule(afterMilliseconds: Self.sampleMilliseconds, handler: self, tag: TimerTag.sample)
        default:
            for connection in connections.values { connection.abandon() }
            loop.stop()
        }
    }

    func descriptorReady(_ events: Interest) {
        control.wakeup.drain()
        guard control.isStopRequested, !isStopping else { return }
        isStopping = true
        listener?.close()
        listener = nil
        guard !connections.isEmpty else { return loop.stop() }
        _ = loop.schedule(afterMilliseconds: Self.stopMilliseconds, handler: self, tag: TimerTag.stop)
        for connection in connections.values { connection.end() }
    }

    /// Releases everything, after the loop has ended.
    func close() {
        listener?.close()
        loop.remove(descriptor: control.wakeup.descriptor)
    }
}

/// The pages of an endpoint. Called only on the endpoint's thread.
protocol ObservedPages: AnyObject {
    func answer(_ head: HTTPRequestHead, nowMilliseconds: Int64) -> HTTPAnswer
    /// Called every few seconds, to record the numbers from which rates are computed.
    func sample(nowMilliseconds: Int64)
    func refused(status: Int, nowMilliseconds: Int64, wallMilliseconds: Int64)
}
