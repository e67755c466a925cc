import COpenSSL
import Glibc

/// Signs provider tokens for tests.
struct ProviderTokenSigner {
    var teamId = "TEAM123456"
    var keyId = "KEY1234567"
    var p8: String

    func token(
        issuedAt: Int? = nil,
        algorithm: String = "ES256",
        keyId: String? = nil,
        teamId: String? = nil,
        claims: String? = nil
    ) -> String {
        let header = "{\"alg\":\"\(algorithm)\",\"kid\":\"\(keyId ?? self.keyId)\"}"
        let issued = issuedAt ?? time(nil)
        let claims = claims ?? "{\"iss\":\"\(teamId ?? self.teamId)\",\"iat\":\(issued)}"
        let signedText = base64URL(Array(header.utf8)) + "." + base64URL(Array(claims.utf8))
        return signedText + "." + base64URL(signature(of: Array(signedText.utf8)))
    }

    private func signature(of text: [UInt8]) -> [UInt8] {
        let pem = Array(p8.utf8)
        let bio = BIO_new_mem_buf(pem, Int32(pem.count))
        let key = PEM_read_bio_PrivateKey(bio, nil, nil, nil)
        let context = EVP_MD_CTX_new()
        defer {
            EVP_MD_CTX_free(context)
            EVP_PKEY_free(key)
            BIO_free(bio)
        }
        EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key)
        var length = 128
        var der = [UInt8](repeating: 0, count: length)
        EVP_DigestSign(context, &der, &length, text, text.count)
        return der.withUnsafeBufferPointer { bytes in
            var start = bytes.baseAddress
            let decodedSignature = d2i_ECDSA_SIG(nil, &start, length)
            defer { ECDSA_SIG_free(decodedSignature) }
            var rawSignature = [UInt8](repeating: 0, count: 64)
            rawSignature.withUnsafeMutableBufferPointer { rawSignature in
                _ = BN_bn2binpad(ECDSA_SIG_get0_r(decodedSignature), rawSignature.baseAddress, 32)
                _ = BN_bn2binpad(ECDSA_SIG_get0_s(decodedSignature), rawSignature.baseAddress.map { $0 + 32 }, 32)
            }
            return rawSignature
        }
    }
}

func base64URL(_ bytes: [UInt8]) -> String {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    var text: [UInt8] = []
    for start in stride(from: 0, to: bytes.count, by: 3) {
        let group = bytes[start..<min(start + 3, bytes.count)]
        let bits = (0..<3).reduce(UInt32(0)) { $0 << 8 | ($1 < group.count ? UInt32(group[start + $1]) : 0) }
        for index in 0...group.count { text.append(alphabet[Int(bits >> UInt32(18 - index * 6) & 63)]) }
    }
    return String(decoding: text, as: UTF8.self)
}
