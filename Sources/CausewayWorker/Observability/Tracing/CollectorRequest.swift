import Glibc

/// One `POST` to a collector, over a connection of its own. It waits, so it runs on a thread that nobody else needs.
struct CollectorRequest: Sendable {
    /// Of the answer only the first line matters, which is far shorter.
    private static let answerBytesMax = 4_096

    enum Failure: Error, CustomStringConvertible {
        case lookup(Int32)
        case system(StaticString, Int32)
        case noAnswer

        var description: String {
            switch self {
            case .lookup(let code): "its name cannot be looked up: \(String(cString: gai_strerror(code)))"
            case .system(let call, let code): "\(call): \(String(cString: strerror(code)))"
            case .noAnswer: "no HTTP answer"
            }
        }
    }

    var address: CollectorAddress
    /// For each step that waits: the connection, each write, each read.
    var timeoutMilliseconds: Int

    /// - Returns: the status.
    func post(_ body: String) throws(Failure) -> Int {
        let descriptor = try connected()
        defer { close(descriptor) }
        let host = address.host.contains(":") ? "[\(address.host)]" : address.host
        let head =
            "POST \(address.path) HTTP/1.1\r\nHost: \(host):\(address.port)\r\nContent-Type: application/json\r\n"
            + "Content-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n"
        try write(head + body, to: descriptor)
        return try status(from: descriptor)
    }

    private func connected() throws(Failure) -> Int32 {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(address.host, "\(address.port)", &hints, &found)
        guard code == 0 else { throw .lookup(code) }
        defer { freeaddrinfo(found) }
        var failure = Failure.noAnswer
        var next = found
        while let place = next?.pointee {
            next = place.ai_next
            let descriptor = socket(place.ai_family, place.ai_socktype | Int32(SOCK_CLOEXEC.rawValue), 0)
            guard descriptor >= 0 else {
                failure = .system("socket", errno)
                continue
            }
            var limit = timeval(tv_sec: timeoutMilliseconds / 1_000, tv_usec: timeoutMilliseconds % 1_000 * 1_000)
            for option in [SO_SNDTIMEO, SO_RCVTIMEO] {
                setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
            }
            if connect(descriptor, place.ai_addr, place.ai_addrlen) == 0 { return descriptor }
            failure = .system("connect", errno)
            close(descriptor)
        }
        throw failure
    }

    private func write(_ text: String, to descriptor: Int32) throws(Failure) {
        let bytes = Array(text.utf8)
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...]
                .withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw .system("send", errno) }
            sent += count
        }
    }

    /// `HTTP/1.1 200 OK`
    private func status(from descriptor: Int32) throws(Failure) -> Int {
        var answer: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 512)
        while !answer.contains(UInt8(ascii: "\n")), answer.count < Self.answerBytesMax {
            let count = recv(descriptor, &chunk, chunk.count, 0)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .system("recv", errno) }
            guard count > 0 else { break }
            answer.append(contentsOf: chunk[..<count])
        }
        let words = String(decoding: answer, as: UTF8.self).split(separator: " ", maxSplits: 2)
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), let status = Int(words[1].prefix(3)) else {
            throw .noAnswer
        }
        return status
    }
}
