import CausewayConfiguration

/// Headers that a collector asks for, above all its authorization: a file with a `Name: value` in each line. Lines that are empty or
/// begin with `#` say nothing.
///
/// Errors name the line and never what stands in it.
package enum CollectorHeaders {
    static let bytesMax = 8_192
    static let countMax = 16

    /// What the request says itself, and what would change how its end is found.
    private static let reserved: Set<String> = [
        "host", "content-length", "content-type", "connection", "transfer-encoding", "expect", "upgrade",
    ]

    /// - Returns: the lines of a request's head, each with its end.
    package static func read(_ path: String) throws(SecretFileError) -> String {
        let text = try SecretFile.text(path, bytesMax: bytesMax)
        var head = ""
        var count = 0
        // By scalars: to Swift's characters, CR and LF are one.
        let lines = text.unicodeScalars.split(separator: "\n", omittingEmptySubsequences: false)
        for (number, ended) in lines.enumerated() {
            let line = Substring(ended.last == "\r" ? ended.dropLast() : ended)
            if line.isEmpty || line.first == "#" { continue }
            count += 1
            if let complaint = complaint(about: line) {
                throw SecretFileError(path: path, reason: "line \(number + 1) \(complaint)")
            }
            head += "\(line)\r\n"
        }
        guard count <= countMax else {
            throw SecretFileError(path: path, reason: "holds more than \(countMax) headers")
        }
        return head
    }

    private static func complaint(about line: Substring) -> String? {
        guard let colon = line.firstIndex(of: ":"), colon > line.startIndex else { return "is no header: Name: value" }
        let name = line[..<colon]
        guard name.utf8.allSatisfy(isTokenByte) else { return "has a name that no header can have" }
        guard line[colon...].utf8.allSatisfy({ (0x20...0x7E).contains($0) || $0 == 0x09 }) else {
            return "has a value that no header can have"
        }
        return reserved.contains(name.lowercased()) ? "is a header that the worker writes itself" : nil
    }

    /// RFC 9110, section 5.6.2.
    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}
