/// The errors of all servers that a look-up has asked, to be reported as one error. Otherwise the error of the last
/// server would hide the others: for example, that the first server requires a password.
struct LookupFailures {
    /// The maximum number of errors whose texts are reported.
    static let reasonsMax = 8

    private var errors: [RedisError] = []

    mutating func append(_ error: RedisError) { errors.append(error) }

    /// One error instead of all. Its code is that of the first error with ``RedisError/needsOperatorAction``, or else
    /// of the last error. Its reason lists the reasons of all errors, at most ``reasonsMax``.
    var summary: RedisError {
        guard let last = errors.last else { return RedisError(.closed) }
        let code = (errors.first(where: \.needsOperatorAction) ?? last).code
        var reasons: [String] = []
        for error in errors where !reasons.contains(error.reason) { reasons.append(error.reason) }
        let omittedCount = reasons.count - Self.reasonsMax
        let omittedText = omittedCount > 0 ? "; and \(omittedCount) others" : ""
        return RedisError(code, reasons.prefix(Self.reasonsMax).joined(separator: "; ") + omittedText)
    }
}

extension RedisError {
    /// Makes an error with the usual text of its code, preceded by the server that caused it.
    init(_ code: Code, at location: RedisURL.Location) { self.init(code, "\(location): \(RedisError(code).reason)") }

    /// Classifies an error reply, and puts the server that sent it before the text.
    init(reply text: [UInt8], from location: RedisURL.Location) {
        let error = text.withUnsafeBytes { RedisError(reply: $0) }
        self.init(error.code, "\(location): \(error.reason)")
    }
}
