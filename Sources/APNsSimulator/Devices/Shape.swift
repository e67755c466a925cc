/// The shape of a Swift `Codable` struct, as an app declares it for its attributes or its content state.
///
/// As JSON, a shape is an object of fields. The value of a field is one of:
/// - `"string"`, `"int"`, `"double"`, `"bool"`
/// - `"int8"` to `"int64"`, `"uint"`, `"uint8"` to `"uint64"`, `"float"`, `"decimal"`
/// - `"date"`: a `Date`, in JSON a number of seconds since 2001-01-01
/// - `"dateRange"`: a `ClosedRange<Date>`, in JSON an array of two dates
/// - `"url"`, `"data"`, `"uuid"`: texts that `URL`, `Data` in base64 and `UUID` are decoded from
/// - `"any"`: any value or null; the field may also be missing
/// - `{"enum": ["a", "b"]}`: an enum with these raw values, texts or whole numbers
/// - `{"array": <field>}`
/// - `{"dictionary": <field>}`: an object with any keys
/// - `{"object": {…}}`: a nested struct
/// - `{"optional": <field>}`. A question mark after one of the plain names means the same: `"string?"`.
///
/// The nodes are in one flat array, with the children of a node next to each other, so that decoding follows no
/// references.
public struct Shape: Sendable {
    /// The maximum number of nodes of one shape.
    public static let nodesMax = 4_096

    enum Kind: UInt8 {
        case string, int, unsigned, double, float, bool, date, dateRange, url, data, uuid, any
        case enumeration, numberEnumeration, array, dictionary, object
    }

    struct Node {
        var kind: Kind
        var isOptional: Bool
        /// For an enumeration, a range of `names`: its raw values. A number is there in its shortest form, `1` for
        /// `1.0`. Otherwise a range of `nodes`: the fields of an object, or the one element of an array or a
        /// dictionary.
        var children: Range<Int>
        /// The field's name, as an index of `names`; -1 if the node is an element or the root.
        var nameIndex: Int
        /// The size in bits of a type for whole numbers; not used for other types.
        var integerBits = 64
    }

    /// The reason why a text is not a shape.
    public struct Fault: Error, Sendable, Equatable, CustomStringConvertible {
        /// Names of the fields down to the fault, joined by dots.
        public var path: String
        public var reason: String
        public var description: String { path.isEmpty ? reason : "\(path): \(reason)" }
    }

    private(set) var nodes: [Node] = []
    private(set) var names: [[UInt8]] = []

    /// Reads a shape from its JSON.
    public init(json: String) throws(Fault) {
        let text = Array(json.utf8)
        var fault: Fault?
        var shape: Shape?
        text.withUnsafeBytes { bytes in
            var tape = JSONTape()
            do throws(JSONTape.Fault) {
                try tape.read(bytes)
            } catch {
                fault = Fault(path: "", reason: "not JSON: \(error)")
                return
            }
            do throws(Fault) {
                shape = try Shape(tape, at: 0)
            } catch {
                fault = error
            }
        }
        guard let shape else { throw fault ?? Fault(path: "", reason: "not JSON") }
        self = shape
    }

    /// Reads a shape from the JSON object at this index of the ``JSONTape``. Each member of the object is a field.
    init(_ tape: borrowing JSONTape, at index: Int) throws(Fault) {
        guard tape[index].kind == .object else { throw Fault(path: "", reason: "a shape is an object of fields") }
        nodes.append(Node(kind: .object, isOptional: false, children: 0..<0, nameIndex: -1))
        try addFields(tape, of: index, to: 0, path: "")
    }

    private mutating func addFields(
        _ tape: borrowing JSONTape,
        of object: Int,
        to parent: Int,
        path: String
    ) throws(Fault) {
        let firstNodeIndex = nodes.count
        nodes[parent].children = firstNodeIndex..<firstNodeIndex + tape.childCount(object)
        guard nodes[parent].children.upperBound <= Self.nodesMax else {
            throw Fault(path: path, reason: "too many fields")
        }
        var declaredFields: [(name: String, value: Int)] = []
        tape.forEachMember(of: object) { key, value in declaredFields.append((tape.string(key), value)) }
        // The fields of an object must be neighbours in `nodes`. So add all of them before the fields of nested
        // objects.
        for field in declaredFields {
            names.append(Array(field.name.utf8))
            nodes.append(Node(kind: .object, isOptional: false, children: 0..<0, nameIndex: names.count - 1))
        }
        for (offset, field) in declaredFields.enumerated() {
            let fieldPath = path.isEmpty ? field.name : "\(path).\(field.name)"
            try setNode(firstNodeIndex + offset, tape, at: field.value, path: fieldPath)
        }
    }

    /// Reads the type of a field or element, for example `"string?"` or `{"array": "int"}`, into its node.
    private mutating func setNode(_ nodeIndex: Int, _ tape: borrowing JSONTape, at index: Int, path: String)
        throws(Fault)
    {
        switch tape[index].kind {
        case .string:
            var name = tape.string(index)
            if name.hasSuffix("?") {
                name.removeLast()
                nodes[nodeIndex].isOptional = true
            }
            guard let (kind, bits) = Self.scalarKind(name) else {
                throw Fault(path: path, reason: "unknown type \(name)")
            }
            nodes[nodeIndex].kind = kind
            nodes[nodeIndex].integerBits = bits
            if kind == .any { nodes[nodeIndex].isOptional = true }
        case .object:
            guard tape.childCount(index) == 1 else {
                throw Fault(path: path, reason: Self.expectedForms)
            }
            try setComposite(nodeIndex, tape, key: tape.string(index + 1), at: index + 2, path: path)
        default:
            throw Fault(path: path, reason: "expected the name of a type or an object")
        }
    }

    /// Reads a type that is written as an object with one key, for example `{"enum": ["a", "b"]}`, into its node.
    private mutating func setComposite(
        _ nodeIndex: Int,
        _ tape: borrowing JSONTape,
        key: String,
        at index: Int,
        path: String
    ) throws(Fault) {
        switch (key, tape[index].kind) {
        case ("optional", _):
            try setNode(nodeIndex, tape, at: index, path: path)
            nodes[nodeIndex].isOptional = true
        case ("enum", .array):
            let firstNameIndex = names.count
            var rawValues: [[UInt8]] = []
            var (areStrings, areNumbers) = (true, true)
            tape.forEachElement(of: index) { element in
                areStrings = areStrings && tape[element].kind == .string
                let number = tape.integer(element)
                areNumbers = areNumbers && number != nil
                rawValues.append(Array((areStrings ? tape.string(element) : "\(number ?? 0)").utf8))
            }
            guard areStrings || areNumbers, !rawValues.isEmpty else {
                throw Fault(path: path, reason: "an enum is a list of strings, or of whole numbers")
            }
            names.append(contentsOf: rawValues)
            nodes[nodeIndex].kind = areStrings ? .enumeration : .numberEnumeration
            nodes[nodeIndex].children = firstNameIndex..<names.count
        case ("array", _), ("dictionary", _):
            guard nodes.count < Self.nodesMax else { throw Fault(path: path, reason: "too many fields") }
            nodes.append(Node(kind: .object, isOptional: false, children: 0..<0, nameIndex: -1))
            let element = nodes.count - 1
            nodes[nodeIndex].kind = key == "array" ? .array : .dictionary
            nodes[nodeIndex].children = element..<element + 1
            try setNode(element, tape, at: index, path: "\(path)[]")
        case ("object", .object):
            nodes[nodeIndex].kind = .object
            try addFields(tape, of: index, to: nodeIndex, path: path)
        default:
            throw Fault(path: path, reason: Self.expectedForms)
        }
    }

    private static let expectedForms = "expected one of enum, array, dictionary, object, optional"

    private static func scalarKind(_ name: String) -> (Kind, bits: Int)? {
        switch name {
        case "string": (.string, 0)
        case "int", "int64": (.int, 64)
        case "int8": (.int, 8)
        case "int16": (.int, 16)
        case "int32": (.int, 32)
        case "uint", "uint64": (.unsigned, 64)
        case "uint8": (.unsigned, 8)
        case "uint16": (.unsigned, 16)
        case "uint32": (.unsigned, 32)
        case "double", "decimal": (.double, 0)
        case "float": (.float, 0)
        case "bool": (.bool, 0)
        case "date": (.date, 0)
        case "dateRange": (.dateRange, 0)
        case "url": (.url, 0)
        case "data": (.data, 0)
        case "uuid": (.uuid, 0)
        case "any": (.any, 0)
        default: nil
        }
    }
}
