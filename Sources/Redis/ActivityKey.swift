/// How an activity's key is made.
///
/// A key is `{app=activity}`. Where an activity is named by a UUID, as ActivityKit names it, the thirty-six characters stand as
/// sixteen bytes, behind a sign that says how they were written: `{app#…}` in lower-case letters, `{app$…}` in upper-case ones; one of
/// mixed letters stands as it is. Redis goes over a key's bytes some ten times for one admission, and keeps an argument of up to 44
/// bytes in one piece of memory, which is the larger part of what this saves.
public enum ActivityKey {
    static let lowercaseUUID = UInt8(ascii: "#")
    static let uppercaseUUID = UInt8(ascii: "$")
    static let uuidBytes = 16
    static let uuidDigits = 36
    /// Before which of its bytes a UUID's text has a hyphen.
    private static func hasHyphen(before byte: Int) -> Bool { byte == 4 || byte == 6 || byte == 8 || byte == 10 }

    /// The whole key.
    public static func stored(app: [UInt8], activity: [UInt8]) -> [UInt8] {
        app.withUnsafeBytes { app in
            activity.withUnsafeBytes { activity in
                HashKey(app: app, kind: .activity, identifier: activity)
                    .withStoredIdentifier { sign, identifier in
                        [UInt8(ascii: "{")] + app + [sign] + identifier + [UInt8(ascii: "}")]
                    }
            }
        }
    }

    /// A glob pattern for the keys of all activities of an app. A bundle identifier has none of a pattern's special characters.
    public static func pattern(app: String) -> String { "{\(app)[=#$]*}" }

    /// The activity of a key that matches the pattern.
    public static func activity(ofKey key: [UInt8], app: [UInt8]) -> [UInt8] {
        let rest = key.dropFirst(app.count + 1)
        let identifier = Array(rest.dropFirst().dropLast())
        let letter: UInt8
        switch rest.first {
        case lowercaseUUID where identifier.count == uuidBytes: letter = UInt8(ascii: "a")
        case uppercaseUUID where identifier.count == uuidBytes: letter = UInt8(ascii: "A")
        default: return identifier
        }
        var text: [UInt8] = []
        for (index, byte) in identifier.enumerated() {
            if hasHyphen(before: index) { text.append(UInt8(ascii: "-")) }
            for digit in [byte >> 4, byte & 15] {
                text.append(digit < 10 ? UInt8(ascii: "0") + digit : letter + (digit - 10))
            }
        }
        return text
    }

    /// Writes a UUID's sixteen bytes.
    ///
    /// - Returns: its sign; nil, with some of the destination overwritten, if the text is none, or one of mixed letters.
    static func pack(_ text: UnsafeRawBufferPointer, to destination: UnsafeMutableRawPointer) -> UInt8? {
        guard text.count == uuidDigits else { return nil }
        var wrong: UInt8 = 0
        var letters: UInt8 = 0
        var position = 0
        for index in 0..<uuidBytes {
            if hasHyphen(before: index) {
                wrong |= text[position] ^ UInt8(ascii: "-")
                position += 1
            }
            let high = digit(text[position], &letters)
            let low = digit(text[position + 1], &letters)
            wrong |= (high | low) & 0xF0
            destination.storeBytes(of: high << 4 | low, toByteOffset: index, as: UInt8.self)
            position += 2
        }
        guard wrong == 0 else { return nil }
        switch letters {
        case 0, 1: return lowercaseUUID
        case 2: return uppercaseUUID
        default: return nil
        }
    }

    /// 0 through 15, or 255. To `letters` 1 is added, by its bit, for a lower-case letter, 2 for an upper-case one.
    private static func digit(_ character: UInt8, _ letters: inout UInt8) -> UInt8 {
        let number = character &- UInt8(ascii: "0")
        if number <= 9 { return number }
        let letter = (character | 0x20) &- UInt8(ascii: "a")
        guard letter <= 5 else { return 255 }
        letters |= character & 0x20 == 0 ? 2 : 1
        return letter + 10
    }
}

extension HashKey {
    /// - Parameter body: gets the sign behind the app, and what stands for the identifier behind it.
    func withStoredIdentifier<Result>(_ body: (UInt8, UnsafeRawBufferPointer) -> Result) -> Result {
        guard kind == .activity, identifier.count == ActivityKey.uuidDigits else {
            return body(kind.rawValue, identifier)
        }
        return withUnsafeTemporaryAllocation(byteCount: ActivityKey.uuidBytes, alignment: 1) { memory in
            // Memory of a positive size has an address.
            let sign = ActivityKey.pack(identifier, to: memory.baseAddress.unsafelyUnwrapped)
            return sign.map { body($0, UnsafeRawBufferPointer(memory)) } ?? body(kind.rawValue, identifier)
        }
    }
}
