import Foundation
import Glibc
import Reactor

/// A page on a numeric address.
struct PageAddress: Equatable {
    var host: String
    var port: UInt16
    var path: String

    init(host: String, port: UInt16, path: String) {
        self.host = host
        self.port = port
        self.path = path
    }

    /// - Returns: nil if it is no `http` URL of a numeric address.
    init?(url: String) {
        guard let parts = URLComponents(string: url), parts.scheme == "http", let host = parts.host,
            let port = UInt16(exactly: parts.port ?? 80), port > 0
        else { return nil }
        let address = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        guard SocketAddress(numeric: address, port: port) != nil else { return nil }
        let query = parts.percentEncodedQuery.map { "?\($0)" } ?? ""
        self.init(
            host: address,
            port: port,
            path: (parts.percentEncodedPath.isEmpty ? "/" : parts.percentEncodedPath) + query
        )
    }
}

/// Asks for one page over HTTP/1.1 and waits for it.
struct PageClient {
    static let answerBytesMax = 16 << 20

    let address: PageAddress
    /// For connecting, and for each part of the answer.
    let timeoutSeconds: Int

    func get() throws(PageClientError) -> ControlClient.Answer {
        guard let target = SocketAddress(numeric: address.host, port: address.port) else {
            throw PageClientError("\(address.host) is not a numeric address")
        }
        let family = target.withRaw { raw, _ in Int32(raw.pointee.sa_family) }
        let descriptor = socket(family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw PageClientError("socket", errno: errno) }
        defer { close(descriptor) }
        var timeout = timeval(tv_sec: timeoutSeconds, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &timeout, socklen_t(MemoryLayout<timeval>.size))
        }
        guard target.withRaw({ connect(descriptor, $0, $1) }) == 0 else {
            throw PageClientError("nobody answers at \(target)", errno: errno)
        }
        let request = "GET \(address.path) HTTP/1.1\r\nhost: \(target)\r\nconnection: close\r\n\r\n"
        let sent = Array(request.utf8)
            .withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
        guard sent == request.utf8.count else { throw PageClientError("\(target) takes no request", errno: errno) }
        guard let answer = ControlClient.parse(try receive(from: descriptor)) else {
            throw PageClientError("the answer of \(target) is not HTTP")
        }
        return answer
    }

    /// Everything until the other end closes.
    private func receive(from descriptor: Int32) throws(PageClientError) -> [UInt8] {
        var answer: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while answer.count < Self.answerBytesMax {
            let count = recv(descriptor, &chunk, chunk.count, 0)
            if count == 0 { return answer }
            if count < 0 {
                if errno == EINTR { continue }
                throw PageClientError("no whole answer came", errno: errno)
            }
            answer.append(contentsOf: chunk[..<count])
        }
        throw PageClientError("the answer is larger than \(Self.answerBytesMax >> 20) MiB")
    }
}

struct PageClientError: Error, CustomStringConvertible {
    var description: String

    init(_ description: String) { self.description = description }

    init(_ what: String, errno code: Int32) { description = "\(what): \(String(cString: strerror(code)))" }
}
