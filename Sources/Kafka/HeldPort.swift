import Glibc

/// A port on loopback that stays bound while its broker is down.
///
/// The mock cluster ends the process if it does not get a broker's port back, and the system gives a port that nobody has bound to any
/// connection that is made meanwhile. A socket that is bound and does not listen is no obstacle to a listener that sets `SO_REUSEADDR`, as
/// the mock cluster's does.
final class HeldPort {
    /// A program that this process starts has a copy of the former listener between its fork and its execution.
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
            // Nothing tells when a program has begun.
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
