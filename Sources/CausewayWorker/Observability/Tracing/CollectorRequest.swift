import Glibc

/// One `POST` to a collector, over a connection of its own. It waits, so it runs on a thread that nobody else needs.
struct CollectorRequest: Sendable {
    /// Of the answer only the first line matters, which is far shorter.
    private static let answerBytesMax = 4_096

    enum Failure: Error, CustomStringConvertible {
        case lookup(Int32)
        case system(StaticString, Int32)
        case noAnswer
        /// Its time was over before the answer had come.
        case late

        var description: String {
            switch self {
            case .lookup(let code): "its name cannot be looked up: \(String(cString: gai_strerror(code)))"
            case .system(let call, let code): "\(call): \(String(cString: strerror(code)))"
            case .noAnswer: "no HTTP answer"
            case .late: "no answer in time"
            }
        }
    }

    var address: CollectorAddress
    /// For all of it but the name's look-up.
    var timeoutMilliseconds: Int

    /// - Returns: the status.
    func post(_ body: String) throws(Failure) -> Int {
        let deadline = ContinuousClock.now + .milliseconds(timeoutMilliseconds)
        let descriptor = try connected(until: deadline)
        defer { close(descriptor) }
        let host = address.host.contains(":") ? "[\(address.host)]" : address.host
        let head =
            "POST \(address.path) HTTP/1.1\r\nHost: \(host):\(address.port)\r\nContent-Type: application/json\r\n"
            + "Content-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n"
        try write(head + body, to: descriptor, until: deadline)
        return try status(from: descriptor, until: deadline)
    }

    private func connected(until deadline: ContinuousClock.Instant) throws(Failure) -> Int32 {
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
            do throws(Failure) {
                try limit(descriptor, until: deadline)
                if connect(descriptor, place.ai_addr, place.ai_addrlen) == 0 { return descriptor }
                throw .system("connect", errno)
            } catch {
                failure = error
                close(descriptor)
            }
        }
        throw failure
    }

    /// The next call waits for what is left of the time: a collector that takes or gives a byte now and then has no more than another.
    private func limit(_ descriptor: Int32, until deadline: ContinuousClock.Instant) throws(Failure) {
        let left = (deadline - .now).components
        let microseconds = left.seconds * 1_000_000 + left.attoseconds / 1_000_000_000_000
        // Zero would mean no limit.
        guard microseconds > 0 else { throw .late }
        var limit = timeval(tv_sec: Int(microseconds / 1_000_000), tv_usec: Int(microseconds % 1_000_000))
        for option in [SO_SNDTIMEO, SO_RCVTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
        }
    }

    private func write(_ text: String, to descriptor: Int32, until deadline: ContinuousClock.Instant) throws(Failure) {
        let bytes = Array(text.utf8)
        var sent = 0
        while sent < bytes.count {
            try limit(descriptor, until: deadline)
            let count = bytes[sent...]
                .withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw .system("send", errno) }
            sent += count
        }
    }

    /// `HTTP/1.1 200 OK`
    private func status(from descriptor: Int32, until deadline: ContinuousClock.Instant) throws(Failure) -> Int {
        var answer: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 512)
        while !answer.contains(UInt8(ascii: "\n")), answer.count < Self.answerBytesMax {
            try limit(descriptor, until: deadline)
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
