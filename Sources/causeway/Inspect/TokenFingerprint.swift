import COpenSSL
import Numbers

/// A text that reports show instead of a token. It is a part of the token's hash, so nobody can send a push with it.
/// With 48 bits, two tokens practically never have the same text.
enum TokenFingerprint {
    /// The number of hexadecimal digits of the hash that are shown.
    static let digitCount = 12

    /// Returns the beginning of the token's SHA-256, as printed by `printf %s TOKEN | sha256sum`.
    static func text(of token: some Collection<UInt8>) -> String {
        let bytes = Array(token)
        var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var digestBytes: UInt32 = 0
        guard EVP_Digest(bytes, bytes.count, &digest, &digestBytes, EVP_sha256(), nil) == 1 else {
            return "not available"
        }
        return digest.prefix(digitCount / 2).withUnsafeBytes { Hexadecimal.text($0) }
    }
}
