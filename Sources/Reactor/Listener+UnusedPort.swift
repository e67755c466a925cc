import Glibc
import Synchronization

extension Listener {
    /// The range is below 32,768, where Linux begins to choose ports itself. So the system gives none of these ports to an
    /// outgoing connection, or to a listener without a fixed port, while the server that should use the port is not running.
    private static let unusedPorts: ClosedRange<UInt16> = 10_240...32_000
    private static let unusedPortAttempts = 100
    /// The last port that was tried; each search continues behind it. If two servers start at the same time, random
    /// ports could be equal now and then, since neither server listens yet.
    private static let lastPort = Mutex(UInt16.random(in: unusedPorts))

    private static func nextPort() -> UInt16 {
        lastPort.withLock { port in
            port = port < unusedPorts.upperBound ? port + 1 : unusedPorts.lowerBound
            return port
        }
    }

    /// A port of the loopback interface on which nobody listens now, and which this process has not given out lately.
    /// For servers that cannot choose a port themselves.
    ///
    /// - Throws: why the last attempt could not listen.
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
