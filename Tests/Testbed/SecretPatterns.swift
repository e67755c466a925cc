/// The forms of secrets that our programs must not write into logs, pages or results.
public enum SecretPatterns {
    /// The minimum number of hexadecimal digits of a device token, which has at least 32 bytes.
    private static let tokenDigitsMin = 64

    /// Returns the kinds of secrets in a text. A provider token is a JSON Web Token, a key is a PEM file, and a device
    /// token is a long run of hexadecimal digits.
    public static func findings(in text: String) -> [String] {
        var findings: [String] = []
        if text.contains("eyJ"), text.contains(/eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}/) {
            findings.append("a provider token")
        }
        if text.contains("PRIVATE KEY") { findings.append("a private key") }
        if hasLongHexadecimalRun(text) { findings.append("what looks like a device token") }
        return findings
    }

    private static func hasLongHexadecimalRun(_ text: String) -> Bool {
        var digitCount = 0
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
                UInt8(ascii: "A")...UInt8(ascii: "F"):
                digitCount += 1
                if digitCount == tokenDigitsMin { return true }
            default: digitCount = 0
            }
        }
        return false
    }
}
