import COpenSSL
import Glibc

/// Why a signing key could not be created or read.
public struct ProviderKeyError: Error, Sendable, Equatable, CustomStringConvertible {
    public var reason: String
    public var description: String { reason }
}

/// Signing keys in Apple's form: P-256, in a `.p8` file (PKCS #8, PEM).
public enum ProviderKey {
    /// Creates a key for demonstrations and tests, and returns the text of its `.p8` file.
    public static func makeP8() throws(ProviderKeyError) -> String {
        guard let context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil) else { throw makeError("EVP_PKEY_CTX_new_id") }
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1, EVP_PKEY_CTX_set_group_name(context, "P-256") == 1,
            EVP_PKEY_keygen(context, &key) == 1, let key
        else { throw makeError("EVP_PKEY_keygen") }
        defer { EVP_PKEY_free(key) }
        guard let bio = BIO_new(BIO_s_mem()) else { throw makeError("BIO_new") }
        defer { BIO_free(bio) }
        guard PEM_write_bio_PKCS8PrivateKey(bio, key, nil, nil, 0, nil, nil) == 1 else {
            throw makeError("PEM_write_bio_PKCS8PrivateKey")
        }
        var bytes: UnsafeMutablePointer<CChar>?
        let count = COpenSSL_BIO_get_mem_data(bio, &bytes)
        guard let bytes, count > 0 else { throw makeError("BIO_get_mem_data") }
        return String(decoding: UnsafeRawBufferPointer(start: bytes, count: count), as: UTF8.self)
    }

    private static func makeError(_ operation: String) -> ProviderKeyError {
        ProviderKeyError(reason: "\(operation) failed")
    }
}

/// The public half of a signing key. It verifies provider tokens.
final class VerifyingKey {
    let keyId: String
    let teamId: String
    /// The environment in which the key is valid; nil: both environments.
    let environment: Environment?
    private let key: OpaquePointer

    /// - Parameter pem: the PEM text of a public key, or of the private key in a `.p8` file.
    init(pem: String, keyId: String, teamId: String, environment: Environment?) throws(ProviderKeyError) {
        self.keyId = keyId
        self.teamId = teamId
        self.environment = environment
        var pem = pem
        let publicKey = pem.withUTF8 { bytes -> OpaquePointer? in
            Self.read(bytes) { PEM_read_bio_PUBKEY($0, nil, nil, nil) }
                ?? Self.read(bytes) { PEM_read_bio_PrivateKey($0, nil, nil, nil) }
        }
        guard let publicKey else {
            throw ProviderKeyError(reason: "key \(keyId): neither a public key nor a .p8")
        }
        guard EVP_PKEY_get_base_id(publicKey) == EVP_PKEY_EC, EVP_PKEY_get_bits(publicKey) == 256 else {
            EVP_PKEY_free(publicKey)
            throw ProviderKeyError(reason: "key \(keyId): not a P-256 key")
        }
        key = publicKey
    }

    deinit {
        EVP_PKEY_free(key)
    }

    private static func read(
        _ bytes: UnsafeBufferPointer<UInt8>,
        _ reader: (OpaquePointer) -> OpaquePointer?
    ) -> OpaquePointer? {
        guard let count = Int32(exactly: bytes.count), let bio = BIO_new_mem_buf(bytes.baseAddress, count) else {
            return nil
        }
        defer {
            BIO_free(bio)
            ERR_clear_error()
        }
        return reader(bio)
    }

    /// Whether the signature is this key's ES256 signature of the text: R and S, 32 bytes each (RFC 7518 §3.4).
    func verifies(_ text: UnsafeRawBufferPointer, signature: [UInt8]) -> Bool {
        guard signature.count == 64, let signatureParts = ECDSA_SIG_new() else { return false }
        defer { ECDSA_SIG_free(signatureParts) }
        let isSet = signature.withUnsafeBufferPointer { bytes -> Bool in
            guard let start = bytes.baseAddress else { return false }
            let (r, s) = (BN_bin2bn(start, 32, nil), BN_bin2bn(start + 32, 32, nil))
            if ECDSA_SIG_set0(signatureParts, r, s) == 1 { return true }
            BN_free(r)
            BN_free(s)
            return false
        }
        guard isSet else { return false }
        var derSignature: UnsafeMutablePointer<UInt8>?
        let length = i2d_ECDSA_SIG(signatureParts, &derSignature)
        guard length > 0, let derSignature else { return false }
        defer { CRYPTO_free(derSignature, nil, 0) }
        guard let context = EVP_MD_CTX_new() else { return false }
        defer {
            EVP_MD_CTX_free(context)
            ERR_clear_error()
        }
        return EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
            && EVP_DigestVerify(
                context,
                derSignature,
                Int(length),
                text.bindMemory(to: UInt8.self).baseAddress,
                text.count
            ) == 1
    }
}
