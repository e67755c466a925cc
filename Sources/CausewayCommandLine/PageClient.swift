import Foundation
import Glibc
import Reactor

/// The address of a page. The host is a name or a numeric address.
package struct PageAddress: Equatable {
    package var host: String
    package var port: UInt16
    package var path: String

    package init(host: String, port: UInt16, path: String) {
        self.host = host
        self.port = port
        self.path = path
    }

    /// - Returns: nil if the text is no `http` URL with a host.
    package init?(url: String) {
        guard let parts = URLComponents(string: url), parts.scheme == "http", let host = parts.host,
            let port = UInt16(exactly: parts.port ?? 80), port > 0
        else { return nil }
        let address = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        // Every other text that begins or ends in this way is a mistyped address, which no name server should be asked for.
        guard !address.isEmpty, !address.contains(":") || SocketAddress(numeric: address, port: port) != nil else {
            return nil
        }
        let query = parts.percentEncodedQuery.map { "?\($0)" } ?? ""
        self.init(
            host: address,
            port: port,
            path: (parts.percentEncodedPath.isEmpty ? "/" : parts.percentEncodedPath) + query
        )
    }
}

/// Requests one page over HTTP/1.1 and waits for it.
package struct PageClient {
    package struct Answer {
        package var status: Int
        package var body: [UInt8]
    }

    private let address: PageAddress
    /// The limit for connecting, and for each part of the answer.
    private let timeoutSeconds: Int
    private let answerBytesMax: Int

    package init(address: PageAddress, timeoutSeconds: Int, answerBytesMax: Int = 16 << 20) {
        self.address = address
        self.timeoutSeconds = timeoutSeconds
        self.answerBytesMax = answerBytesMax
    }

    /// - Parameter body: JSON, or nothing.
    /// - Throws: if no answer comes, or it is not HTTP. An answer with any status is returned.
    package func request(_ method: String = "GET", body: [UInt8] = []) throws(PageClientError) -> Answer {
        let targets: [SocketAddress]
        do {
            targets = try SocketAddress.resolve(address.host, port: address.port)
        } catch {
            throw PageClientError(error.reason)
        }
        let (target, descriptor) = try connection(toOneOf: targets)
        defer { close(descriptor) }
        let host = address.host.contains(":") ? "[\(address.host)]" : address.host
        var head = "\(method) \(address.path) HTTP/1.1\r\nhost: \(host):\(address.port)\r\nconnection: close\r\n"
        if !body.isEmpty { head += "content-type: application/json\r\ncontent-length: \(body.count)\r\n" }
        try send(Array((head + "\r\n").utf8) + body, to: descriptor)
        guard let answer = Self.parse(try receive(from: descriptor)) else {
            throw PageClientError("the answer of \(target) is not HTTP")
        }
        return answer
    }

    /// The first of the addresses at which somebody answers.
    private func connection(toOneOf targets: [SocketAddress]) throws(PageClientError) -> (SocketAddress, Int32) {
        var failure = PageClientError("\(address.host) has no address")
        for target in targets {
            do {
                return (target, try connection(to: target))
            } catch {
                failure = error
            }
        }
        throw failure
    }

    private func connection(to target: SocketAddress) throws(PageClientError) -> Int32 {
        let family = target.withRaw { raw, _ in Int32(raw.pointee.sa_family) }
        let descriptor = socket(family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw PageClientError("socket", errno: errno) }
        var timeout = timeval(tv_sec: timeoutSeconds, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &timeout, socklen_t(MemoryLayout<timeval>.size))
        }
        guard target.withRaw({ connect(descriptor, $0, $1) }) == 0 else {
            let code = errno
            close(descriptor)
            throw PageClientError("nobody answers at \(target)", errno: code)
        }
        return descriptor
    }

    private func send(_ bytes: [UInt8], to descriptor: Int32) throws(PageClientError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count < 0, errno != EINTR { throw PageClientError("the request could not be sent", errno: errno) }
            rest = rest.dropFirst(max(0, count))
        }
    }

    /// Reads until the peer closes the connection, or until all bytes that the head announces have arrived.
    private func receive(from descriptor: Int32) throws(PageClientError) -> [UInt8] {
        var answer: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while answer.count < answerBytesMax {
            let count = recv(descriptor, &chunk, chunk.count, 0)
            if count == 0 { return answer }
            if count < 0 {
                if errno == EINTR { continue }
                throw PageClientError("the answer is incomplete", errno: errno)
            }
            answer.append(contentsOf: chunk[..<count])
            if Self.isWhole(answer) { return answer }
        }
        throw PageClientError("the answer is larger than \(answerBytesMax >> 20) MiB")
    }

    /// Whether all bytes that the head announces have arrived.
    private static func isWhole(_ answer: [UInt8]) -> Bool {
        guard let head = head(of: answer), let length = contentLength(answer[..<head]) else { return false }
        return answer.count - head >= length
    }

    /// The length of the head, including its empty line; nil if the head is not complete.
    private static func head(of answer: [UInt8]) -> Int? {
        let end = Array("\r\n\r\n".utf8)
        let limit = min(answer.count, 16_384) - end.count
        guard limit >= 0 else { return nil }
        return (0...limit).first { answer[$0] == end[0] && answer[$0..<$0 + end.count].elementsEqual(end) }
            .map { $0 + end.count }
    }

    private static func contentLength(_ head: ArraySlice<UInt8>) -> Int? {
        for line in String(decoding: head, as: UTF8.self).lowercased().split(separator: "\r\n") {
            guard line.hasPrefix("content-length:") else { continue }
            return line.split(separator: ":").last.flatMap { Int($0.filter { $0 != " " }) }
        }
        return nil
    }

    static func parse(_ answer: [UInt8]) -> Answer? {
        guard let head = head(of: answer) else { return nil }
        let words = String(decoding: answer[..<head], as: UTF8.self).split(separator: " ", maxSplits: 2)
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), let status = Int(words[1].prefix(3)) else { return nil }
        return Answer(status: status, body: Array(answer[head...]))
    }
}

/// Why a page could not be read.
package struct PageClientError: Error, CustomStringConvertible {
    package var description: String

    package init(_ description: String) { self.description = description }

    package init(_ what: String, errno code: Int32) { description = "\(what): \(String(cString: strerror(code)))" }
}
