import LiveActivity

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
        var key = [UInt8](repeating: 0, count: StoreKey.bytesMax)
        let count = app.withUnsafeBytes { app in
            activity.withUnsafeBytes { activity in
                key.withUnsafeMutableBytes {
                    StoreKey.write(StoreSubject(app: app, kind: .activity, identifier: activity), to: $0)
                }
            }
        }
        return Array(key.prefix(count ?? 0))
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

/// The key of an activity or a device.
///
/// An activity's key is `{app=activity}` (see ``ActivityKey``), a device's `{app/device}`: a bundle id has neither sign, so the two
/// cannot be equal, and the braces keep keys that belong together in one slot. `{app:activity}` was an activity's hash in earlier builds.
enum StoreKey {
    /// The longest key, in bytes.
    static let bytesMax = 1_024

    /// Writes the key and returns its length; nil if a part is empty or the key too long.
    ///
    /// - Parameter memory: has room for ``bytesMax``.
    static func write(
        _ subject: StoreSubject<UnsafeRawBufferPointer>,
        to memory: UnsafeMutableRawBufferPointer
    ) -> Int? {
        let (app, identifier) = (subject.app, subject.identifier)
        guard let base = memory.baseAddress, app.count > 0, identifier.count > 0,
            app.count + identifier.count + 3 <= min(bytesMax, memory.count)
        else { return nil }
        base.storeBytes(of: UInt8(ascii: "{"), as: UInt8.self)
        UnsafeMutableRawBufferPointer(start: base + 1, count: app.count).copyMemory(from: app)
        let sign = base + 1 + app.count
        var count = identifier.count
        if subject.kind == .activity, let uuid = ActivityKey.pack(identifier, to: sign + 1) {
            sign.storeBytes(of: uuid, as: UInt8.self)
            count = ActivityKey.uuidBytes
        } else {
            sign.storeBytes(of: subject.kind == .activity ? UInt8(ascii: "=") : UInt8(ascii: "/"), as: UInt8.self)
            UnsafeMutableRawBufferPointer(start: sign + 1, count: count).copyMemory(from: identifier)
        }
        (sign + 1 + count).storeBytes(of: UInt8(ascii: "}"), as: UInt8.self)
        return app.count + count + 3
    }
}
