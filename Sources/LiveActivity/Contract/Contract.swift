/// What an app's phones can decode: the shapes of its types of `ActivityAttributes`, each with its `ContentState`.
///
/// An app's test writes the shapes into a file (`ActivityShapes`), and the configuration names the file. The contract names all types
/// of the app: a command that fits none of them is a command that no phone could show. A type may occur several times, once for each
/// version of the app that is in use; then one version that can decode a command is enough.
///
/// All shapes are in one flat array, with the children of a node next to each other.
public struct Contract: Equatable, Sendable {
    var nodes: [ShapeNode] = []
    var cases: [ShapeCase] = []
    var types: [ContractType] = []
    /// The names of types and fields, and the raw values of enums, in UTF-8.
    var bytes: [UInt8] = []

    /// The names of the types, each once, in the order of the file.
    public var typeNames: [String] {
        var names: [String] = []
        for type in types {
            let range = Int(type.nameOffset)..<Int(type.nameOffset) + Int(type.nameCount)
            let name = String(decoding: bytes[range], as: UTF8.self)
            if !names.contains(name) { names.append(name) }
        }
        return names
    }
}

/// What JSON value a Swift type is decoded from, by a `JSONDecoder` with default strategies.
enum ShapeKind: UInt8, Sendable {
    /// Any value, and null: for types whose decoding the app has written itself.
    case any
    case string, bool
    case int8, int16, int32, int64
    case uint8, uint16, uint32, uint64
    case double, float, decimal
    /// A number, seconds since 2001.
    case date
    /// An array of two dates in order.
    case dateRange
    case url, data, uuid
    /// An enum with raw values: strings or numbers.
    case textCases, numberCases
    case array, dictionary, object

    /// The type as shapes files write it.
    var name: StaticString {
        switch self {
        case .any: "any"
        case .string: "string"
        case .bool: "bool"
        case .int8: "int8"
        case .int16: "int16"
        case .int32: "int32"
        case .int64: "int"
        case .uint8: "uint8"
        case .uint16: "uint16"
        case .uint32: "uint32"
        case .uint64: "uint"
        case .double: "double"
        case .float: "float"
        case .decimal: "decimal"
        case .date: "date"
        case .dateRange: "dateRange"
        case .url: "url"
        case .data: "data"
        case .uuid: "uuid"
        case .textCases, .numberCases: "enum"
        case .array: "array"
        case .dictionary: "dictionary"
        case .object: "object"
        }
    }

    /// The kinds that a file names by a word alone.
    static let scalars: [ShapeKind] = [
        .any, .string, .bool, .int8, .int16, .int32, .int64, .uint8, .uint16, .uint32, .uint64, .double, .float,
        .decimal, .date, .dateRange, .url, .data, .uuid,
    ]
}

/// One declared value: the root of a shape, a field, or the element of an array or a dictionary.
struct ShapeNode: BitwiseCopyable, Equatable, Sendable {
    var kind = ShapeKind.any
    /// Null is allowed, and a field may be missing.
    var isOptional = false
    /// The first child in ``Contract/nodes``, or the first case in ``Contract/cases``.
    var first: UInt32 = 0
    var count: UInt32 = 0
    /// A field's name in ``Contract/bytes``.
    var nameOffset: UInt32 = 0
    var nameCount: UInt32 = 0
    /// The first bytes of a field's name and its closing quote, as many as eight, and which of them count. No byte counts if the name must
    /// be written with an escape.
    var beginning: UInt64 = 0
    var beginningMask: UInt64 = 0
    /// The fields of an object that must be there: one bit for each child.
    var required = FieldSet()
}

/// A raw value of an enum: bytes of ``Contract/bytes``, or a number.
struct ShapeCase: BitwiseCopyable, Equatable, Sendable {
    var offset: UInt32 = 0
    var count: UInt32 = 0
    var number: Int64 = 0
}

/// A type of `ActivityAttributes`.
struct ContractType: BitwiseCopyable, Equatable, Sendable {
    var nameOffset: UInt32
    var nameCount: UInt32
    /// The roots of the shapes.
    var attributes: UInt32 = 0
    var contentState: UInt32 = 0
}

/// Some of an object's fields, of which there are at most ``Limits/shapeFields``.
struct FieldSet: BitwiseCopyable, Equatable, Sendable {
    private var low: UInt64 = 0
    private var high: UInt64 = 0

    /// - Returns: whether the field was not in the set.
    @inline(__always)
    mutating func insert(_ field: Int) -> Bool {
        let bit = UInt64(1) &<< UInt64(truncatingIfNeeded: field & 63)
        if field < 64 {
            defer { low |= bit }
            return low & bit == 0
        }
        defer { high |= bit }
        return high & bit == 0
    }

    /// The first field that is here and not in the other set; nil if there is none.
    @inline(__always)
    func first(notIn other: FieldSet) -> Int? {
        let (missingLow, missingHigh) = (low & ~other.low, high & ~other.high)
        if missingLow | missingHigh == 0 { return nil }
        return missingLow != 0 ? missingLow.trailingZeroBitCount : 64 &+ missingHigh.trailingZeroBitCount
    }
}
