import Documents

import enum CausewayRecords.JSONValue

extension JSONValue {
    /// Reads a JSON value. Returns nil if the bytes are not JSON.
    init?(parsing bytes: some Sequence<UInt8>) {
        guard let value = StableJSON.decode(JSONValue.self, bytes) else { return nil }
        self = value
    }

    subscript(_ key: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members[key]
    }

    var text: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    var integerValue: Int64? {
        guard case .integer(let number) = self else { return nil }
        return number
    }

    /// The value on one line, with the members of objects sorted by name.
    var oneLineJSON: String {
        // Encoding fails only for numbers that JSON cannot write, such as infinity. No report has such a number.
        (try? StableJSON.text(self)) ?? "null"
    }

    /// Makes an object and leaves out the members whose value is nil.
    static func objectOmittingNil(_ members: KeyValuePairs<String, JSONValue?>) -> JSONValue {
        .object(Dictionary(uniqueKeysWithValues: members.compactMap { key, value in value.map { (key, $0) } }))
    }
}
