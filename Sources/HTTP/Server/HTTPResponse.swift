/// What a server's handler responds to one request. The server adds fields such as `Content-Length` and `Connection`.
package struct HTTPResponse: Sendable, Equatable {
    package var status: Int
    package var contentType: String
    /// The `Content-Security-Policy`: what a browser may load for this page. The default allows only styles that are
    /// part of the page.
    package var contentSecurityPolicy = "default-src 'none'; style-src 'unsafe-inline'"
    /// The value of the `Allow` field, which status 405 requires: the methods that the path supports. Nil: no field.
    package var allowedMethods: String?
    package var body: [UInt8]

    package init(status: Int, contentType: String, body: [UInt8]) {
        self.status = status
        self.contentType = contentType
        self.body = body
    }

    package init(status: Int, contentType: String = "text/plain; charset=utf-8", text: String) {
        self.init(status: status, contentType: contentType, body: Array(text.utf8))
    }

    /// Returns a response with the status and its phrase as text, for example “404 Not Found”.
    package static func statusOnly(_ status: Int) -> HTTPResponse {
        HTTPResponse(status: status, text: "\(status) \(reasonPhrase(of: status))\n")
    }

    package static func reasonPhrase(of status: Int) -> String {
        switch status {
        case 200: "OK"
        case 400: "Bad Request"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 408: "Request Timeout"
        case 409: "Conflict"
        case 413: "Content Too Large"
        case 431: "Request Header Fields Too Large"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 503: "Service Unavailable"
        case 505: "HTTP Version Not Supported"
        default: "Status"
        }
    }

    /// How the client finds the end of the body.
    enum Framing {
        case contentLength
        case chunked
        case untilConnectionEnds
    }

    /// Returns the bytes that come before the body: the status line, the header fields and an empty line.
    func makeHead(_ framing: Framing, keepsAlive: Bool) -> [UInt8] {
        var head = "HTTP/1.1 \(status) \(Self.reasonPhrase(of: status))\r\nContent-Type: \(contentType)\r\n"
        switch framing {
        case .contentLength: head += "Content-Length: \(body.count)\r\n"
        case .chunked: head += "Transfer-Encoding: chunked\r\n"
        case .untilConnectionEnds: break
        }
        head += "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
        head += "Content-Security-Policy: \(contentSecurityPolicy)\r\n"
        if let allowedMethods { head += "Allow: \(allowedMethods)\r\n" }
        head += "Connection: \(keepsAlive ? "keep-alive" : "close")\r\n\r\n"
        return Array(head.utf8)
    }
}
