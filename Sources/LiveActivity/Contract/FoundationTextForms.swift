/// Checks whether Foundation would decode a string as a `UUID` or as `Data`.
enum FoundationTextForms {
    /// Whether `UUID(uuidString:)` reads the text: hexadecimal digits in groups of 8, 4, 4, 4 and 12.
    static func isUUID(_ bytes: UnescapedBytes) -> Bool {
        var characterCount = 0
        for byte in bytes {
            let isHyphen = characterCount == 8 || characterCount == 13 || characterCount == 18 || characterCount == 23
            let isDigit = byte &- UInt8(ascii: "0") < 10 || (byte | 0x20) &- UInt8(ascii: "a") < 6
            guard characterCount < 36, isHyphen ? byte == UInt8(ascii: "-") : isDigit else { return false }
            characterCount &+= 1
        }
        return characterCount == 36
    }

    /// Whether `Data(base64Encoded:)` reads the text: groups of four characters, the last one filled up with `=`.
    static func isBase64(_ bytes: UnescapedBytes) -> Bool {
        var characterCount = 0
        var paddingCount = 0
        for byte in bytes {
            let letter = byte | 0x20
            let isDigit =
                letter &- UInt8(ascii: "a") < 26 || byte &- UInt8(ascii: "0") < 10 || byte == UInt8(ascii: "+")
                || byte == UInt8(ascii: "/")
            if byte == UInt8(ascii: "=") { paddingCount &+= 1 } else if !isDigit || paddingCount > 0 { return false }
            characterCount &+= 1
        }
        return characterCount & 3 == 0 && paddingCount <= 2
    }
}
