import Glibc

/// A blocking HTTP/1.1 client on loopback, which shares no code with the servers and clients that are tested.
public final class RawHTTPClient: Sendable {
    public struct Response {
        public var status: Int
        public var head: String
        public var body: String
    }

    public struct Failure: Error {}

    private let descriptor: Int32

    /// - Parameter receiveBufferBytes: the size of the socket's receive buffer; nil for the system's default. If it is
    ///   small, the server soon has to wait for this client.
    public init(port: UInt16, receiveBufferBytes: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var timeout = timeval(tv_sec: 120, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        if var receiveBufferBytes {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBufferBytes, socklen_t(MemoryLayout<Int32>.size))
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let connectResult = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connectResult == 0 else { throw Failure() }
    }

    deinit { close(descriptor) }

    public func send(_ text: String) { send(Array(text.utf8)) }

    public func send(_ bytes: [UInt8]) {
        var sentByteCount = 0
        while sentByteCount < bytes.count {
            let count = bytes[sentByteCount...]
                .withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return }
            sentByteCount += count
        }
    }

    public func sendAndRead(_ request: String) throws -> Response {
        send(request)
        return try readResponse()
    }

    public func get(_ path: String) throws -> Response { try sendAndRead("GET \(path) HTTP/1.1\r\nHost: a\r\n\r\n") }

    /// Reads until the text `end` has come, and returns all that was read. Throws if the connection closes first.
    public func read(until end: String) throws -> String {
        var bytes: [UInt8] = []
        while !bytes.suffix(end.utf8.count).elementsEqual(end.utf8) {
            var byte: UInt8 = 0
            guard recv(descriptor, &byte, 1, 0) == 1 else { throw Failure() }
            bytes.append(byte)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Reads one response, whose length its head announces.
    public func readResponse() throws -> Response {
        let head = try read(until: "\r\n\r\n")
        guard let status = Int(head.dropFirst(9).prefix(3)),
            let length = head.firstMatch(of: /Content-Length: ([0-9]+)/).flatMap({ Int($0.1) })
        else { throw Failure() }
        var body: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while body.count < length {
            let count = recv(descriptor, &buffer, min(buffer.count, length - body.count), 0)
            guard count > 0 else { throw Failure() }
            body += buffer[..<count]
        }
        return Response(status: status, head: head, body: String(decoding: body, as: UTF8.self))
    }

    /// Reads everything until the server closes the connection, or sends nothing for two minutes.
    public func readToEnd() -> String {
        var received: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { return String(decoding: received, as: UTF8.self) }
            received += buffer[..<count]
        }
    }
}
