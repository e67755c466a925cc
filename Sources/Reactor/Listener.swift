import CLinux
import Glibc

/// Receives the connections that a listener accepts.
public protocol ListenerHandler: AnyObject {
    /// Takes an accepted connection.
    ///
    /// - Parameters:
    ///   - descriptor: the connection's socket, which is non-blocking. The handler owns it from now on.
    ///   - from: the client's address; nil if the client has none, as on a Unix socket.
    func listenerAccepted(descriptor: Int32, from: SocketAddress?)
}

/// A listener on a TCP or Unix socket. The loop keeps the listener alive until `close`; the listener holds its handler
/// weakly.
public final class Listener {
    /// The maximum number of connections that the listener accepts per event. Without a limit, a flood of connections
    /// would delay other descriptors.
    private static let acceptsPerEventMax = 64
    /// How long accepting pauses if the process or system is out of descriptors or memory. Without a pause, the loop
    /// would report the waiting connection again in every iteration.
    private static let acceptPauseMilliseconds: Int64 = 100

    private let loop: EventLoop
    private weak var handler: (any ListenerHandler)?
    private var descriptor: Int32
    private let unixSocketPath: String?
    private var resumeTimer = TimerIdentifier.none

    /// The address of the listener. If port 0 was requested, the address has the port that the system chose.
    public let address: SocketAddress

    /// - Parameter address: with port 0 the system chooses a port. The path of a Unix socket must not exist;
    ///   `close` removes it.
    public convenience init(
        loop: EventLoop,
        address: SocketAddress,
        handler: any ListenerHandler,
        backlog: Int32 = 1024
    ) throws(SystemError) {
        try self.init(loop: loop, socket: ListeningSocket(address: address, backlog: backlog), handler: handler)
    }

    /// Accepts the connections of a socket that already listens. A socket has at most one listener.
    public init(loop: EventLoop, socket: ListeningSocket, handler: any ListenerHandler) throws(SystemError) {
        self.loop = loop
        self.handler = handler
        self.unixSocketPath = socket.address.isUnix ? socket.address.host : nil
        self.address = socket.address
        self.descriptor = socket.takeDescriptor()
        precondition(descriptor >= 0, "a socket has at most one listener")
        do throws(SystemError) {
            try loop.add(descriptor: descriptor, interest: .readable, handler: self)
        } catch {
            close()
            throw error
        }
    }

    deinit {
        close()
    }

    public var port: UInt16 { address.port }

    /// Stops listening, and removes the path of a Unix socket. A second call does nothing.
    public func close() {
        guard descriptor >= 0 else { return }
        loop.cancel(resumeTimer)
        loop.remove(descriptor: descriptor)
        Glibc.close(descriptor)
        descriptor = -1
        if let unixSocketPath { unlink(unixSocketPath) }
    }

    /// Accepts one connection. If there is none, the result says why.
    private func acceptConnection() -> AcceptResult {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let accepted = withUnsafeMutablePointer(to: &storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                let flags = Int32(SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
                let acceptedDescriptor = CLinux_accept4(descriptor, raw, &length, flags)
                let from = acceptedDescriptor >= 0 ? SocketAddress(raw, length: length) : nil
                return (descriptor: acceptedDescriptor, from: from)
            }
        }
        guard accepted.descriptor < 0 else { return .accepted(accepted.descriptor, from: accepted.from) }
        switch errno {
        case EAGAIN: return .noneWaiting
        case EMFILE, ENFILE, ENOBUFS, ENOMEM: return .resourcesExhausted
        // Any other error concerns only one connection, which failed before it was accepted (accept(2)).
        default: return .connectionFailed
        }
    }

    private func pauseAccepting() {
        watch([])
        resumeTimer = loop.schedule(afterMilliseconds: Listener.acceptPauseMilliseconds, handler: self, tag: 0)
    }

    private func watch(_ interest: DescriptorEvents) {
        do throws(SystemError) {
            try loop.update(descriptor: descriptor, interest: interest)
        } catch {
            preconditionFailure("a listening socket that is open and watched: \(error)")
        }
    }
}

private enum AcceptResult {
    case accepted(Int32, from: SocketAddress?)
    case connectionFailed
    case noneWaiting
    case resourcesExhausted
}

extension Listener: DescriptorHandler, TimerHandler {
    /// The loop calls this method when connections wait.
    public func descriptorReady(_ events: DescriptorEvents) {
        for _ in 0..<Listener.acceptsPerEventMax {
            guard descriptor >= 0 else { return }
            guard let handler else { return close() }
            switch acceptConnection() {
            case .accepted(let newDescriptor, let from): handler.listenerAccepted(descriptor: newDescriptor, from: from)
            case .connectionFailed: continue
            case .noneWaiting: return
            case .resourcesExhausted: return pauseAccepting()
            }
        }
    }

    /// The loop calls this method when the pause of accepting ends (`acceptPauseMilliseconds`).
    public func timerFired(tag: UInt64) {
        resumeTimer = .none
        watch(.readable)
    }
}
