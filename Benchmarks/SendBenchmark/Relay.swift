import CTimerDescriptor
import Glibc
import Reactor

/// Simulates the distance to APNs: a process between client and server that delays all bytes in both directions by half
/// a round trip. Flow control and responses are delayed as on a real network. The relay's CPU time does not count as
/// the client's.
struct RelayProcess {
    let port: Int
    private let child: ChildProcess

    init(host: String, port: Int, roundTripMilliseconds: Int) throws {
        child = try ChildProcess([
            "/proc/self/exe", "relay", "--host", host, "--port", String(port), "--half",
            String(roundTripMilliseconds * 500),
        ])
        guard let line = child.readLine(), let port = Int(line) else {
            throw Arguments.ArgumentError(description: "the relay did not start")
        }
        self.port = port
    }

    func end() { child.end() }
}

/// `relay`: delays the bytes between a client and a server, until standard input ends.
func relay(_ initialArguments: Arguments) throws {
    var arguments = initialArguments
    let host = try arguments.text("host")
    let port = try arguments.number("port", nil, in: 1...65_535)
    let halfRoundTripMicroseconds = try arguments.number("half", nil, in: 1...10_000_000)
    try arguments.checkAllRead()
    guard let address = SocketAddress(numeric: host, port: UInt16(port)) else {
        throw Arguments.ArgumentError(description: "the relay needs a numeric --host")
    }
    let loop = try EventLoop()
    let acceptor = RelayAcceptor(
        loop: loop,
        address: address,
        delayNanoseconds: Int64(halfRoundTripMicroseconds) * 1_000
    )
    let listener = try Listener(loop: loop, address: .loopback(port: 0), handler: acceptor)
    print(listener.port)
    fflush(nil)
    try loop.add(descriptor: 0, interest: .readable, handler: acceptor)
    // The listener has only a weak reference to its handler.
    withExtendedLifetime(acceptor) { loop.run() }
    listener.close()
}

private final class RelayAcceptor: ListenerHandler, DescriptorHandler {
    private let loop: EventLoop
    private let address: SocketAddress
    private let delayNanoseconds: Int64
    private var pairs: [RelayPair] = []

    init(loop: EventLoop, address: SocketAddress, delayNanoseconds: Int64) {
        self.loop = loop
        self.address = address
        self.delayNanoseconds = delayNanoseconds
    }

    func listenerAccepted(descriptor: Int32, from: SocketAddress?) {
        do {
            pairs.append(
                try RelayPair(loop: loop, descriptor: descriptor, to: address, delayNanoseconds: delayNanoseconds)
            )
        } catch {
            printError("the relay has no timer: \(error)")
            close(descriptor)
        }
    }

    func descriptorReady(_ events: DescriptorEvents) { loop.stop() }
}

private final class RelayPair: StreamHandler, DescriptorHandler {
    private struct DelayedBytes {
        var dueNanoseconds: Int64
        var bytes: [UInt8]
        var isToServer: Bool
    }

    private let loop: EventLoop
    private let delayNanoseconds: Int64
    private var clientStream: Stream?
    private var serverStream: Stream?
    private var delayedPieces: [DelayedBytes] = []
    private var firstPieceIndex = 0
    private var isTimerSet = false
    /// A timer with nanoseconds. The loop's own timers round up to milliseconds, so 60 ms for both directions would
    /// become 62 ms.
    private let timerDescriptor: Int32

    init(loop: EventLoop, descriptor: Int32, to address: SocketAddress, delayNanoseconds: Int64) throws {
        timerDescriptor = CTimerDescriptor_make()
        guard timerDescriptor >= 0 else { throw SystemError(code: errno, operation: "timerfd_create") }
        self.loop = loop
        self.delayNanoseconds = delayNanoseconds
        let serverStream = Stream(loop: loop, handler: self)
        clientStream = Stream(accepted: descriptor, loop: loop, handler: self, tls: nil)
        self.serverStream = serverStream
        try loop.add(descriptor: timerDescriptor, interest: .readable, handler: self)
        serverStream.connect(to: address, tls: nil, serverName: nil, timeoutMilliseconds: 10_000)
    }

    deinit { close(timerDescriptor) }

    func streamConnected(_ stream: Stream) {}

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        let dueNanoseconds = ProcessSample.nanoseconds(CLOCK_MONOTONIC) + delayNanoseconds
        delayedPieces.append(
            DelayedBytes(dueNanoseconds: dueNanoseconds, bytes: Array(bytes), isToServer: stream === clientStream)
        )
        setTimer()
    }

    private func setTimer() {
        guard !isTimerSet, firstPieceIndex < delayedPieces.count else { return }
        isTimerSet = true
        precondition(
            CTimerDescriptor_set(timerDescriptor, delayedPieces[firstPieceIndex].dueNanoseconds) == 0,
            "the relay's own timer accepts each time"
        )
    }

    func descriptorReady(_ events: DescriptorEvents) {
        var expirations: UInt64 = 0
        _ = read(timerDescriptor, &expirations, 8)
        isTimerSet = false
        let nowNanoseconds = ProcessSample.nanoseconds(CLOCK_MONOTONIC)
        while firstPieceIndex < delayedPieces.count, delayedPieces[firstPieceIndex].dueNanoseconds <= nowNanoseconds {
            delayedPieces[firstPieceIndex].bytes
                .withUnsafeBytes {
                    (delayedPieces[firstPieceIndex].isToServer ? serverStream : clientStream)?.write($0)
                }
            delayedPieces[firstPieceIndex].bytes = []
            firstPieceIndex += 1
        }
        if firstPieceIndex > 1_024 {
            delayedPieces.removeFirst(firstPieceIndex)
            firstPieceIndex = 0
        }
        setTimer()
    }

    func streamHasRoom(_ stream: Stream) {}

    func streamClosed(_ stream: Stream, error: StreamError?) {
        loop.remove(descriptor: timerDescriptor)
        clientStream?.close()
        serverStream?.close()
    }
}
