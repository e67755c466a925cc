import Glibc

/// The reason why a run could not begin or did not succeed. The text says what to check.
struct LabError: Error, CustomStringConvertible {
    var reason: String
    /// The last lines of a log that may show the cause.
    var logTail: [String] = []

    init(_ reason: String, logTail: [String] = []) {
        self.reason = reason
        self.logTail = logTail
    }

    /// Makes the error for a failed call of the operating system.
    init(_ operation: String, errno code: Int32) {
        self.init("\(operation): \(String(cString: strerror(code)))")
    }

    var description: String {
        logTail.isEmpty ? reason : reason + "\n" + logTail.map { "  | \($0)" }.joined(separator: "\n")
    }
}
