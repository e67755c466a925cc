import Glibc
import Reactor

/// The part of a server that runs on the server's thread: the listener, the connections and their deadlines.
final class HTTPServerLoop: ListenerHandler, TimerHandler, DescriptorHandler {
    /// How often the server checks the deadlines of all connections. A connection may exceed its deadline by this time.
    private static let deadlineCheckIntervalMilliseconds: Int64 = 200

    private enum TimerTag: UInt64 {
        case deadlineCheck, stop
    }

    let loop: EventLoop
    let handler: any HTTPRequestHandler
    let inbox: HTTPServerInbox
    private var listener: Listener?
    private var connections: [UInt64: HTTPServerConnection] = [:]
    private var acceptedConnectionCount: UInt64 = 0
    private(set) var isStopping = false

    init(
        loop: EventLoop,
        socket: ListeningSocket,
        handler: any HTTPRequestHandler,
        inbox: HTTPServerInbox
    ) throws(SystemError) {
        self.loop = loop
        self.handler = handler
        self.inbox = inbox
        listener = try Listener(loop: loop, socket: socket, handler: self)
        try loop.add(descriptor: inbox.wakeup.descriptor, interest: .readable, handler: self)
        scheduleDeadlineCheck()
    }

    var limits: HTTPServerLimits { inbox.limits }
    var port: UInt16 { listener?.port ?? 0 }

    func listenerAccepted(descriptor: Int32, from: SocketAddress?) {
        guard !isStopping, makeRoom() else {
            Glibc.close(descriptor)
            return
        }
        acceptedConnectionCount += 1
        let connection = HTTPServerConnection(number: acceptedConnectionCount, descriptor: descriptor, server: self)
        connections[connection.number] = connection
        inbox.setConnectionCount(connections.count)
        connection.start()
    }

    /// If the limit of connections is reached, closes the connection with the earliest deadline among those that are
    /// not busy (`isBusy`).
    ///
    /// - Returns: whether one more connection may be accepted.
    private func makeRoom() -> Bool {
        guard connections.count >= limits.connectionsMax else { return true }
        let replacedConnection = connections.values.filter { !$0.isBusy }
            .min { ($0.deadlineMilliseconds, $0.number) < ($1.deadlineMilliseconds, $1.number) }
        replacedConnection?.close()
        return replacedConnection != nil
    }

    func connectionEnded(_ connection: HTTPServerConnection) {
        connections[connection.number] = nil
        inbox.setConnectionCount(connections.count)
        if isStopping, connections.isEmpty { loop.stop() }
    }

    func timerFired(tag: UInt64) {
        switch TimerTag(rawValue: tag) {
        case .deadlineCheck:
            for connection in connections.values { connection.enforceDeadline() }
            scheduleDeadlineCheck()
        case .stop:
            for connection in connections.values { connection.close() }
            loop.stop()
        case nil:
            preconditionFailure("a timer that no server sets")
        }
    }

    private func scheduleDeadlineCheck() {
        _ = loop.schedule(
            afterMilliseconds: Self.deadlineCheckIntervalMilliseconds,
            handler: self,
            tag: TimerTag.deadlineCheck.rawValue
        )
    }

    func descriptorReady(_ events: DescriptorEvents) {
        let (messages, isStopRequested) = inbox.takeMessages()
        // Stop first, so that the responses below announce `Connection: close`.
        if isStopRequested, !isStopping { stop() }
        for message in messages {
            switch message {
            case .response(let response, let number): connections[number]?.sendPostedResponse(response)
            case .streamBegan(let stream, let number):
                if let connection = connections[number] { connection.beginStreaming(stream) } else { stream.end() }
            case .streamHasOutput(let number): connections[number]?.sendStreamedBytes()
            }
        }
    }

    private func stop() {
        isStopping = true
        listener?.close()
        listener = nil
        guard !connections.isEmpty else { return loop.stop() }
        _ = loop.schedule(
            afterMilliseconds: HTTPServerLimits.stopTimeoutMilliseconds,
            handler: self,
            tag: TimerTag.stop.rawValue
        )
        for connection in connections.values { connection.stop() }
    }

    /// Releases the listener and closes the inbox. Called after the loop has ended.
    func close() {
        listener?.close()
        loop.remove(descriptor: inbox.wakeup.descriptor)
        inbox.close()
    }
}
