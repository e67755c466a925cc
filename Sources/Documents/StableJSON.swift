import FoundationEssentials

/// JSON as programs read it: on one line, members in the order of their names, slashes not escaped. A value always gives the same bytes.
package enum StableJSON {
    package static func bytes(_ value: some Encodable) throws -> [UInt8] { Array(try data(value)) }

    package static func text(_ value: some Encodable) throws -> String {
        String(decoding: try data(value), as: UTF8.self)
    }

    /// Reads a value, in any order of its members. Nil if the JSON has another form.
    package static func decode<Value: Decodable>(_ type: Value.Type, _ json: some Sequence<UInt8>) -> Value? {
        try? JSONDecoder().decode(type, from: Data(json))
    }

    private static func data(_ value: some Encodable) throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(value)
    }
}
