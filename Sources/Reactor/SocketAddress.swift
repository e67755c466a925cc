import Glibc

/// The address of a stream or listener: an IPv4 or IPv6 address with a port, or the path of a Unix socket.
public struct SocketAddress: Sendable, Hashable, CustomStringConvertible {
    /// IP addresses are integers. The most significant byte is the first byte of the address: 127.0.0.1 is 0x7F000001.
    private enum Storage: Hashable {
        case ipv4(address: UInt32, port: UInt16)
        case ipv6(high: UInt64, low: UInt64, scope: UInt32, port: UInt16)
        case unix(path: String)
    }

    /// The longest path of a Unix socket. The path and its final NUL must fit into `sockaddr_un.sun_path`.
    public static let unixPathBytesMax = 107

    private let storage: Storage

    private init(storage: Storage) {
        self.storage = storage
    }

    /// Parses a numeric address, such as `192.0.2.1`, `2001:db8::1` or `[2001:db8::1]`. Returns nil for any
    /// other text, including a host name.
    public init?(numeric: String, port: UInt16) {
        var text = Substring(numeric)
        guard !text.utf8.contains(0) else { return nil }
        var ipv4Address = in_addr()
        if inet_pton(AF_INET, String(text), &ipv4Address) == 1 {
            storage = .ipv4(address: UInt32(bigEndian: ipv4Address.s_addr), port: port)
            return
        }
        if text.hasPrefix("["), text.hasSuffix("]"), text.utf8.count > 2 {
            text = text.dropFirst().dropLast()
        }
        var ipv6Address = in6_addr()
        guard inet_pton(AF_INET6, String(text), &ipv6Address) == 1 else { return nil }
        storage = SocketAddress.ipv6Storage(ipv6Address, scope: 0, port: port)
    }

    /// Returns the address of a Unix socket; nil if the path is empty, contains a NUL, or is longer than
    /// `unixPathBytesMax`.
    public static func unix(path: String) -> SocketAddress? {
        let bytes = path.utf8
        guard !bytes.isEmpty, bytes.count <= unixPathBytesMax, !bytes.contains(0) else { return nil }
        return SocketAddress(storage: .unix(path: path))
    }

    /// Returns the address 127.0.0.1 with this port.
    public static func loopback(port: UInt16) -> SocketAddress {
        SocketAddress(storage: .ipv4(address: 0x7f00_0001, port: port))
    }

    /// Converts a C library's `sockaddr`. Returns nil for a family other than IPv4, IPv6 and Unix, for a
    /// truncated structure, and for a Unix socket without a path.
    public init?(_ raw: UnsafePointer<sockaddr>, length: socklen_t) {
        let bytes = UnsafeRawBufferPointer(start: raw, count: Int(length))
        switch Int32(raw.pointee.sa_family) {
        case AF_INET where bytes.count >= MemoryLayout<sockaddr_in>.size:
            let address = bytes.loadUnaligned(as: sockaddr_in.self)
            storage = .ipv4(
                address: UInt32(bigEndian: address.sin_addr.s_addr),
                port: UInt16(bigEndian: address.sin_port)
            )
        case AF_INET6 where bytes.count >= MemoryLayout<sockaddr_in6>.size:
            let address = bytes.loadUnaligned(as: sockaddr_in6.self)
            storage = SocketAddress.ipv6Storage(
                address.sin6_addr,
                scope: address.sin6_scope_id,
                port: UInt16(bigEndian: address.sin6_port)
            )
        case AF_UNIX:
            let path = bytes.dropFirst(MemoryLayout<sa_family_t>.size).prefix { $0 != 0 }
            guard !path.isEmpty else { return nil }
            storage = .unix(path: String(decoding: path, as: UTF8.self))
        default:
            return nil
        }
    }

    private static func ipv6Storage(_ address: in6_addr, scope: UInt32, port: UInt16) -> Storage {
        withUnsafeBytes(of: address) { bytes in
            .ipv6(
                high: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
                low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)),
                scope: scope,
                port: port
            )
        }
    }

    /// The port of an IP address; 0 for a Unix socket.
    public var port: UInt16 {
        switch storage {
        case .ipv4(_, let port), .ipv6(_, _, _, let port): port
        case .unix: 0
        }
    }

    /// Returns the address with another port. The address of a Unix socket is returned unchanged.
    public func with(port: UInt16) -> SocketAddress {
        switch storage {
        case .ipv4(let address, _):
            SocketAddress(storage: .ipv4(address: address, port: port))
        case .ipv6(let high, let low, let scope, _):
            SocketAddress(storage: .ipv6(high: high, low: low, scope: scope, port: port))
        case .unix:
            self
        }
    }

    public var isUnix: Bool {
        if case .unix = storage { true } else { false }
    }

    package var family: Int32 {
        switch storage {
        case .ipv4: AF_INET
        case .ipv6: AF_INET6
        case .unix: AF_UNIX
        }
    }

    /// The numeric address without port and brackets, or the path of the Unix socket.
    public var host: String {
        switch storage {
        case .ipv4(let address, _):
            return "\(address >> 24).\(address >> 16 & 0xff).\(address >> 8 & 0xff).\(address & 0xff)"
        case .ipv6(let high, let low, _, _):
            var address = SocketAddress.ipv6Address(high: high, low: low)
            return withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) { buffer in
                guard let base = buffer.baseAddress,
                    inet_ntop(AF_INET6, &address, base, socklen_t(INET6_ADDRSTRLEN)) != nil
                else { return "" }
                return String(cString: base)
            }
        case .unix(let path):
            return path
        }
    }

    /// The address as text: `192.0.2.1:443`, `[2001:db8::1]:443` or `unix:/run/redis.sock`.
    public var description: String {
        switch storage {
        case .ipv4(_, let port): "\(host):\(port)"
        case .ipv6(_, _, _, let port): "[\(host)]:\(port)"
        case .unix(let path): "unix:\(path)"
        }
    }

    /// Calls `body` with the address as a `sockaddr`, which is valid only during the call.
    public func withSockaddr<Value>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Value) -> Value {
        switch storage {
        case .ipv4(let address, let port):
            var raw = sockaddr_in()
            raw.sin_family = sa_family_t(AF_INET)
            raw.sin_port = port.bigEndian
            raw.sin_addr.s_addr = address.bigEndian
            return SocketAddress.withSockaddrPointer(&raw, body)
        case .ipv6(let high, let low, let scope, let port):
            var raw = sockaddr_in6()
            raw.sin6_family = sa_family_t(AF_INET6)
            raw.sin6_port = port.bigEndian
            raw.sin6_scope_id = scope
            raw.sin6_addr = SocketAddress.ipv6Address(high: high, low: low)
            return SocketAddress.withSockaddrPointer(&raw, body)
        case .unix(let path):
            var raw = sockaddr_un()
            raw.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &raw.sun_path) { target in
                // The last byte stays 0, because C functions expect a NUL after the path.
                for (offset, byte) in path.utf8.prefix(target.count - 1).enumerated() { target[offset] = byte }
            }
            return SocketAddress.withSockaddrPointer(&raw, body)
        }
    }

    private static func ipv6Address(high: UInt64, low: UInt64) -> in6_addr {
        var address = in6_addr()
        withUnsafeMutableBytes(of: &address) { bytes in
            bytes.storeBytes(of: high.bigEndian, as: UInt64.self)
            bytes.storeBytes(of: low.bigEndian, toByteOffset: 8, as: UInt64.self)
        }
        return address
    }

    private static func withSockaddrPointer<Raw, Value>(
        _ raw: inout Raw,
        _ body: (UnsafePointer<sockaddr>, socklen_t) -> Value
    ) -> Value {
        withUnsafePointer(to: &raw) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<Raw>.size)) }
        }
    }
}
