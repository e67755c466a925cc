import Glibc
import Synchronization

/// A socket that already listens, before a loop accepts its connections. So a program can fail early if the port is in
/// use.
///
/// If no ``Listener`` takes the socket, it is closed when this object is released, and the path of a Unix socket is
/// removed.
public final class ListeningSocket: Sendable {
    /// The socket's descriptor; negative once a listener has taken it.
    private let descriptor: Mutex<Int32>
    /// The address of the socket. If port 0 was requested, the address has the port that the system chose.
    public let address: SocketAddress

    /// - Parameter address: with port 0 the system chooses a port. The path of a Unix socket must not exist.
    public init(address: SocketAddress, backlog: Int32) throws(SystemError) {
        let descriptor = try openListeningSocket(address: address, backlog: backlog)
        self.descriptor = Mutex(descriptor)
        self.address = localAddress(of: descriptor) ?? address
    }

    deinit {
        let descriptor = takeDescriptor()
        guard descriptor >= 0 else { return }
        Glibc.close(descriptor)
        if address.isUnix { unlink(address.host) }
    }

    /// Returns the descriptor, which the caller must close; a negative number if an earlier call has taken it.
    func takeDescriptor() -> Int32 {
        descriptor.withLock { descriptor in
            defer { descriptor = -1 }
            return descriptor
        }
    }
}

/// Opens a non-blocking socket that listens at the address. The caller must close the descriptor.
func openListeningSocket(address: SocketAddress, backlog: Int32) throws(SystemError) -> Int32 {
    let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = socket(address.family, type, 0)
    guard descriptor >= 0 else { throw SystemError(code: errno, operation: "socket") }
    if !address.isUnix { setOption(descriptor, SOL_SOCKET, SO_REUSEADDR, 1) }
    if address.family == AF_INET6 { setOption(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, 1) }
    guard address.withSockaddr({ raw, length in bind(descriptor, raw, length) }) == 0 else {
        let error = SystemError(code: errno, operation: "bind")
        Glibc.close(descriptor)
        throw error
    }
    guard listen(descriptor, backlog) == 0 else {
        let error = SystemError(code: errno, operation: "listen")
        Glibc.close(descriptor)
        throw error
    }
    return descriptor
}
