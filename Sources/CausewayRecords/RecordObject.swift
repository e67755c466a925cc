import Foundation

/// Reads the members of an object in a record. Each thrown fault names its field.
struct RecordObject {
    private let path: String
    private let members: JSONObject

    /// Throws if the value is no object.
    ///
    /// - Parameter path: the keys that lead to the value, for the fields of faults; empty for the record.
    init(_ value: JSONValue, _ path: String) throws(RecordFault) {
        guard case .object(let members) = value else { throw RecordFault(path, "expected an object") }
        self.path = path
        self.members = members
    }

    func fault(_ key: String, _ message: String) -> RecordFault { RecordFault(fieldPath(key), message) }

    private func fieldPath(_ key: String) -> String { path.isEmpty ? key : "\(path).\(key)" }

    func has(_ key: String) -> Bool { members[key] != nil }

    func member(_ key: String) -> JSONValue? { members[key] }

    func requireValue<Value>(_ key: String, _ value: Value?) throws(RecordFault) -> Value {
        guard let value else { throw fault(key, "missing") }
        return value
    }

    func readObject(_ key: String) throws(RecordFault) -> RecordObject {
        try RecordObject(try requireValue(key, members[key]), fieldPath(key))
    }

    func readString(_ key: String) throws(RecordFault) -> String? {
        try read(key, "a string") { value in
            if case .string(let text) = value { text } else { nil }
        }
    }

    func readBoolean(_ key: String) throws(RecordFault) -> Bool? {
        try read(key, "true or false") { value in
            if case .boolean(let isTrue) = value { isTrue } else { nil }
        }
    }

    func readNumber(_ key: String) throws(RecordFault) -> Double? { try read(key, "a number") { $0.double } }

    func readUnsigned(_ key: String) throws(RecordFault) -> UInt64? {
        try read(key, "a whole number that is not negative") { value in
            switch value {
            case .integer(let number): UInt64(exactly: number)
            case .unsigned(let number): number
            default: nil
            }
        }
    }

    /// Returns a date that is written as seconds since 1970; nil if the key is missing.
    func readDateFromSeconds(_ key: String) throws(RecordFault) -> Date? {
        try readNumber(key).map { Date(timeIntervalSince1970: $0) }
    }

    func readStrings(_ key: String) throws(RecordFault) -> [String]? {
        try read(key, "an array of strings") { value in
            guard case .array(let elements) = value else { return nil }
            let texts = elements.compactMap { element in
                if case .string(let text) = element { text } else { nil as String? }
            }
            return texts.count == elements.count ? texts : nil
        }
    }

    func readMembers(_ key: String) throws(RecordFault) -> JSONObject? {
        try read(key, "an object") { value in
            if case .object(let members) = value { members } else { nil }
        }
    }

    private func read<Value>(
        _ key: String,
        _ expectation: String,
        _ convert: (JSONValue) -> Value?
    ) throws(RecordFault) -> Value? {
        guard let member = members[key] else { return nil }
        guard let value = convert(member) else { throw fault(key, "expected \(expectation)") }
        return value
    }
}

extension JSONValue {
    static func wholeNumber(_ value: UInt64) -> JSONValue {
        Int64(exactly: value).map { .integer($0) } ?? .unsigned(value)
    }

    /// Returns whole seconds since 1970. If they do not fit 64 bits, returns them as a `Double`.
    static func seconds(_ date: Date) -> JSONValue {
        UnixTime.seconds(date).map { .integer($0) } ?? .number(date.timeIntervalSince1970)
    }

    /// Returns the JSON of a record that was read and then changed. `self` is the JSON of the changed record's
    /// properties. What was not changed stays as in `received`: unknown keys, the digits of numbers, empty arrays.
    ///
    /// - Parameters:
    ///   - received: the JSON that the record was read from.
    ///   - unchanged: the JSON of the properties before the change. Where `self` differs from it, the record was
    ///     changed.
    ///   - nestedKeys: the keys of objects whose members are compared one by one. Any other changed value is replaced
    ///     as a whole.
    func mergingChanges(into received: JSONValue, comparedWith unchanged: JSONValue, in nestedKeys: Set<String>)
        -> JSONValue
    {
        if self == unchanged { return received }
        guard case .object(let members) = self, case .object(var result) = received,
            case .object(let unchangedMembers) = unchanged
        else { return self }
        for key in members.keys + unchangedMembers.keys.filter({ members[$0] == nil })
        where members[key] != unchangedMembers[key] {
            guard nestedKeys.contains(key), let value = members[key], let unchangedValue = unchangedMembers[key],
                let receivedValue = result[key]
            else {
                result[key] = members[key]
                continue
            }
            result[key] = value.mergingChanges(into: receivedValue, comparedWith: unchangedValue, in: nestedKeys)
        }
        return .object(result)
    }
}
