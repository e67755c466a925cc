import COpenSSL
import Glibc

/// Creates a certificate authority and a server certificate that this authority signs, for the simulator and for tests.
///
/// The keys are P-256. The authority's key is not written to a file, so nothing can issue a further certificate of this
/// authority.
public enum GeneratedCertificate {
    private static let validDays = 825
    /// Both certificates are valid from one day ago, because the clock of a peer may be behind.
    private static let backdatedDays = 1

    /// Writes `ca.pem`, `server.pem` and `server-key.pem`, and replaces existing files.
    ///
    /// - Parameters:
    ///   - directory: created with mode 0700 if it does not exist; its parent must exist.
    ///   - hosts: the names and numeric addresses in the certificate, at least one.
    public static func write(
        directory: String,
        hosts: [String]
    ) throws(TLSError) -> (caFile: String, certificateFile: String, keyFile: String) {
        guard mkdir(directory, 0o700) == 0 || errno == EEXIST else {
            throw TLSError(code: .fileNotWritten, reason: "\(directory): \(systemErrorText(errno))")
        }
        let alternativeNames = try makeAlternativeNames(hosts)
        // Each authority has its own name, so that a client that trusts several authorities can distinguish them.
        let authorityName = "Causeway test authority \(String(UInt64.random(in: .min ... .max), radix: 16))"
        let authority = try Certificate(commonName: authorityName, issuer: nil) { certificate throws(TLSError) in
            try certificate.addExtension(NID_basic_constraints, "critical,CA:TRUE,pathlen:0")
            try certificate.addExtension(NID_key_usage, "critical,keyCertSign,cRLSign")
        }
        let serverCertificate = try Certificate(commonName: "Causeway test server", issuer: authority) {
            certificate throws(TLSError) in
            try certificate.addExtension(NID_basic_constraints, "critical,CA:FALSE")
            try certificate.addExtension(NID_key_usage, "critical,digitalSignature")
            try certificate.addExtension(NID_ext_key_usage, "serverAuth")
            try certificate.addExtension(NID_subject_alt_name, alternativeNames)
        }
        let files = (
            caFile: "\(directory)/ca.pem", certificateFile: "\(directory)/server.pem",
            keyFile: "\(directory)/server-key.pem"
        )
        try writeFile(files.caFile, mode: 0o644, try authority.makeCertificatePEM())
        try writeFile(files.certificateFile, mode: 0o644, try serverCertificate.makeCertificatePEM())
        try writeFile(files.keyFile, mode: 0o600, try serverCertificate.makeKeyPEM())
        return files
    }

    /// Returns the value of the extension for subject alternative names. Throws if a host has other characters than
    /// those of host names and `*`, because a comma, for example, would begin a further entry of the value.
    private static func makeAlternativeNames(_ hosts: [String]) throws(TLSError) -> String {
        guard !hosts.isEmpty else {
            throw TLSError(code: .serverNameInvalid, reason: "a certificate needs at least one host")
        }
        var names: [String] = []
        for host in hosts {
            if let address = SocketAddress(numeric: host, port: 0) {
                names.append("IP:\(address.host)")
                continue
            }
            let isName = host.utf8.allSatisfy { byte in
                switch UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20 {
                case true: true
                case false: (UInt8(ascii: "0")...UInt8(ascii: "9")) ~= byte || "-._*".utf8.contains(byte)
                }
            }
            guard isName, !host.isEmpty, host.utf8.count <= 253 else {
                throw TLSError(code: .serverNameInvalid, reason: "\"\(host)\" is not a host name or numeric address")
            }
            names.append("DNS:\(host)")
        }
        return names.joined(separator: ",")
    }

    /// Writes a temporary file and renames it, so that no reader sees an incomplete file.
    private static func writeFile(_ path: String, mode: mode_t, _ content: [UInt8]) throws(TLSError) {
        let temporaryPath = "\(path).new"
        unlink(temporaryPath)
        let descriptor = open(temporaryPath, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
        guard descriptor >= 0 else {
            throw TLSError(code: .fileNotWritten, reason: "\(temporaryPath): \(systemErrorText(errno))")
        }
        let writtenBytes = Glibc.write(descriptor, content, content.count)
        let error = errno
        Glibc.close(descriptor)
        guard writtenBytes == content.count else {
            unlink(temporaryPath)
            throw TLSError(
                code: .fileNotWritten,
                reason: "\(temporaryPath): \(writtenBytes < 0 ? systemErrorText(error) : "short write")"
            )
        }
        guard rename(temporaryPath, path) == 0 else {
            throw TLSError(code: .fileNotWritten, reason: "\(path): \(systemErrorText(errno))")
        }
    }

    /// A certificate with its key. The certificate is complete when `init` has signed it.
    private final class Certificate {
        private let certificate: OpaquePointer
        private let key: OpaquePointer
        /// The issuer's certificate; the certificate itself if it is self-signed.
        private let issuerCertificate: OpaquePointer

        /// - Parameter extend: adds the extensions. It is called before the certificate is signed.
        init(
            commonName: String,
            issuer: Certificate?,
            extend: (Certificate) throws(TLSError) -> Void
        ) throws(TLSError) {
            ERR_clear_error()
            guard let key = COpenSSL_EVP_EC_gen("P-256") else {
                throw TLSError(code: .openSSLFailed, subject: "EVP_EC_gen")
            }
            guard let certificate = X509_new() else {
                EVP_PKEY_free(key)
                throw TLSError(code: .openSSLFailed, subject: "X509_new")
            }
            self.key = key
            self.certificate = certificate
            issuerCertificate = issuer?.certificate ?? certificate
            try setFields(commonName: commonName)
            try extend(self)
            // `X509_sign` returns the signature's length, not 1, for success.
            guard X509_sign(certificate, issuer?.key ?? key, EVP_sha256()) > 0 else {
                throw TLSError(code: .openSSLFailed, subject: "X509_sign")
            }
        }

        deinit {
            X509_free(certificate)
            EVP_PKEY_free(key)
        }

        private func setFields(commonName: String) throws(TLSError) {
            let secondsPerDay = 86_400
            // A serial number must be positive (RFC 5280, section 4.1.2.2). 63 random bits are enough.
            let serial = UInt64.random(in: 1...UInt64(Int64.max))
            let hasSetAllFields =
                X509_set_version(certificate, Int(X509_VERSION_3)) == 1
                && ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial) == 1
                && X509_gmtime_adj(X509_getm_notBefore(certificate), -backdatedDays * secondsPerDay) != nil
                && X509_gmtime_adj(X509_getm_notAfter(certificate), validDays * secondsPerDay) != nil
                && X509_set_pubkey(certificate, key) == 1
                && X509_NAME_add_entry_by_txt(
                    X509_get_subject_name(certificate),
                    "CN",
                    MBSTRING_UTF8,
                    commonName,
                    -1,
                    -1,
                    0
                ) == 1
                && X509_set_issuer_name(certificate, X509_get_subject_name(issuerCertificate)) == 1
            guard hasSetAllFields else { throw TLSError(code: .openSSLFailed, subject: "the certificate's fields") }
        }

        func addExtension(_ identifier: Int32, _ value: String) throws(TLSError) {
            var context = X509V3_CTX()
            X509V3_set_ctx(&context, issuerCertificate, certificate, nil, nil, 0)
            guard let certificateExtension = X509V3_EXT_nconf_nid(nil, &context, identifier, value) else {
                throw TLSError(code: .openSSLFailed, subject: "certificate extension \(value)")
            }
            defer { X509_EXTENSION_free(certificateExtension) }
            guard X509_add_ext(certificate, certificateExtension, -1) == 1 else {
                throw TLSError(code: .openSSLFailed, subject: "certificate extension \(value)")
            }
        }

        func makeCertificatePEM() throws(TLSError) -> [UInt8] {
            try makePEM { PEM_write_bio_X509($0, certificate) }
        }

        func makeKeyPEM() throws(TLSError) -> [UInt8] {
            try makePEM { PEM_write_bio_PrivateKey($0, key, nil, nil, 0, nil, nil) }
        }

        private func makePEM(_ write: (OpaquePointer) -> Int32) throws(TLSError) -> [UInt8] {
            guard let memory = BIO_new(BIO_s_mem()) else { throw TLSError(code: .openSSLFailed, subject: "BIO_new") }
            defer { BIO_free(memory) }
            guard write(memory) == 1 else { throw TLSError(code: .openSSLFailed, subject: "PEM") }
            var content: UnsafeMutablePointer<CChar>?
            let count = COpenSSL_BIO_get_mem_data(memory, &content)
            return [UInt8](UnsafeRawBufferPointer(start: content, count: max(0, count)))
        }
    }
}
