/// The members of a JSON object: keys with their values.
///
/// Two keys are equal only if their bytes are equal, as in the worker and in APNs. In a `Dictionary`, two ways to write
/// `é` would be the same key: as one character, and as `e` with a combining accent.
public struct JSONObject: Hashable, Sendable {
    fileprivate struct MemberKey: Hashable {
        let text: String

        static func == (left: MemberKey, right: MemberKey) -> Bool { left.text.utf8.elementsEqual(right.text.utf8) }

        func hash(into hasher: inout Hasher) { hasher.combine(bytesOf: text) }
    }

    private var members: [MemberKey: JSONValue] = [:]

    public init() {}

    public init(_ members: [String: JSONValue]) {
        for (key, value) in members { self[key] = value }
    }

    public subscript(key: String) -> JSONValue? {
        get { members[MemberKey(text: key)] }
        set { members[MemberKey(text: key)] = newValue }
    }

    public var isEmpty: Bool { members.isEmpty }

    public var count: Int { members.count }

    /// The keys, in no particular order.
    public var keys: [String] { members.keys.map(\.text) }

    /// The members as a dictionary. If `Dictionary` regards several keys as the same key, the result has only one of
    /// them.
    public var dictionary: [String: JSONValue] {
        Dictionary(sortedMembers.map { ($0.key, $0.value) }) { first, _ in first }
    }

    /// The members in the order of their keys' bytes.
    var sortedMembers: [(key: String, value: JSONValue)] {
        map { $0 }.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
    }
}

extension JSONObject: Sequence {
    public struct Iterator: IteratorProtocol {
        fileprivate var members: [MemberKey: JSONValue].Iterator

        public mutating func next() -> (key: String, value: JSONValue)? {
            members.next().map { ($0.key.text, $0.value) }
        }
    }

    public func makeIterator() -> Iterator { Iterator(members: members.makeIterator()) }
}

extension JSONObject: ExpressibleByDictionaryLiteral {
    /// Makes an object. If a key occurs twice, the object has its last value.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        for (key, value) in elements { self[key] = value }
    }
}

extension Hasher {
    mutating func combine(bytesOf text: String) {
        var text = text
        text.withUTF8 { combine(bytes: UnsafeRawBufferPointer($0)) }
        combine(0xFF as UInt8)
    }
}
