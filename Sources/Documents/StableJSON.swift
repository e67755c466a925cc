import FoundationEssentials

/// Reads and writes JSON. Equal values give equal bytes: one line, keys in alphabetical order, slashes not escaped.
package enum StableJSON {
    package static func bytes(_ value: some Encodable) throws -> [UInt8] { Array(try data(value)) }

    package static func text(_ value: some Encodable) throws -> String {
        String(decoding: try data(value), as: UTF8.self)
    }

    /// Decodes JSON whose keys may be in any order. Returns nil if the JSON does not fit the type.
    package static func decode<Value: Decodable>(_ type: Value.Type, _ json: some Sequence<UInt8>) -> Value? {
        try? JSONDecoder().decode(type, from: Data(json))
    }

    private static func data(_ value: some Encodable) throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(value)
    }
}
