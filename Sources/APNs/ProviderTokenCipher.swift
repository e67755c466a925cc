import COpenSSL
import Glibc

/// Encrypts provider tokens before they are written to Redis, because other programs may read Redis.
///
/// The cipher is AES-256-GCM (NIST SP 800-38D), with a random nonce of 12 bytes before the text and the tag of 16 bytes
/// after it. The tag also covers a name, which the caller chooses for each team and key: bytes that were sealed for one
/// name do not decrypt under another name.
public struct ProviderTokenCipher: Sendable {
    static let keyByteCount = 32
    static let nonceByteCount = 12
    static let tagByteCount = 16
    /// The longest text that is sealed or opened. Provider tokens are much shorter.
    static let textBytesMax = 4_096

    private let key: [UInt8]

    /// Reads a key file: 32 bytes, or their Base64 on one line.
    ///
    /// - Throws: ``InvalidSettingError`` that names the file.
    public init(keyFile: String) throws(InvalidSettingError) {
        let requirement = "must hold 32 bytes, or their Base64 (openssl rand -base64 32)"
        let descriptor = Glibc.open(keyFile, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw InvalidSettingError(setting: keyFile, detail: String(cString: strerror(errno)))
        }
        defer { close(descriptor) }
        var contents = [UInt8](repeating: 0, count: 128)
        let count = Glibc.read(descriptor, &contents, contents.count)
        guard count > 0 else { throw InvalidSettingError(setting: keyFile, detail: requirement) }
        contents.removeLast(contents.count - count)
        if contents.count == Self.keyByteCount {
            key = contents
            return
        }
        while let last = contents.last, last == UInt8(ascii: "\n") || last == UInt8(ascii: "\r") {
            contents.removeLast()
        }
        var decoded = [UInt8](repeating: 0, count: 96)
        // OpenSSL decodes 44 digits with one padding digit to 33 bytes. The last of these bytes is only
        // padding.
        guard contents.count == 44, contents.last == UInt8(ascii: "="), contents[42] != UInt8(ascii: "="),
            EVP_DecodeBlock(&decoded, contents, 44) == 33
        else { throw InvalidSettingError(setting: keyFile, detail: requirement) }
        key = Array(decoded.prefix(Self.keyByteCount))
    }

    /// Encrypts a text; nil if the text is too long or OpenSSL fails.
    public func seal(_ text: String, name: String) -> [UInt8]? {
        defer { ERR_clear_error() }
        let plaintext = Array(text.utf8)
        var nonce = [UInt8](repeating: 0, count: Self.nonceByteCount)
        guard plaintext.count <= Self.textBytesMax, RAND_bytes(&nonce, Int32(nonce.count)) == 1,
            let context = EVP_CIPHER_CTX_new()
        else { return nil }
        defer { EVP_CIPHER_CTX_free(context) }
        let associatedData = Array(name.utf8)
        var ciphertext = [UInt8](repeating: 0, count: plaintext.count)
        var tag = [UInt8](repeating: 0, count: Self.tagByteCount)
        var (count, finalCount): (Int32, Int32) = (0, 0)
        guard EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), nil, key, nonce) == 1,
            EVP_EncryptUpdate(context, nil, &count, associatedData, Int32(associatedData.count)) == 1,
            EVP_EncryptUpdate(context, &ciphertext, &count, plaintext, Int32(plaintext.count)) == 1,
            EVP_EncryptFinal_ex(context, &tag, &finalCount) == 1,
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(Self.tagByteCount), &tag) == 1
        else { return nil }
        return nonce + ciphertext + tag
    }

    /// Decrypts a sealed text; nil if ``seal(_:name:)`` did not make the bytes with this key and this name, or OpenSSL
    /// fails.
    public func open(_ bytes: [UInt8], name: String) -> String? {
        defer { ERR_clear_error() }
        let count = bytes.count - Self.nonceByteCount - Self.tagByteCount
        guard (0...Self.textBytesMax).contains(count), let context = EVP_CIPHER_CTX_new() else { return nil }
        defer { EVP_CIPHER_CTX_free(context) }
        let nonce = Array(bytes.prefix(Self.nonceByteCount))
        let ciphertext = Array(bytes.dropFirst(Self.nonceByteCount).prefix(count))
        var tag = Array(bytes.suffix(Self.tagByteCount))
        let associatedData = Array(name.utf8)
        var plaintext = [UInt8](repeating: 0, count: count + Self.tagByteCount)
        var (decryptedBytes, finalCount): (Int32, Int32) = (0, 0)
        guard EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), nil, key, nonce) == 1,
            EVP_DecryptUpdate(context, nil, &decryptedBytes, associatedData, Int32(associatedData.count)) == 1,
            EVP_DecryptUpdate(context, &plaintext, &decryptedBytes, ciphertext, Int32(count)) == 1,
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(Self.tagByteCount), &tag) == 1
        else { return nil }
        var rest = [UInt8](repeating: 0, count: Self.tagByteCount)
        guard EVP_DecryptFinal_ex(context, &rest, &finalCount) == 1 else { return nil }
        return String(validating: plaintext.prefix(Int(decryptedBytes)), as: UTF8.self)
    }
}
