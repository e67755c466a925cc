import CLinux
import Glibc
import Synchronization

extension Listener {
    /// The ports that `findUnusedLoopbackPort` tries. All are below 32,768: by default, Linux gives outgoing
    /// connections and listeners on port 0 only higher ports. So a found port stays unused until the caller's server
    /// listens on it.
    private static let candidatePorts: ClosedRange<UInt16> = 10_240...32_000
    private static let unusedPortAttemptsMax = 100
    /// The last port that any search tried; at first a random one. The next search continues after it, so two searches
    /// return different ports, even if no server listens on the first port yet.
    private static let lastTriedPort = Mutex(UInt16.random(in: candidatePorts))

    private static func takeNextPort() -> UInt16 {
        lastTriedPort.withLock { port in
            port = port < candidatePorts.upperBound ? port + 1 : candidatePorts.lowerBound
            return port
        }
    }

    /// Returns a port of the loopback interface that accepts no connection. Use this method for a server that needs a
    /// fixed port and cannot listen on port 0. The process tries all other candidates before it returns the same port
    /// again.
    ///
    /// - Throws: `EADDRINUSE` if many ports in a row are in use, or the error of a socket that cannot be opened.
    public static func findUnusedLoopbackPort() throws(SystemError) -> UInt16 {
        for _ in 0..<unusedPortAttemptsMax {
            let port = takeNextPort()
            if try refusesConnections(.loopback(port: port)) { return port }
        }
        throw SystemError(code: EADDRINUSE, operation: "connect")
    }

    /// Whether the port is unused: it refuses a connection. The function does not try to listen on the port: a program
    /// that is started at that moment would have a copy of the listening socket, and the port would stay in use for a
    /// short time.
    private static func refusesConnections(_ address: SocketAddress) throws(SystemError) -> Bool {
        let descriptor = socket(address.family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw SystemError(code: errno, operation: "socket") }
        defer { Glibc.close(descriptor) }
        // Limit how long `connect` waits, because a listener with a full queue does not respond. The timeout for
        // sending also applies to `connect` (socket(7)).
        var timeout = timeval(tv_sec: 0, tv_usec: 100_000)
        let length = socklen_t(MemoryLayout<timeval>.size)
        guard setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, length) == 0 else {
            throw SystemError(code: errno, operation: "setsockopt")
        }
        return address.withSockaddr { connect(descriptor, $0, $1) } != 0 && errno == ECONNREFUSED
    }
}
