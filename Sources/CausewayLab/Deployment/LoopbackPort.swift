import Glibc
import Reactor

enum LoopbackPort {
    /// Returns a port that is free at this moment, for a server that cannot choose one itself. Another process may take
    /// the port first, so the caller must be ready to try another one.
    static func findFree() throws(LabError) -> UInt16 {
        do throws(SystemError) {
            return try Listener.findUnusedLoopbackPort()
        } catch {
            throw LabError("no free port: \(error)")
        }
    }

    /// Connects to a port. Returns false and sets `errno` if this fails.
    static func connect(_ descriptor: Int32, to port: UInt16) -> Bool {
        var address = loopbackAddress(port: port)
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }

    private static func loopbackAddress(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }
}
