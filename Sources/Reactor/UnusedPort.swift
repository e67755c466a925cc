import Glibc
import Synchronization

extension Listener {
    /// Below 32,768, where Linux begins to choose ports of its own accord: none of these is given to somebody's outgoing connection, or
    /// to a listener that asked for any port, while the server that it is meant for has not started or is away.
    private static let unusedPorts: ClosedRange<UInt16> = 10_240...32_000
    private static let unusedPortAttempts = 100
    /// The one that was looked at last. Each look goes one on: of two servers that start at a time, drawn ports would be the same now
    /// and then, since neither listens yet when the other's is looked for.
    private static let lastPort = Mutex(UInt16.random(in: unusedPorts))

    private static func nextPort() -> UInt16 {
        lastPort.withLock { port in
            port = port < unusedPorts.upperBound ? port + 1 : unusedPorts.lowerBound
            return port
        }
    }

    /// A port of the loopback interface that nobody listens on at this moment, and that this process has not given out lately, for
    /// servers that cannot choose one themselves.
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
