/// Encodes bytes as base64 with padding (RFC 4648, section 4).
enum Base64 {
    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    static func text(of bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = (0..<3).map { start + $0 < bytes.count ? UInt32(bytes[start + $0]) : 0 }
            let bits = group[0] << 16 | group[1] << 8 | group[2]
            for digitIndex in 0..<4 {
                let isPadding = start + digitIndex > bytes.count
                text.append(isPadding ? UInt8(ascii: "=") : digits[Int(bits >> UInt32(18 - 6 * digitIndex) & 63)])
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}
