import Numbers

/// The head of an HTTP/1.1 request (RFC 9112, section 3).
package struct HTTPRequestHead: Sendable, Equatable {
    package var method: String
    /// The part of the request's target before the question mark, with percent-encoding decoded.
    package var path: String
    package var query: HTTPQuery
    package var fields: HTTPFields
    /// True for HTTP/1.1, false for HTTP/1.0. A client of HTTP/1.0 gets no chunked response, and its connection closes
    /// after the first response.
    var isHTTP11: Bool
    /// How the body ends; nil if the fields announce no body.
    var bodyFraming: HTTPBodyReader.Framing?

    var keepsAlive: Bool { isHTTP11 && !fields.hasWord("close", inListOf: "connection") }
    /// Whether the client waits for `100 Continue` before it sends its body.
    var awaitsContinue: Bool { isHTTP11 && fields.hasWord("100-continue", inListOf: "expect") }

    /// Reads one head from the beginning of the received bytes.
    ///
    /// - Returns: the head and its number of bytes; nil if the head is not complete.
    static func parse(
        _ bytes: [UInt8],
        bytesMax: Int = HTTPHead.bytesMax
    ) throws(HTTPFault) -> (head: HTTPRequestHead, byteCount: Int)? {
        guard let (head, byteCount) = try HTTPHead.parse(bytes, bytesMax: bytesMax) else { return nil }
        let words = head.firstLine.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 3, HTTPFields.isToken(words[0]), words[1].hasPrefix("/") else { throw .malformed }
        guard words[2] == "HTTP/1.1" || words[2] == "HTTP/1.0" else { throw .unknownVersion }
        let isHTTP11 = words[2] == "HTTP/1.1"
        let hostCount = head.fields.values(of: "host").count
        guard hostCount == 1 || !isHTTP11 && hostCount == 0 else { throw .malformed }
        let targetParts = words[1].split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard let path = PercentEncoding.decode(targetParts[0]),
            let query = HTTPQuery(targetParts.count == 2 ? targetParts[1] : "")
        else { throw .malformed }
        let request = HTTPRequestHead(
            method: String(words[0]),
            path: path,
            query: query,
            fields: head.fields,
            isHTTP11: isHTTP11,
            bodyFraming: try head.fields.parseBodyFraming()
        )
        return (request, byteCount)
    }
}

/// The named values behind the question mark of a request's target: `a=1&b=2`.
package struct HTTPQuery: Sendable, Equatable {
    private var values: [String: String] = [:]

    /// Returns nil if a percent sign is not followed by two hexadecimal digits, or the decoded text is not
    /// UTF-8.
    package init?(_ text: Substring) {
        for part in text.split(separator: "&") {
            let nameAndValue = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = PercentEncoding.decode(nameAndValue[0]),
                let value = PercentEncoding.decode(nameAndValue.count == 2 ? nameAndValue[1] : "")
            else { return nil }
            if values[name] == nil { values[name] = value }
        }
    }

    /// The value of the name; nil if the query does not have the name. A name without a value has the empty
    /// text. If a name occurs more than once, its first value counts.
    package subscript(name: String) -> String? { values[name] }
}
