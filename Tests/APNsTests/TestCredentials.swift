import APNs
import COpenSSL
import Glibc
import Reactor
import Testbed
import Testing

/// Certificates and keys that all tests share, created once.
enum TestCredentials {
    struct Files {
        /// The directory of the files. It lives as long as the process.
        var temporaryDirectory: TemporaryDirectory
        var caFile: String
        var certificateFile: String
        var keyFile: String
        var signingKeyFile: String

        var directory: String { temporaryDirectory.path }
    }

    static let files: Result<Files, any Error> = Result { try make() }

    private static func make() throws -> Files {
        let directory = try TemporaryDirectory()
        let certificate = try GeneratedCertificate.write(
            directory: directory.path("tls"),
            hosts: ["localhost", "127.0.0.1", "::1"]
        )
        let keyFile = directory.path("AuthKey.p8")
        try writeFile(keyFile, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        return Files(
            temporaryDirectory: directory,
            caFile: certificate.caFile,
            certificateFile: certificate.certificateFile,
            keyFile: certificate.keyFile,
            signingKeyFile: keyFile
        )
    }

    static func keyPath(_ name: String) -> String { ((try? files.get().directory) ?? "/tmp") + "/" + name }

    static func makeTokenSource() throws -> ProviderTokenSource {
        try ProviderTokenSource(
            key: SigningKey(path: files.get().signingKeyFile),
            keyId: "ABC123DEFG",
            teamId: "DEF123GHIJ"
        )
    }
}

func writeFile(_ path: String, _ text: String, mode: mode_t) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)
    guard descriptor >= 0 else { throw SystemError(code: errno, operation: "open") }
    defer { close(descriptor) }
    fchmod(descriptor, mode)
    let bytes = Array(text.utf8)
    guard write(descriptor, bytes, bytes.count) == bytes.count else {
        throw SystemError(code: errno, operation: "write")
    }
}

/// Returns a new private key on a curve, as PKCS#8 in PEM.
func privateKeyPEM(curve: Int32) throws -> String {
    let context = try #require(EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil))
    defer { EVP_PKEY_CTX_free(context) }
    var key: OpaquePointer?
    try #require(EVP_PKEY_keygen_init(context) == 1)
    try #require(EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, curve) == 1)
    try #require(EVP_PKEY_keygen(context, &key) == 1)
    defer { EVP_PKEY_free(key) }
    return try pem { PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) }
}

func pem(_ write: (OpaquePointer) -> Int32) throws -> String {
    let bio = try #require(BIO_new(BIO_s_mem()))
    defer { BIO_free(bio) }
    try #require(write(bio) == 1)
    var data: UnsafeMutablePointer<CChar>?
    let count = COpenSSL_BIO_get_mem_data(bio, &data)
    return String(decoding: UnsafeRawBufferPointer(start: data, count: Int(count)), as: UTF8.self)
}
