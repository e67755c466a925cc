/// The header fields of a message, in the order of the message.
package struct HTTPFields: Sendable, Equatable {
    struct Field: Sendable, Equatable {
        /// The field's name in lower case.
        var name: String
        var value: String
    }

    private(set) var allFields: [Field] = []

    package init() {}

    mutating func append(name: Substring, value: Substring) {
        allFields.append(Field(name: name.lowercased(), value: String(value)))
    }

    /// The values of all fields with this name, joined with commas (RFC 9110, section 5.3); nil if the message has no
    /// such field.
    ///
    /// - Parameter name: in lower case.
    package subscript(name: String) -> String? {
        let values = values(of: name)
        return values.isEmpty ? nil : values.joined(separator: ", ")
    }

    /// Returns the values of all fields with this name, in their order. The name must be in lower case.
    func values(of name: String) -> [String] {
        allFields.filter { $0.name == name }.map(\.value)
    }

    /// Whether the word is in the comma-separated list of a field with this name. The letters in the list may be in
    /// upper or lower case.
    ///
    /// - Parameters:
    ///   - name: in lower case.
    ///   - word: in lower case.
    func hasWord(_ word: String, inListOf name: String) -> Bool {
        values(of: name)
            .contains { value in
                value.lowercased().split(separator: ",").contains { $0.trimmed == word }
            }
    }

    /// Whether the text is a token, as the name of a field or a method must be (RFC 9110, section 5.6.2).
    package static func isToken(_ text: Substring) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }

    /// Returns how the body ends, as the fields announce; nil if they announce no body.
    ///
    /// - Throws: if the fields contradict each other, a length is not a number, or a coding is not exactly `chunked`.
    func parseBodyFraming() throws(HTTPFault) -> HTTPBodyReader.Framing? {
        let (codings, lengths) = (values(of: "transfer-encoding"), values(of: "content-length"))
        guard codings.isEmpty else {
            // Refuse a message with `Content-Length` and `Transfer-Encoding`: a proxy and the server may each use
            // another one, and so see different messages (request smuggling).
            guard lengths.isEmpty else { throw .malformed }
            guard codings.count == 1, codings[0].lowercased() == "chunked" else { throw .unknownTransferCoding }
            return .chunked
        }
        guard let text = lengths.first else { return nil }
        guard lengths.allSatisfy({ $0 == text }), !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) })
        else { throw .malformed }
        // A number that is too large for `Int` becomes `Int.max`, so that it is above every limit.
        return .contentLength(Int(text) ?? .max)
    }
}

/// Why a message cannot be read.
enum HTTPFault: Error, Equatable {
    case malformed
    case unknownTransferCoding
    /// The head has too many bytes or fields.
    case headTooLarge
    case bodyTooLarge
    case unknownVersion

    /// The HTTP status with which a server refuses a request that has this fault.
    var refusalStatus: Int {
        switch self {
        case .malformed: 400
        case .bodyTooLarge: 413
        case .headTooLarge: 431
        case .unknownTransferCoding: 501
        case .unknownVersion: 505
        }
    }
}

extension Substring {
    /// The text without spaces and tabs around it: OWS in RFC 9110, section 5.6.3.
    package var trimmed: Substring {
        var text = self
        while let first = text.first, first == " " || first == "\t" { text.removeFirst() }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }
}
