import Foundation

/// Reads and writes small files completely.
enum TextFile {
    static let bytesMax = 64 << 20

    static func read(_ path: String) throws(LabError) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw LabError(path, errno: errno) }
        defer { close(descriptor) }
        var content: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while content.count < bytesMax {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count == 0 { return content }
            if count < 0 {
                if errno == EINTR { continue }
                throw LabError(path, errno: errno)
            }
            content.append(contentsOf: chunk[..<count])
        }
        throw LabError("\(path) is larger than \(bytesMax >> 20) MiB")
    }

    /// Writes a file that only the owner may read, because the file may be a key.
    static func write(_ text: String, to path: String) throws(LabError) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw LabError(path, errno: errno) }
        defer { close(descriptor) }
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno != EINTR { throw LabError(path, errno: errno) }
            bytes = bytes.dropFirst(max(0, count))
        }
    }

    /// Writes figures as JSON, indented and with sorted keys.
    static func write(figures: some Encodable, to path: String) throws(LabError) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        guard let data = try? encoder.encode(figures) else { throw LabError("\(path): the figures are not valid JSON") }
        try write(String(decoding: data, as: UTF8.self) + "\n", to: path)
    }

    /// Returns the last lines of a log; none if the file cannot be read.
    static func readLastLines(of path: String, _ count: Int) -> [String] {
        guard let content = try? read(path) else { return [] }
        return String(decoding: content, as: UTF8.self).split(separator: "\n").suffix(count).map(String.init)
    }
}
