import COpenSSL
import Glibc

/// A self-signed client certificate. A server that trusts it accepts the client.
enum ClientCertificate {
    struct Failure: Error {}

    /// Writes `client.pem` and `client-key.pem`.
    static func write(directory: String) throws -> (certificateFile: String, keyFile: String) {
        guard let key = COpenSSL_EVP_EC_gen("P-256"), let certificate = X509_new() else { throw Failure() }
        defer {
            X509_free(certificate)
            EVP_PKEY_free(key)
        }
        let name = X509_get_subject_name(certificate)
        guard X509_set_version(certificate, Int(X509_VERSION_3)) == 1,
            ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), 1) == 1,
            X509_gmtime_adj(X509_getm_notBefore(certificate), -86_400) != nil,
            X509_gmtime_adj(X509_getm_notAfter(certificate), 86_400) != nil,
            X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, "client", -1, -1, 0) == 1,
            X509_set_issuer_name(certificate, name) == 1,
            X509_set_pubkey(certificate, key) == 1,
            X509_sign(certificate, key, EVP_sha256()) > 0
        else { throw Failure() }
        let files = (certificateFile: "\(directory)/client.pem", keyFile: "\(directory)/client-key.pem")
        try write(files.certificateFile) { PEM_write_bio_X509($0, certificate) }
        try write(files.keyFile) { PEM_write_bio_PrivateKey($0, key, nil, nil, 0, nil, nil) }
        return files
    }

    private static func write(_ path: String, _ body: (OpaquePointer) -> Int32) throws {
        guard let file = BIO_new_file(path, "w") else { throw Failure() }
        defer { BIO_free(file) }
        guard body(file) == 1 else { throw Failure() }
    }
}
