import RecordTestbed

/// The content of a record, independent of the order of its keys, of escapes and of white space.
struct RecordContent: Equatable {
    /// The value that Foundation reads; nil if Foundation refuses the text, for example because a `Double` cannot hold
    /// one of its numbers.
    private let value: FoundationValue?
    /// The numbers as they are spelled.
    private let numbers: [String]
    /// Whether a key occurs twice in an object.
    let hasRepeatedKey: Bool

    init(_ text: [UInt8]) {
        var scanner = NumberAndKeyScanner(text)
        scanner.scan()
        numbers = scanner.numbers.sorted()
        hasRepeatedKey = scanner.hasRepeatedKey
        value = FoundationValue(text).map(Self.withShowsAsObject)
    }

    /// Returns the registration with `shows` as an object. A record may write it as a timestamp alone.
    private static func withShowsAsObject(_ value: FoundationValue) -> FoundationValue {
        guard case .object(var members) = value, let shows = members["shows"], shows.isNumber else { return value }
        members["shows"] = .object(["timestamp": shows])
        return .object(members)
    }
}

/// The numbers and keys of a JSON text.
private struct NumberAndKeyScanner {
    private let text: [UInt8]
    private var position = 0
    /// The keys of each object that is still open.
    private var openObjectKeys: [Set<[UInt8]>] = []
    private(set) var numbers: [String] = []
    private(set) var hasRepeatedKey = false

    init(_ text: [UInt8]) { self.text = text }

    mutating func scan() {
        while position < text.count {
            switch text[position] {
            case UInt8(ascii: "{"):
                openObjectKeys.append([])
                position += 1
            case UInt8(ascii: "}"):
                openObjectKeys.removeLast(openObjectKeys.isEmpty ? 0 : 1)
                position += 1
            case UInt8(ascii: "\""): scanString()
            case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
                let digits = text[position...].prefix { "+-.0123456789eE".utf8.contains($0) }
                numbers.append(String(decoding: digits, as: UTF8.self))
                position += digits.count
            default: position += 1
            }
        }
    }

    private mutating func scanString() {
        let start = position
        position += 1
        while position < text.count, text[position] != UInt8(ascii: "\"") {
            position += text[position] == UInt8(ascii: "\\") ? 2 : 1
        }
        position = min(position + 1, text.count)
        let isKey = text[position...].first { $0 > 0x20 } == UInt8(ascii: ":")
        guard isKey, !openObjectKeys.isEmpty else { return }
        // Keys are compared after their escapes are decoded.
        let key = FoundationValue(text[start..<position])?.string.map { Array($0.utf8) } ?? []
        if !openObjectKeys[openObjectKeys.count - 1].insert(key).inserted { hasRepeatedKey = true }
    }
}
