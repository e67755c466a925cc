import Glibc

/// Keeps a port on loopback bound while its broker is down.
///
/// The mock cluster ends the process if it cannot bind a broker's port again. Without this object the system could give
/// the port to any connection that is made meanwhile. A bound socket that does not listen does not block a listener
/// with `SO_REUSEADDR`, which the mock cluster sets.
final class HeldPort {
    /// How long binding is tried. A program that this process starts has a copy of the former listener between fork and exec.
    private static let patienceMilliseconds: Int64 = 60_000

    private let descriptor: Int32

    /// - Returns: nil if the port cannot be bound within a minute.
    init?(_ port: UInt16) {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        var isReused: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isReused, socklen_t(MemoryLayout<Int32>.size))
        let deadline = Deadline(afterMilliseconds: Self.patienceMilliseconds)
        while !binds(to: port) {
            // No event tells when such a program has called exec, so try again.
            guard !deadline.hasPassed else { return nil }
            _ = poll(nil, 0, 1)
        }
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    private func binds(to port: UInt16) -> Bool {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}
