import Glibc

/// Writes lines to standard output and standard error. Each line is written completely and at once, because
/// other programs wait for it.
package enum StandardStreams {
    package static func printOutput(_ line: String) {
        write(line, to: STDOUT_FILENO)
    }

    package static func printError(_ line: String) {
        write(line, to: STDERR_FILENO)
    }

    /// Writes bytes to standard output as they are. They must be whole lines.
    package static func writeOutput(_ bytes: [UInt8]) {
        write(bytes[...], to: STDOUT_FILENO)
    }

    private static func write(_ line: String, to descriptor: Int32) {
        write(Array((line + "\n").utf8)[...], to: descriptor)
    }

    private static func write(_ bytes: ArraySlice<UInt8>, to descriptor: Int32) {
        var bytes = bytes
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return }
            bytes = bytes.dropFirst(count)
        }
    }
}
