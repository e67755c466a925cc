import Glibc

extension Listener {
    /// Below 32,768, where Linux begins to choose ports of its own accord: none of these is given to somebody's outgoing connection, or
    /// to a listener that asked for any port, while the server that it is meant for has not started or is away.
    private static let unusedPorts: ClosedRange<UInt16> = 10_240...32_000
    private static let unusedPortAttempts = 100

    /// A port of the loopback interface that nobody listens on at this moment, for servers that cannot choose one themselves.
    /// - Throws: why the last attempt could not listen.
    public static func unusedLoopbackPort() throws(SystemError) -> UInt16 {
        var refusal = SystemError(code: EADDRINUSE, operation: "bind")
        for _ in 0..<unusedPortAttempts {
            let port = UInt16.random(in: unusedPorts)
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
