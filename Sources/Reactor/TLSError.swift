import COpenSSL

/// Why a certificate, a key or another TLS setting cannot be used.
public struct TLSError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Code: Sendable, Equatable {
        /// The file of certificate authorities cannot be read or has no certificate, or the system's authorities cannot
        /// be used.
        case authoritiesUnusable
        /// The certificate chain (PEM) cannot be read, or OpenSSL refuses it.
        case certificateUnusable
        /// The private key cannot be read or does not belong to the certificate.
        case privateKeyUnusable
        /// The list of application protocols is not valid: a name does not have 1 to 255 bytes (RFC 7301), or all names
        /// with their lengths have more than 65,535 bytes.
        case applicationProtocolsInvalid
        /// The name of the server, or of a certificate's host, is missing or invalid.
        case serverNameInvalid
        /// A file or its directory cannot be written.
        case fileNotWritten
        /// OpenSSL failed for a reason that no other case describes.
        case openSSLFailed
    }

    public var code: Code
    /// The file or value that cannot be used, and why.
    public var reason: String

    public var description: String { reason }

    init(code: Code, reason: String) {
        self.code = code
        self.reason = reason
    }

    /// Creates an error whose `reason` names the subject and OpenSSL's reasons. Removes these reasons from OpenSSL's
    /// error queue of the thread.
    init(code: Code, subject: String) {
        self.init(code: code, reason: "\(subject): \(takeOpenSSLReason())")
    }
}

/// Removes all errors from OpenSSL's queue of this thread, and returns their reasons as one text, the original cause
/// first. Names each reason once. Returns `no reason given` if the queue is empty.
func takeOpenSSLReason() -> String {
    var reasons: [String] = []
    // The queue has at most 16 errors (ERR_NUM_ERRORS).
    for _ in 0..<16 {
        let code = ERR_get_error()
        guard code != 0 else { break }
        let reason = ERR_reason_error_string(code).map { String(cString: $0) } ?? "error \(code)"
        if !reasons.contains(reason) { reasons.append(reason) }
    }
    return reasons.isEmpty ? "no reason given" : reasons.joined(separator: "; ")
}
