import Glibc

/// Reads small files, and gives the reason in words if that fails.
package enum ConfigurationFile {
    package struct ReadError: Error, Equatable {
        /// The reason, without the path.
        package var reason: String
    }

    /// Returns the file's text. Throws if the file cannot be opened or read (a directory cannot), has more than
    /// `bytesMax` bytes, or is not UTF-8.
    package static func readText(path: String, bytesMax: Int) throws(ReadError) -> String {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw ReadError(reason: "cannot be opened: \(errnoText())") }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw ReadError(reason: "cannot be read: \(errnoText())") }
            if count == 0 { break }
            bytes.append(contentsOf: chunk[..<count])
            guard bytes.count <= bytesMax else { throw ReadError(reason: "is larger than \(bytesMax) bytes") }
        }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw ReadError(reason: "is not UTF-8") }
        return text
    }

    /// Returns the reason why the file cannot be read; nil if it can be read. Does not block if the file is a pipe
    /// without a writer.
    static func unreadableReason(path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return "cannot be opened: \(errnoText())" }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return "cannot be read: \(errnoText())" }
        return status.st_mode & S_IFMT == S_IFREG ? nil : "is not a file"
    }

    private static func errnoText() -> String {
        String(cString: strerror(errno))
    }
}
