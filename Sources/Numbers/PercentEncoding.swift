/// Decodes the percent-encoding of a URL (RFC 3986, section 2.1).
public enum PercentEncoding {
    /// Returns the decoded text; nil if a percent sign is not followed by two hexadecimal digits, or if the decoded
    /// bytes are not UTF-8.
    public static func decode(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(Hexadecimal.digitValue),
                let low = rest.popFirst().flatMap(Hexadecimal.digitValue)
            else { return nil }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
