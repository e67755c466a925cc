import Glibc
import Synchronization

extension Listener {
    /// Linux itself chooses ports from 32,768 on. So until the server starts, the system gives none of these
    /// ports to an outgoing connection or to a listener without a fixed port.
    private static let unusedPorts: ClosedRange<UInt16> = 10_240...32_000
    private static let unusedPortAttempts = 100
    /// The last port that was tried. Each search continues with the next port, because two random ports could
    /// be equal while neither of their servers listens yet.
    private static let lastPort = Mutex(UInt16.random(in: unusedPorts))

    private static func nextPort() -> UInt16 {
        lastPort.withLock { port in
            port = port < unusedPorts.upperBound ? port + 1 : unusedPorts.lowerBound
            return port
        }
    }

    /// Returns a port of the loopback interface on which nobody listens now, and which this process has not
    /// returned lately. For servers that cannot choose a port themselves.
    ///
    /// - Throws: the error of the last attempt to listen.
    public static func unusedLoopbackPort() throws(SystemError) -> UInt16 {
        var refusal = SystemError(code: EADDRINUSE, operation: "bind")
        for _ in 0..<unusedPortAttempts {
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
