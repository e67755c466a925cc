import Glibc

/// Asks the simulator's control interface over HTTP/1.1, one request at a time, and waits for the answer. All of it is
/// cold: phones are made before the season and looked at after it.
struct ControlClient {
    struct Answer {
        var status: Int
        var body: [UInt8]
    }

    static let answerBytesMax = 256 << 20
    static let timeoutSeconds = 60

    let port: UInt16

    /// - Throws: if there is no answer, or one that is not HTTP. Whatever status is an answer.
    func request(_ method: String, _ target: String, body: [UInt8] = []) throws(DemoError) -> Answer {
        let descriptor = try connect()
        defer { close(descriptor) }
        var head = "\(method) \(target) HTTP/1.1\r\nhost: 127.0.0.1:\(port)\r\nconnection: close\r\n"
        if !body.isEmpty { head += "content-type: application/json\r\n" }
        head += "content-length: \(body.count)\r\n\r\n"
        try send(Array(head.utf8) + body, to: descriptor)
        let answer = try receive(from: descriptor)
        guard let parsed = Self.parse(answer) else {
            throw DemoError("the simulator's answer to \(target) is not HTTP")
        }
        return parsed
    }

    /// The body of a successful answer.
    func body(_ method: String, _ target: String, body: [UInt8] = []) throws(DemoError) -> [UInt8] {
        let answer = try request(method, target, body: body)
        guard (200...299).contains(answer.status) else {
            let text = String(decoding: answer.body.prefix(500), as: UTF8.self)
            throw DemoError("the simulator answers \(answer.status) to \(method) \(target): \(text)")
        }
        return answer.body
    }

    private func connect() throws(DemoError) -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw DemoError("socket", errno: errno) }
        var timeout = timeval(tv_sec: Self.timeoutSeconds, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &timeout, socklen_t(MemoryLayout<timeval>.size))
        }
        guard LoopbackPort.connect(descriptor, to: port) else {
            let code = errno
            close(descriptor)
            throw DemoError("the simulator's control port \(port)", errno: code)
        }
        return descriptor
    }

    private func send(_ bytes: [UInt8], to descriptor: Int32) throws(DemoError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count < 0, errno != EINTR { throw DemoError("a request to the simulator", errno: errno) }
            rest = rest.dropFirst(max(0, count))
        }
    }

    private func receive(from descriptor: Int32) throws(DemoError) -> [UInt8] {
        var answer: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while answer.count < Self.answerBytesMax {
            let count = recv(descriptor, &chunk, chunk.count, 0)
            if count == 0 { return answer }
            if count < 0 {
                if errno == EINTR { continue }
                throw DemoError("the simulator's answer", errno: errno)
            }
            answer.append(contentsOf: chunk[..<count])
            if Self.isWhole(answer) { return answer }
        }
        throw DemoError("the simulator's answer is larger than \(Self.answerBytesMax >> 20) MiB")
    }

    /// Whether all the bytes that the head announces are there.
    private static func isWhole(_ answer: [UInt8]) -> Bool {
        guard let head = head(of: answer), let length = contentLength(answer[..<head]) else { return false }
        return answer.count - head >= length
    }

    /// How long the head is, its empty line included.
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
