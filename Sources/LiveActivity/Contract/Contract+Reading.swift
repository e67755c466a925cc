/// An error in a file of shapes, and its place.
public struct ShapesFault: Error, Equatable, Sendable, CustomStringConvertible {
    /// The keys down to the fault, such as `attributesTypes[0].contentState.home`; empty for the whole text.
    public var keyPath: String
    public var reason: String

    public var description: String { keyPath.isEmpty ? reason : "\(keyPath): \(reason)" }
}

extension Contract {
    /// The maximum length of a file of shapes, in bytes.
    public static let fileBytesMax = Limits.recordBytesMax

    /// Reads the shapes of one app from a file. The file has one JSON object for each app, one after the other.
    ///
    ///     {"app": "com.example.match", "attributesTypes": [
    ///       {"name": "MatchAttributes", "attributes": {"home": "string"},
    ///        "contentState": {"goals": "int", "scorer": "string?"}}
    ///     ]}
    ///
    /// A shape is an object of fields, or `"any"`. A field has one of two forms:
    /// - the name of one of ``ShapeKind/scalars``, such as `"int"`. With a `?` at its end, the field is optional.
    /// - `{"optional": field}`, `{"array": field}`, `{"dictionary": field}`, `{"object": fields}`, or `{"enum": [raw
    ///   values]}`.
    public init(shapes bytes: UnsafeRawBufferPointer, ofApp app: String) throws(ShapesFault) {
        let text: JSONText
        do throws(Fault) {
            text = try JSONText(bytes)
            // Validates the whole text first, because ``ShapesParser`` expects valid JSON.
            var position = text.skipWhitespace(0)
            while position < text.count {
                position = text.skipWhitespace(try text.skipValue(position, depth: 0, .record))
            }
        } catch {
            throw ShapesFault(keyPath: "", reason: "is not JSON: \(error.message(in: bytes))")
        }
        var parser = ShapesParser(text: text)
        try parser.readApps(keeping: app)
        self = parser.contract
    }
}

extension ShapeNode {
    fileprivate mutating func setNameBeginning(of name: String) {
        guard name.utf8.allSatisfy({ $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }) else {
            return
        }
        for (index, byte) in (Array(name.utf8) + [UInt8(ascii: "\"")]).prefix(8).enumerated() {
            nameBeginning |= UInt64(byte) << UInt64(index * 8)
            nameBeginningMask |= 0xFF << UInt64(index * 8)
        }
    }
}

/// Reads a file of shapes into a ``Contract``. Allocates memory, but only when the configuration is loaded.
private struct ShapesParser {
    private typealias Member = (key: String, valuePosition: Int)

    let text: JSONText
    var contract = Contract()

    init(text: JSONText) { self.text = text }

    /// Reads the shapes of `app`, and skips the objects of all other apps.
    mutating func readApps(keeping app: String) throws(ShapesFault) {
        var otherApps: [String] = []
        var position = text.skipWhitespace(0)
        while position < text.count {
            let members = try readMembers(of: position, keyPath: "")
            guard let valuePosition = members.last(where: { $0.key == "app" })?.valuePosition else {
                throw ShapesFault(keyPath: "app", reason: "is required, the app's bundle id")
            }
            let name = try readString(valuePosition, keyPath: "app")
            if name == app {
                guard contract.types.isEmpty else { throw ShapesFault(keyPath: "app", reason: "\(app) occurs twice") }
                try readApp(members)
            } else {
                otherApps.append(name)
            }
            position = text.skipWhitespace(valueEnd(at: position))
        }
        guard contract.types.isEmpty else { return }
        let contents = otherApps.isEmpty ? "is empty" : "has only \(otherApps.joined(separator: ", "))"
        throw ShapesFault(keyPath: "", reason: "has no shapes of \(app): it \(contents)")
    }

    private mutating func readApp(_ members: [Member]) throws(ShapesFault) {
        for member in members {
            switch member.key {
            // Only the simulator, which reads the same file, uses `teamId`.
            case "app", "teamId": break
            case "attributesTypes":
                let typePositions = try elementPositions(of: member.valuePosition, keyPath: member.key)
                for (index, typePosition) in typePositions.enumerated() {
                    try readType(typePosition, keyPath: "attributesTypes[\(index)]")
                }
            default: throw ShapesFault(keyPath: member.key, reason: "is not a key; use app, attributesTypes")
            }
        }
        guard !contract.types.isEmpty else {
            throw ShapesFault(keyPath: "attributesTypes", reason: "must list at least one type")
        }
    }

    private mutating func readType(_ position: Int, keyPath: String) throws(ShapesFault) {
        guard contract.types.count < Limits.shapeTypesPerAppMax else {
            throw ShapesFault(keyPath: keyPath, reason: "more than \(Limits.shapeTypesPerAppMax) types")
        }
        var valuePositions: [String: Int] = [:]
        for member in try readMembers(of: position, keyPath: keyPath) {
            // Only the simulator, which reads the same file, uses `identifierAttribute`. So the message about unknown
            // keys does not name this key.
            guard ["name", "attributes", "contentState", "identifierAttribute"].contains(member.key) else {
                let keyPath = "\(keyPath).\(member.key)"
                throw ShapesFault(keyPath: keyPath, reason: "is not a key; use name, attributes, contentState")
            }
            valuePositions[member.key] = member.valuePosition
        }
        func valueStart(_ key: String) throws(ShapesFault) -> Int {
            guard let valuePosition = valuePositions[key] else {
                throw ShapesFault(keyPath: "\(keyPath).\(key)", reason: "is required")
            }
            return valuePosition
        }
        let name = try readString(try valueStart("name"), keyPath: "\(keyPath).name")
        guard !name.isEmpty else { throw ShapesFault(keyPath: "\(keyPath).name", reason: "must not be empty") }
        let (offset, count) = appendText(name)
        var type = AttributesTypeShapes(nameOffset: offset, nameByteCount: count)
        type.attributesNodeIndex = try addRoot(try valueStart("attributes"), keyPath: "\(keyPath).attributes")
        type.contentStateNodeIndex = try addRoot(try valueStart("contentState"), keyPath: "\(keyPath).contentState")
        contract.types.append(type)
    }

    private mutating func appendText(_ text: String) -> (offset: UInt32, count: UInt32) {
        let offset = contract.textStorage.count
        contract.textStorage.append(contentsOf: text.utf8)
        return (UInt32(offset), UInt32(contract.textStorage.count - offset))
    }

    // MARK: - Reading shapes

    /// Appends empty nodes, which the caller fills. Returns the index of the first one.
    private mutating func addNodes(_ count: Int, keyPath: String) throws(ShapesFault) -> Int {
        guard contract.nodes.count + count <= Limits.shapeNodesPerAppMax else {
            throw ShapesFault(keyPath: keyPath, reason: "more than \(Limits.shapeNodesPerAppMax) fields in all")
        }
        let firstIndex = contract.nodes.count
        contract.nodes.append(contentsOf: repeatElement(ShapeNode(), count: count))
        return firstIndex
    }

    /// Reads a whole shape, such as a type's content state. Returns the index of its root node.
    private mutating func addRoot(_ position: Int, keyPath: String) throws(ShapesFault) -> UInt32 {
        let nodeIndex = try addNodes(1, keyPath: keyPath)
        if text.peek(position) == UInt8(ascii: "\""), try readString(position, keyPath: keyPath) == "any" {
            return UInt32(nodeIndex)
        }
        guard text.peek(position) == UInt8(ascii: "{") else {
            throw ShapesFault(keyPath: keyPath, reason: "must be an object of fields, or \"any\"")
        }
        try readObject(nodeIndex, position, keyPath: keyPath, depth: 1)
        return UInt32(nodeIndex)
    }

    /// Reads an object of fields into the node, and adds a child node for each field.
    private mutating func readObject(
        _ nodeIndex: Int,
        _ position: Int,
        keyPath: String,
        depth: Int
    ) throws(ShapesFault) {
        let fields = try readMembers(of: position, keyPath: keyPath)
        guard fields.count <= Limits.shapeFieldsPerObjectMax else {
            throw ShapesFault(
                keyPath: keyPath,
                reason: "\(fields.count) fields, \(Limits.shapeFieldsPerObjectMax) are allowed"
            )
        }
        let firstChild = try addNodes(fields.count, keyPath: keyPath)
        contract.nodes[nodeIndex].kind = .object
        (contract.nodes[nodeIndex].firstChild, contract.nodes[nodeIndex].childCount) = (
            UInt32(firstChild), UInt32(fields.count)
        )
        for (index, field) in fields.enumerated() {
            let (offset, count) = appendText(field.key)
            contract.nodes[firstChild + index].nameOffset = offset
            contract.nodes[firstChild + index].nameByteCount = count
            contract.nodes[firstChild + index].setNameBeginning(of: field.key)
            try setNode(firstChild + index, field.valuePosition, keyPath: "\(keyPath).\(field.key)", depth: depth)
            let child = contract.nodes[firstChild + index]
            let isRequired = !child.isOptional && child.kind != .any
            if isRequired { _ = contract.nodes[nodeIndex].requiredFields.insert(index) }
        }
    }

    /// Reads the shape at `position` into the node.
    ///
    /// - Parameter depth: the number of containers, and of objects `{"optional": field}`, around the shape.
    private mutating func setNode(_ nodeIndex: Int, _ position: Int, keyPath: String, depth: Int) throws(ShapesFault) {
        guard depth <= Limits.shapeDepthMax else {
            throw ShapesFault(keyPath: keyPath, reason: "more than \(Limits.shapeDepthMax) nested types")
        }
        if text.peek(position) == UInt8(ascii: "\"") {
            var word = try readString(position, keyPath: keyPath)
            if word.hasSuffix("?") {
                word.removeLast()
                contract.nodes[nodeIndex].isOptional = true
            }
            guard let kind = Self.scalarKind(word) else {
                throw ShapesFault(
                    keyPath: keyPath,
                    reason: "\"\(word)\" is not a type; the types are \(Self.scalarNames)"
                )
            }
            contract.nodes[nodeIndex].kind = kind
            return
        }
        let requirement =
            "must be the name of a type, or an object with one of optional, array, dictionary, object, enum"
        guard text.peek(position) == UInt8(ascii: "{"),
            case let alternatives = try readMembers(of: position, keyPath: keyPath),
            alternatives.count == 1
        else { throw ShapesFault(keyPath: keyPath, reason: requirement) }
        let valuePosition = alternatives[0].valuePosition
        switch alternatives[0].key {
        case "optional":
            try setNode(nodeIndex, valuePosition, keyPath: keyPath, depth: depth + 1)
            contract.nodes[nodeIndex].isOptional = true
        case "array", "dictionary":
            let elementNodeIndex = try addNodes(1, keyPath: keyPath)
            contract.nodes[nodeIndex].kind = alternatives[0].key == "array" ? .array : .dictionary
            contract.nodes[nodeIndex].firstChild = UInt32(elementNodeIndex)
            contract.nodes[nodeIndex].childCount = 1
            try setNode(elementNodeIndex, valuePosition, keyPath: "\(keyPath)[]", depth: depth + 1)
        case "object":
            guard text.peek(valuePosition) == UInt8(ascii: "{") else {
                throw ShapesFault(keyPath: keyPath, reason: requirement)
            }
            try readObject(nodeIndex, valuePosition, keyPath: keyPath, depth: depth + 1)
        case "enum": try setRawValues(nodeIndex, valuePosition, keyPath: keyPath)
        default: throw ShapesFault(keyPath: keyPath, reason: requirement)
        }
    }

    /// Reads an enum's raw values from the array at `position`: all strings, or all whole numbers. Sets the node's
    /// kind.
    private mutating func setRawValues(_ nodeIndex: Int, _ position: Int, keyPath: String) throws(ShapesFault) {
        let valuePositions = try elementPositions(of: position, keyPath: keyPath)
        guard let firstPosition = valuePositions.first,
            contract.rawValues.count + valuePositions.count <= Limits.shapeNodesPerAppMax
        else {
            throw ShapesFault(keyPath: keyPath, reason: "an enum has 1 to \(Limits.shapeNodesPerAppMax) raw values")
        }
        let isText = text.peek(firstPosition) == UInt8(ascii: "\"")
        contract.nodes[nodeIndex].kind = isText ? .stringEnum : .numberEnum
        contract.nodes[nodeIndex].firstChild = UInt32(contract.rawValues.count)
        contract.nodes[nodeIndex].childCount = UInt32(valuePositions.count)
        for valuePosition in valuePositions {
            var rawValue = EnumRawValue()
            if isText {
                (rawValue.offset, rawValue.count) = appendText(try readString(valuePosition, keyPath: keyPath))
            } else {
                let digits = String(
                    decoding: text.bytes(ByteRange(from: valuePosition, to: valueEnd(at: valuePosition))),
                    as: UTF8.self
                )
                guard let number = Self.wholeNumber(digits) else {
                    throw ShapesFault(keyPath: keyPath, reason: "an enum's raw values are texts, or whole numbers")
                }
                rawValue.number = number
            }
            contract.rawValues.append(rawValue)
        }
    }

    /// Returns the value of a whole number in any form: `1.0` and `1e0` are 1. Returns nil for any other text.
    ///
    /// A large number must have neither a fraction nor an exponent. A `Double` represents every whole number below 2⁵³
    /// exactly.
    private static func wholeNumber(_ text: String) -> Int64? {
        if let number = Int64(text) { return number }
        guard let number = Double(text), number.magnitude < 9_007_199_254_740_992 else { return nil }
        return Int64(exactly: number)
    }

    private static let scalarNames = ShapeKind.scalars.map { "\($0.name)" }.joined(separator: ", ")

    private static func scalarKind(_ word: String) -> ShapeKind? {
        switch word {
        case "int64": .int64
        case "uint64": .uint64
        default: ShapeKind.scalars.first { "\($0.name)" == word }
        }
    }

    // MARK: - JSON that is known to be valid

    private func valueEnd(at position: Int) -> Int {
        (try? text.skipValue(position, depth: 0, .record)) ?? text.count
    }

    private func readString(_ position: Int, keyPath: String) throws(ShapesFault) -> String {
        guard let string = try? text.readString(position, .record) else {
            throw ShapesFault(keyPath: keyPath, reason: "must be a string")
        }
        return String(decoding: Array(UnescapedBytes(text.bytes(string.range))), as: UTF8.self)
    }

    /// Returns the keys of the object at `start`, each with the position of its value. Throws if the value at `start`
    /// is no object, or if a key occurs twice.
    private func readMembers(of start: Int, keyPath: String) throws(ShapesFault) -> [Member] {
        guard text.peek(start) == UInt8(ascii: "{") else {
            throw ShapesFault(keyPath: keyPath, reason: "must be an object")
        }
        var members: [Member] = []
        var position = text.skipWhitespace(start + 1)
        while text.peek(position) == UInt8(ascii: "\"") {
            let key = try readString(position, keyPath: keyPath)
            guard !members.contains(where: { $0.key == key }) else {
                throw ShapesFault(keyPath: keyPath, reason: "has \"\(key)\" twice")
            }
            let valuePosition = (try? text.skipColon(valueEnd(at: position), .record)) ?? text.count
            members.append((key, valuePosition))
            position = text.skipWhitespace(text.skipWhitespace(valueEnd(at: valuePosition)) + 1)
        }
        return members
    }

    private func elementPositions(of arrayPosition: Int, keyPath: String) throws(ShapesFault) -> [Int] {
        guard text.peek(arrayPosition) == UInt8(ascii: "[") else {
            throw ShapesFault(keyPath: keyPath, reason: "must be an array")
        }
        var positions: [Int] = []
        var position = text.skipWhitespace(arrayPosition + 1)
        while text.peek(position) != UInt8(ascii: "]"), position < text.count {
            positions.append(position)
            position = text.skipWhitespace(valueEnd(at: position))
            if text.peek(position) == UInt8(ascii: ",") { position = text.skipWhitespace(position + 1) }
        }
        return positions
    }
}
