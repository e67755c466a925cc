import CausewayConfiguration
import HTTP

/// Reads the headers that a collector requires, above all its authorization, from a file. The file has one
/// `Name: value` per line; empty lines and lines that begin with `#` are ignored.
///
/// Errors name the line, but do not show its content, which may be secret.
package enum CollectorHeaders {
    static let bytesMax = 8_192
    static let headersMax = 16

    /// Headers that the file must not set, because the client writes them itself, or because they would change how the
    /// server reads the body or responds.
    private static let reservedNames: Set<String> = [
        "host", "content-length", "content-type", "connection", "transfer-encoding", "expect", "upgrade",
    ]

    /// Returns the headers in the file as lines for the head of a request, each with its line end.
    package static func readLines(path: String) throws(SecretFileError) -> String {
        let text = try SecretFile.readText(path, bytesMax: bytesMax)
        var headerLines = ""
        var count = 0
        // Split by scalars, because Swift treats CR LF as one character.
        let lines = text.unicodeScalars.split(separator: "\n", omittingEmptySubsequences: false)
        for (number, lineWithEnd) in lines.enumerated() {
            let line = Substring(lineWithEnd.last == "\r" ? lineWithEnd.dropLast() : lineWithEnd)
            if line.isEmpty || line.first == "#" { continue }
            count += 1
            if let fault = headerFault(about: line) {
                throw SecretFileError(path: path, reason: "line \(number + 1) \(fault)")
            }
            headerLines += "\(line)\r\n"
        }
        guard count <= headersMax else {
            throw SecretFileError(path: path, reason: "holds more than \(headersMax) headers")
        }
        return headerLines
    }

    private static func headerFault(about line: Substring) -> String? {
        guard let colon = line.firstIndex(of: ":"), colon > line.startIndex else {
            return
                "is not a header of the form Name: value"
        }
        let name = line[..<colon]
        guard HTTPFields.isToken(name) else { return "has an invalid header name" }
        guard line[colon...].utf8.allSatisfy({ (0x20...0x7E).contains($0) || $0 == 0x09 }) else {
            return "has an invalid header value"
        }
        return reservedNames.contains(name.lowercased()) ? "is a header that the worker sets itself" : nil
    }
}
