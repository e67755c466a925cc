/// The two values that answers of the management service hold, found in JSON of which nothing else is wanted.
///
/// An answer that does not read as JSON, or has the member in another form, gives nil.
enum ManagementJSON {
    /// A whole number of one digit.
    static func number(_ name: String, in body: [UInt8]) -> Int? {
        guard let start = value(of: name, in: body), start < body.count else { return nil }
        let digit = Int(body[start]) - 48
        guard (0...9).contains(digit), start + 1 == body.count || !(48...57).contains(body[start + 1]) else {
            return nil
        }
        return digit
    }

    /// An array of strings without escapes, which base64 never needs but for its slashes.
    static func strings(_ name: String, in body: [UInt8]) -> [String]? {
        guard var place = value(of: name, in: body), place < body.count, body[place] == UInt8(ascii: "[") else {
            return nil
        }
        var strings: [String] = []
        place = skipSpace(place + 1, in: body)
        if place < body.count, body[place] == UInt8(ascii: "]") { return strings }
        while true {
            guard let (text, next) = string(at: place, in: body) else { return nil }
            strings.append(text)
            place = skipSpace(next, in: body)
            guard place < body.count else { return nil }
            if body[place] == UInt8(ascii: "]") { return strings }
            guard body[place] == UInt8(ascii: ",") else { return nil }
            place = skipSpace(place + 1, in: body)
        }
    }

    /// Where a member of the outer object has its value.
    private static func value(of name: String, in body: [UInt8]) -> Int? {
        var place = skipSpace(0, in: body)
        guard place < body.count, body[place] == UInt8(ascii: "{") else { return nil }
        place = skipSpace(place + 1, in: body)
        var depth = 0
        while place < body.count {
            switch body[place] {
            case UInt8(ascii: "\""):
                guard let (text, next) = string(at: place, in: body) else { return nil }
                place = skipSpace(next, in: body)
                if depth == 0, text == name, place < body.count, body[place] == UInt8(ascii: ":") {
                    return skipSpace(place + 1, in: body)
                }
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                place += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                depth -= 1
                place += 1
            default: place += 1
            }
        }
        return nil
    }

    private static func string(at start: Int, in body: [UInt8]) -> (text: String, next: Int)? {
        guard start < body.count, body[start] == UInt8(ascii: "\"") else { return nil }
        var bytes: [UInt8] = []
        var place = start + 1
        while place < body.count, body[place] != UInt8(ascii: "\"") {
            // `\/` is the one escape that base64 may come with.
            if body[place] == UInt8(ascii: "\\") { place += 1 }
            guard place < body.count else { return nil }
            bytes.append(body[place])
            place += 1
        }
        guard place < body.count else { return nil }
        return (String(decoding: bytes, as: UTF8.self), place + 1)
    }

    private static func skipSpace(_ start: Int, in body: [UInt8]) -> Int {
        var place = start
        while place < body.count, [0x20, 0x09, 0x0A, 0x0D].contains(body[place]) { place += 1 }
        return place
    }
}
