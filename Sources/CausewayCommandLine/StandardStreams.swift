import Glibc
import Synchronization

/// Writes lines to standard output and standard error. Each line is written completely before the call returns, because
/// other programs wait for it.
package enum StandardStreams {
    /// The `errno` of the first failed write to standard output; 0: none failed. EPIPE does not count: it says that
    /// nobody reads any longer.
    private static let outputErrorNumber = Atomic<Int32>(0)

    /// Why a line is missing in standard output, for example because the disk is full; nil: none is missing. It is no
    /// failure if nobody reads the output any longer.
    package static var outputFailure: String? {
        let number = outputErrorNumber.load(ordering: .relaxed)
        return number == 0 ? nil : String(cString: strerror(number))
    }

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
            guard count > 0 else {
                if count < 0, errno != EPIPE, descriptor == STDOUT_FILENO {
                    _ = outputErrorNumber.compareExchange(expected: 0, desired: errno, ordering: .relaxed)
                }
                return
            }
            bytes = bytes.dropFirst(count)
        }
    }
}
