import COpenSSL
import Testbed
import Testing

@testable import APNs

@Suite(.ownThread) struct ProviderTokenSignatureTests {
    @Test func `A token is signed as Apple requires`() throws {
        let source = try TestCredentials.makeTokenSource()
        let token = try #require(source.provideToken(unixSeconds: 1_790_000_000))
        let value = String(decoding: token.headerValue, as: UTF8.self)
        #expect(value.hasPrefix("bearer "))
        let parts = value.dropFirst(7).split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        try #require(parts.count == 3)
        #expect(text(try decode(parts[0])) == #"{"alg":"ES256","kid":"ABC123DEFG"}"#)
        #expect(text(try decode(parts[1])) == #"{"iss":"DEF123GHIJ","iat":1790000000}"#)
        let signature = try decode(parts[2])
        #expect(signature.count == 64)
        #expect(try isVerified(Array("\(parts[0]).\(parts[1])".utf8), signature: signature))
        #expect(try !isVerified(Array("\(parts[0]).\(parts[1])x".utf8), signature: signature))
        #expect(!value.contains("=") && !value.contains("+") && !value.contains("/"))
    }

    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    private func decode(_ text: String) throws -> [UInt8] {
        var bits: UInt32 = 0
        var bitCount = 0
        var bytes: [UInt8] = []
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        for byte in text.utf8 {
            let digit = try #require(alphabet.firstIndex(of: byte))
            bits = bits << 6 | UInt32(digit)
            bitCount += 6
            if bitCount >= 8 {
                bitCount -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(bitCount)))
            }
        }
        return bytes
    }

    /// Verifies a signature with OpenSSL, which gets only the public key.
    private func isVerified(_ message: [UInt8], signature: [UInt8]) throws -> Bool {
        let bio = try #require(BIO_new_file(TestCredentials.files.get().signingKeyFile, "r"))
        defer { BIO_free(bio) }
        let pair = try #require(PEM_read_bio_PrivateKey(bio, nil, nil, nil))
        defer { EVP_PKEY_free(pair) }
        let publicKeyPEM = try pem { PEM_write_bio_PUBKEY($0, pair) }
        let publicBio = try #require(BIO_new(BIO_s_mem()))
        defer { BIO_free(publicBio) }
        try #require(BIO_puts(publicBio, publicKeyPEM) > 0)
        let key = try #require(PEM_read_bio_PUBKEY(publicBio, nil, nil, nil))
        defer { EVP_PKEY_free(key) }

        let decoded = try #require(ECDSA_SIG_new())
        defer { ECDSA_SIG_free(decoded) }
        let r = BN_bin2bn(Array(signature.prefix(32)), 32, nil)
        let s = BN_bin2bn(Array(signature.suffix(32)), 32, nil)
        try #require(ECDSA_SIG_set0(decoded, r, s) == 1)
        var der: UnsafeMutablePointer<UInt8>?
        let count = i2d_ECDSA_SIG(decoded, &der)
        defer { CRYPTO_free(der, nil, 0) }
        let context = try #require(EVP_MD_CTX_new())
        defer { EVP_MD_CTX_free(context) }
        try #require(EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1)
        return EVP_DigestVerify(context, der, Int(count), message, message.count) == 1
    }
}
