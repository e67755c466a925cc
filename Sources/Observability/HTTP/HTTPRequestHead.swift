/// The head of an HTTP/1.1 request without a body (RFC 9112), with the fields that this endpoint needs.
package struct HTTPRequestHead: Sendable, Equatable {
    /// The most bytes of the request line and the header fields.
    package static let bytesMax = 8_192
    static let fieldsMax = 64

    package var method: String
    /// The text before the question mark.
    package var path: String
    /// The text behind the question mark; empty if there is none.
    package var query: String
    /// The media types that the client accepts; empty if it names none.
    package var accept: String
    package var keepsAlive: Bool

    package init(method: String, path: String, query: String = "", accept: String = "", keepsAlive: Bool = true) {
        self.method = method
        self.path = path
        self.query = query
        self.accept = accept
        self.keepsAlive = keepsAlive
    }

    enum Parsed: Equatable {
        /// The head is not complete.
        case incomplete
        /// - Parameter length: the number of bytes in the head.
        case complete(HTTPRequestHead, length: Int)
        /// The head is invalid. The connection must be closed after an answer with this status.
        case refused(status: Int)
    }

    /// Reads one head from the beginning of the received bytes.
    static func parse(_ bytes: [UInt8]) -> Parsed {
        guard let end = headEnd(bytes) else {
            return bytes.count > bytesMax ? .refused(status: 431) : .incomplete
        }
        guard end <= bytesMax else { return .refused(status: 431) }
        // All relevant header fields are ASCII. Other bytes become replacement characters, which match nothing.
        let lines = String(decoding: bytes[..<(end - 4)], as: UTF8.self)
            .split(separator: "\r\n", omittingEmptySubsequences: false)
        guard let first = lines.first, lines.count - 1 <= fieldsMax else { return .refused(status: 431) }
        let words = first.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 3, isToken(words[0]), words[1].hasPrefix("/"), !first.contains(where: isControl) else {
            return .refused(status: 400)
        }
        guard words[2] == "HTTP/1.1" || words[2] == "HTTP/1.0" else { return .refused(status: 505) }
        let target = words[1].split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        var head = HTTPRequestHead(
            method: String(words[0]),
            path: String(target[0]),
            query: target.count == 2 ? String(target[1]) : "",
            keepsAlive: words[2] == "HTTP/1.1"
        )
        if let status = head.take(fields: lines.dropFirst(), needsHost: words[2] == "HTTP/1.1") {
            return .refused(status: status)
        }
        return .complete(head, length: end)
    }

    /// - Returns: a status if the fields are invalid or announce a body.
    private mutating func take(fields: ArraySlice<Substring>, needsHost: Bool) -> Int? {
        var hosts = 0
        for line in fields {
            guard let colon = line.firstIndex(of: ":"), Self.isToken(line[..<colon]) else { return 400 }
            let value = line[line.index(after: colon)...].trimmed
            guard !value.contains(where: Self.isControl) else { return 400 }
            switch line[..<colon].lowercased() {
            case "host": hosts += 1
            case "accept": accept = String(value)
            case "connection":
                let options = value.lowercased().split(separator: ",").map(\.trimmed)
                if options.contains("close") { keepsAlive = false }
            case "transfer-encoding": return 413
            case "content-length":
                guard !value.isEmpty, value.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return 400 }
                guard value.utf8.allSatisfy({ $0 == 0x30 }) else { return 413 }
            default: break
            }
        }
        return hosts == 1 || !needsHost && hosts == 0 ? nil : 400
    }

    /// The place behind the empty line that ends the head.
    private static func headEnd(_ bytes: [UInt8]) -> Int? {
        var index = 3
        while index < bytes.count {
            if bytes[index] == 0x0A, bytes[index - 1] == 0x0D, bytes[index - 2] == 0x0A, bytes[index - 3] == 0x0D {
                return index + 1
            }
            index += 1
        }
        return nil
    }

    private static func isControl(_ character: Character) -> Bool {
        character.unicodeScalars.contains { $0.value < 0x20 && $0 != "\t" || $0.value == 0x7F }
    }

    /// Whether the text is a token (RFC 9110, section 5.6.2).
    private static func isToken(_ text: Substring) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }
}

extension Substring {
    /// The text without spaces and tabs around it: OWS in RFC 9110, section 5.6.3.
    var trimmed: Substring {
        var text = self
        while let first = text.first, first == " " || first == "\t" { text.removeFirst() }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }
}

/// The answer to a request.
package struct HTTPAnswer: Sendable, Equatable {
    /// Small enough for a stream's output.
    package static let bodyBytesMax = 6 * 1024 * 1024

    package var status: Int
    package var contentType: String
    package var body: [UInt8]

    package init(status: Int, contentType: String = "text/plain; charset=utf-8", text: String) {
        self.status = status
        self.contentType = contentType
        body = Array(text.utf8)
    }

    /// An answer that has only its status as text.
    static func plain(_ status: Int) -> HTTPAnswer {
        HTTPAnswer(status: status, text: "\(status) \(phrase(of: status))\n")
    }

    static func phrase(of status: Int) -> String {
        switch status {
        case 200: "OK"
        case 400: "Bad Request"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 408: "Request Timeout"
        case 413: "Content Too Large"
        case 431: "Request Header Fields Too Large"
        case 500: "Internal Server Error"
        case 503: "Service Unavailable"
        case 505: "HTTP Version Not Supported"
        default: "Status"
        }
    }

    /// The bytes of the head and, unless only the head was requested, of the body.
    func bytes(headOnly: Bool, keepsAlive: Bool) -> [UInt8] {
        var head = "HTTP/1.1 \(status) \(Self.phrase(of: status))\r\n"
        head += "Content-Type: \(contentType)\r\nContent-Length: \(body.count)\r\n"
        head += "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
        head += "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n"
        if status == 405 { head += "Allow: GET, HEAD\r\n" }
        head += "Connection: \(keepsAlive ? "keep-alive" : "close")\r\n\r\n"
        return Array(head.utf8) + (headOnly ? [] : body)
    }
}
