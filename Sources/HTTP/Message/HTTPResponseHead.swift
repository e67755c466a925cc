/// The head of a response, as a client reads it (RFC 9112, section 4).
struct HTTPResponseHead: Equatable {
    var status: Int
    var fields: HTTPFields

    /// Reads one head from the beginning of the received bytes.
    ///
    /// - Returns: the head and its number of bytes; nil if the head is not complete.
    static func parse(_ bytes: [UInt8]) throws(HTTPFault) -> (head: HTTPResponseHead, byteCount: Int)? {
        // Refuse another protocol at once, because its bytes may never contain the empty line that ends a head.
        guard bytes.starts(with: "HTTP/1.".utf8.prefix(bytes.count)) else { throw .malformed }
        guard let (head, byteCount) = try HTTPHead.parse(bytes, bytesMax: bytesMax) else { return nil }
        let words = head.firstLine.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
        guard words.count >= 2, words[1].utf8.count == 3, let status = Int(words[1]), (100...599).contains(status)
        else { throw .malformed }
        return (HTTPResponseHead(status: status, fields: head.fields), byteCount)
    }

    /// The maximum number of bytes in a response's head. It is higher than for a request, because foreign servers and
    /// proxies may send many fields.
    private static let bytesMax = 32_768

    /// Returns how the response's body ends. This also depends on the request's method, because a response to `HEAD`
    /// has no body.
    func parseBodyFraming(method: String) throws(HTTPFault) -> HTTPBodyReader.Framing {
        guard method != "HEAD", status != 204, status != 304 else { return .contentLength(0) }
        return try fields.parseBodyFraming() ?? .untilConnectionEnds
    }
}
