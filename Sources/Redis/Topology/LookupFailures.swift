/// The errors of the servers that a look-up has asked, to be reported as one error. Without this, the error of the last
/// server would hide the others: for example, that the first one requires a password.
struct LookupFailures {
    /// The maximum number of errors whose texts are reported.
    static let reasonsMax = 8

    private var errors: [RedisError] = []

    mutating func append(_ error: RedisError) { errors.append(error) }

    /// The reasons of all errors, with the code of the most useful one: an error after which an operator may have to
    /// act, otherwise the last error.
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
    /// Makes an error with the usual text of its code, and the server that caused it.
    init(_ code: Code, at location: RedisURL.Location) { self.init(code, "\(location): \(RedisError(code).reason)") }

    /// Classifies an error reply, and adds the server that sent it.
    init(reply text: [UInt8], from location: RedisURL.Location) {
        let error = text.withUnsafeBytes { RedisError(reply: $0) }
        self.init(error.code, "\(location): \(error.reason)")
    }
}
