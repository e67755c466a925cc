import Glibc

/// A file, or standard input under the name `-`. It is read once, from beginning to end.
package struct InputFile {
    package struct ReadError: Error, CustomStringConvertible {
        var path: String
        var reason: String
        package var description: String { "\(path): \(reason)" }
    }

    package let path: String

    package init(path: String) {
        self.path = path
    }

    /// The name of the file in messages.
    package var name: String { path == "-" ? "stdin" : path }

    /// Reads the file, and passes each record to the body as soon as the record is complete.
    package func forEachRecord(_ body: (InputRecord) throws -> Void) throws {
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw readError("cannot be opened") }
        defer { if descriptor != STDIN_FILENO { close(descriptor) } }
        var splitter = RecordSplitter()
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw readError("cannot be read") }
            if count == 0 { break }
            try splitter.split(chunk[..<count], body)
        }
        try splitter.finish(body)
    }

    private func readError(_ failure: String) -> ReadError {
        ReadError(path: name, reason: "\(failure): \(String(cString: strerror(errno)))")
    }
}
