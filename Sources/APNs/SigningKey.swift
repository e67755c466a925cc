import COpenSSL
import Glibc

/// A provider's private key for ES256, in the form that Apple provides: PKCS#8 in PEM, on the curve P-256.
///
/// Only OpenSSL holds the key. The bytes of the file are erased from memory after reading.
public struct SigningKey: Sendable {
    private let key: OpenSSLKey
    /// Whether the file's mode lets every user read it (`o+r`). The worker then only logs a warning, because Apple's
    /// download and a Kubernetes secret have this mode by default.
    public let isReadableByOthers: Bool

    /// Which version of the file the key was read from. It was determined before the reading, so that
    /// ``SigningKeyFile/poll()`` also notices a change during the reading.
    let fileIdentity: FileIdentity

    /// The largest key file that is read, in bytes. Apple's key files have about 260.
    static let fileBytesMax = 16_384

    /// Reads a key file as Apple provides it (`.p8`).
    public init(path: String) throws(SigningKeyError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw SigningKeyError(path, .unreadable(errno)) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw SigningKeyError(path, .unreadable(errno)) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw SigningKeyError(path, .notRegularFile) }
        isReadableByOthers = status.st_mode & S_IROTH != 0
        fileIdentity = FileIdentity(status)
        guard status.st_size <= off_t(SigningKey.fileBytesMax) else { throw SigningKeyError(path, .tooLarge) }

        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: SigningKey.fileBytesMax, alignment: 16)
        defer {
            OPENSSL_cleanse(buffer.baseAddress, buffer.count)
            buffer.deallocate()
        }
        var readByteCount = 0
        while readByteCount < buffer.count {
            let result = read(descriptor, buffer.baseAddress.map { $0 + readByteCount }, buffer.count - readByteCount)
            if result < 0 && errno == EINTR { continue }
            guard result >= 0 else { throw SigningKeyError(path, .unreadable(errno)) }
            guard result > 0 else { break }
            readByteCount += result
        }
        do {
            key = try OpenSSLKey(pem: UnsafeRawBufferPointer(rebasing: buffer[..<readByteCount]))
        } catch {
            throw SigningKeyError(path, error)
        }
    }

    /// Signs a message. The signature has JWS form: R and S, 32 big-endian bytes each (RFC 7518, section 3.4). Returns
    /// nil if OpenSSL fails.
    func signature(of message: [UInt8]) -> [UInt8]? {
        key.signature(of: message)
    }

    /// Whether this key has signed a provider token.
    func hasSigned(_ token: String) -> Bool {
        let bytes = Array(token.utf8)
        guard let lastDotIndex = bytes.lastIndex(of: UInt8(ascii: ".")),
            let signature = Base64URL.decode(bytes[(lastDotIndex + 1)...])
        else { return false }
        return key.verifies(Array(bytes[..<lastDotIndex]), signature: signature)
    }

    /// Owns the `EVP_PKEY`. OpenSSL allows threads to share a key as long as no thread changes it.
    private final class OpenSSLKey: @unchecked Sendable {
        private let key: OpaquePointer

        init(pem: UnsafeRawBufferPointer) throws(SigningKeyError.Cause) {
            guard let bio = BIO_new_mem_buf(pem.baseAddress, Int32(pem.count)) else { throw .outOfMemory }
            defer { BIO_free(bio) }
            // Without this callback OpenSSL would ask the terminal for the passphrase of an encrypted key.
            let noPassphrase:
                @convention(c) (UnsafeMutablePointer<CChar>?, Int32, Int32, UnsafeMutableRawPointer?) ->
                    Int32 = { _, _, _, _ in -1 }
            guard let key = PEM_read_bio_PrivateKey(bio, nil, noPassphrase, nil) else {
                ERR_clear_error()
                throw .notPrivateKey
            }
            var curveName = [CChar](repeating: 0, count: 64)
            var length = 0
            let isP256 =
                EVP_PKEY_get_base_id(key) == EVP_PKEY_EC
                && EVP_PKEY_get_group_name(key, &curveName, curveName.count, &length) == 1
                && curveName.prefix(length).elementsEqual("prime256v1".utf8.map { CChar($0) })
            guard isP256 else {
                ERR_clear_error()
                EVP_PKEY_free(key)
                throw .notP256
            }
            self.key = key
        }

        deinit {
            EVP_PKEY_free(key)
        }

        func signature(of message: [UInt8]) -> [UInt8]? {
            defer { ERR_clear_error() }
            guard let context = EVP_MD_CTX_new() else { return nil }
            defer { EVP_MD_CTX_free(context) }
            guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1 else { return nil }
            // A P-256 signature in DER has at most 72 bytes.
            var der = [UInt8](repeating: 0, count: 80)
            var count = der.count
            guard EVP_DigestSign(context, &der, &count, message, message.count) == 1 else { return nil }
            return der.withUnsafeBufferPointer { bytes -> [UInt8]? in
                var start = bytes.baseAddress
                guard let ecdsaSignature = d2i_ECDSA_SIG(nil, &start, count) else { return nil }
                defer { ECDSA_SIG_free(ecdsaSignature) }
                var raw = [UInt8](repeating: 0, count: 64)
                let isWritten = raw.withUnsafeMutableBufferPointer { raw -> Bool in
                    guard let output = raw.baseAddress else { return false }
                    return BN_bn2binpad(ECDSA_SIG_get0_r(ecdsaSignature), output, 32) == 32
                        && BN_bn2binpad(ECDSA_SIG_get0_s(ecdsaSignature), output + 32, 32) == 32
                }
                return isWritten ? raw : nil
            }
        }

        /// Whether a signature in JWS form is this key's signature of the message.
        func verifies(_ message: [UInt8], signature: [UInt8]) -> Bool {
            guard signature.count == 64, let ecdsaSignature = ECDSA_SIG_new() else { return false }
            defer {
                ECDSA_SIG_free(ecdsaSignature)
                ERR_clear_error()
            }
            let isSet = signature.withUnsafeBufferPointer { bytes -> Bool in
                guard let start = bytes.baseAddress else { return false }
                let (r, s) = (BN_bin2bn(start, 32, nil), BN_bin2bn(start + 32, 32, nil))
                if ECDSA_SIG_set0(ecdsaSignature, r, s) == 1 { return true }
                BN_free(r)
                BN_free(s)
                return false
            }
            guard isSet, let context = EVP_MD_CTX_new() else { return false }
            defer { EVP_MD_CTX_free(context) }
            var derSignature: UnsafeMutablePointer<UInt8>?
            let count = i2d_ECDSA_SIG(ecdsaSignature, &derSignature)
            guard count > 0, let derSignature else { return false }
            defer { CRYPTO_free(derSignature, nil, 0) }
            return EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
                && EVP_DigestVerify(context, derSignature, Int(count), message, message.count) == 1
        }
    }
}

/// Why a key file cannot be used.
public struct SigningKeyError: Error, Sendable, Hashable, CustomStringConvertible {
    public enum Cause: Error, Sendable, Hashable {
        case unreadable(Int32)
        case notRegularFile
        case tooLarge
        case notPrivateKey
        case notP256
        case outOfMemory
    }

    public var path: String
    public var cause: Cause

    init(_ path: String, _ cause: Cause) {
        self.path = path
        self.cause = cause
    }

    public var description: String {
        switch cause {
        case .unreadable(let code): "\(path): \(String(cString: strerror(code)))"
        case .notRegularFile: "\(path): not a regular file"
        case .tooLarge: "\(path): larger than \(SigningKey.fileBytesMax) bytes, so not a key file"
        case .notPrivateKey: "\(path): not an unencrypted private key in PEM"
        case .notP256: "\(path): not an elliptic curve key on P-256 (prime256v1), which ES256 needs"
        case .outOfMemory: "\(path): out of memory"
        }
    }
}
