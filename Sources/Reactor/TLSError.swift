import COpenSSL

/// A certificate, key or other TLS setting that cannot be used.
public struct TLSError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Code: Sendable, Equatable {
        /// The file of certificate authorities cannot be read or has no certificate.
        case authorities
        /// The certificate chain cannot be read or is refused.
        case certificate
        /// The private key cannot be read or does not belong to the certificate.
        case privateKey
        /// The list of application protocols is not valid (RFC 7301: 1 to 255 bytes each).
        case applicationProtocols
        /// The server's name is missing or invalid.
        case serverName
        /// A file cannot be written.
        case file
        /// OpenSSL failed for another reason.
        case library
    }

    public var code: Code
    /// The file or value, and why it cannot be used.
    public var reason: String

    public var description: String { reason }

    init(code: Code, reason: String) {
        self.code = code
        self.reason = reason
    }

    /// Adds OpenSSL's reasons, which are taken from the thread's error queue.
    init(code: Code, subject: String) {
        self.init(code: code, reason: "\(subject): \(takeOpenSSLReason())")
    }
}

/// Empties OpenSSL's error queue of this thread into one text, the original cause first.
func takeOpenSSLReason() -> String {
    var reasons: [String] = []
    // The queue holds 16 entries (ERR_NUM_ERRORS).
    for _ in 0..<16 {
        let code = ERR_get_error()
        guard code != 0 else { break }
        let reason = ERR_reason_error_string(code).map { String(cString: $0) } ?? "error \(code)"
        if !reasons.contains(reason) { reasons.append(reason) }
    }
    return reasons.isEmpty ? "no reason given" : reasons.joined(separator: "; ")
}
