import Glibc
import Synchronization

extension Listener {
    /// By default, Linux chooses ports from 32,768 on for outgoing connections and for listeners on port 0. The
    /// candidates are below, so Linux gives none of them to another socket before the caller's server listens on it.
    private static let candidatePorts: ClosedRange<UInt16> = 10_240...32_000
    private static let unusedPortAttemptsMax = 100
    /// The last port that was tried. A search continues with the next port. If each search began at a random port, two
    /// searches could return the same port: the server of the first caller may not listen on it yet.
    private static let lastPort = Mutex(UInt16.random(in: candidatePorts))

    private static func nextPort() -> UInt16 {
        lastPort.withLock { port in
            port = port < candidatePorts.upperBound ? port + 1 : candidatePorts.lowerBound
            return port
        }
    }

    /// Returns a port of the loopback interface on which no process listens now. For servers that need a
    /// fixed port and cannot listen on port 0. The process tries all other ports before it returns the same
    /// port again.
    ///
    /// - Throws: the error of the last attempt to listen.
    public static func unusedLoopbackPort() throws(SystemError) -> UInt16 {
        var refusal = SystemError(code: EADDRINUSE, operation: "bind")
        for _ in 0..<unusedPortAttemptsMax {
            let port = nextPort()
            do throws(SystemError) {
                Glibc.close(try listeningSocket(address: .loopback(port: port), backlog: 1))
                return port
            } catch {
                refusal = error
            }
        }
        throw refusal
    }
}
