/// The shapes of an app's `ActivityAttributes` types and of their `ContentState` types. They say which commands the app
/// on a phone can decode.
///
/// The shapes are in a file that the configuration names. A test of the app writes it with the library
/// `ActivityShapes`. The file has all types of the app. A type that differs between releases in use is in the file once
/// for each of them, and a command is accepted if it fits the type of one release.
///
/// All nodes are in one flat array, the children of a node next to each other. Indexes need no reference counting
/// (``UnmanagedContract``).
public struct Contract: Equatable, Sendable {
    var nodes: [ShapeNode] = []
    var rawValues: [EnumRawValue] = []
    var types: [AttributesTypeShapes] = []
    /// The names of types and fields, and the raw values of enums, in UTF-8.
    var textStorage: [UInt8] = []

    /// The names of the types, each once, in the order of the file.
    public var typeNames: [String] {
        var names: [String] = []
        for type in types {
            let range = Int(type.nameOffset)..<Int(type.nameOffset) + Int(type.nameByteCount)
            let name = String(decoding: textStorage[range], as: UTF8.self)
            if !names.contains(name) { names.append(name) }
        }
        return names
    }
}

/// The kind of JSON value from which a `JSONDecoder` with default strategies decodes a Swift type.
enum ShapeKind: UInt8, Sendable {
    /// Any value, also null or a missing field. This is the kind of a type with a hand-written `init(from:)`, whose
    /// rules are not known.
    case any
    case string, bool
    case int8, int16, int32, int64
    case uint8, uint16, uint32, uint64
    case double, float, decimal
    /// A number, seconds since 2001.
    case date
    /// An array of two dates, of which the second is not before the first.
    case dateRange
    case url, data, uuid
    /// An enum with raw values: strings or numbers.
    case stringEnum, numberEnum
    case array, dictionary, object

    /// The word for this kind in a file of shapes and in messages.
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
        case .stringEnum, .numberEnum: "enum"
        case .array: "array"
        case .dictionary: "dictionary"
        case .object: "object"
        }
    }

    /// The kinds that a file of shapes names with one word.
    static let scalars: [ShapeKind] = [
        .any, .string, .bool, .int8, .int16, .int32, .int64, .uint8, .uint16, .uint32, .uint64, .double, .float,
        .decimal, .date, .dateRange, .url, .data, .uuid,
    ]
}

/// One declared value: the root of a shape, a field, or the element of an array or a dictionary.
struct ShapeNode: BitwiseCopyable, Equatable, Sendable {
    var kind = ShapeKind.any
    /// Whether null is allowed. An optional field may also be missing.
    var isOptional = false
    /// The index of the first child in ``Contract/nodes``, or of an enum's first raw value in ``Contract/rawValues``.
    var firstChild: UInt32 = 0
    var childCount: UInt32 = 0
    /// Where a field's name begins in ``Contract/textStorage``.
    var nameOffset: UInt32 = 0
    var nameByteCount: UInt32 = 0
    /// The first eight bytes of the field's name, as a number whose lowest byte is the first one. The closing quote
    /// follows a name that is shorter: `goals"`. Most keys are recognized by one comparison with this number.
    var nameBeginning: UInt64 = 0
    /// A mask: 0xFF for each byte that ``nameBeginning`` uses, and 0 for each other byte. All bytes are 0 if JSON must
    /// escape a part of the name: then ``nameBeginning`` is not used.
    var nameBeginningMask: UInt64 = 0
    /// The required fields of an object. A field's number is its index among the object's children.
    var requiredFields = FieldSet()
}

/// A raw value of an enum: a text at `offset` in ``Contract/textStorage``, or a number.
struct EnumRawValue: BitwiseCopyable, Equatable, Sendable {
    var offset: UInt32 = 0
    var count: UInt32 = 0
    var number: Int64 = 0
}

/// The shapes of one `ActivityAttributes` type: of its attributes, and of its content state.
struct AttributesTypeShapes: BitwiseCopyable, Equatable, Sendable {
    var nameOffset: UInt32
    var nameByteCount: UInt32
    /// The index in ``Contract/nodes`` of the root node of the attributes' shape.
    var attributesNodeIndex: UInt32 = 0
    /// The index in ``Contract/nodes`` of the root node of the content state's shape.
    var contentStateNodeIndex: UInt32 = 0
}

/// A set of fields of one object. A field's number is its index in the object, which has at most
/// ``Limits/shapeFieldsPerObjectMax`` fields.
struct FieldSet: BitwiseCopyable, Equatable, Sendable {
    private var low: UInt64 = 0
    private var high: UInt64 = 0

    /// Adds a field. Returns true if the set did not have the field.
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

    /// Returns the first field of this set that the other set lacks; nil if there is none.
    @inline(__always)
    func first(notIn other: FieldSet) -> Int? {
        let (missingLow, missingHigh) = (low & ~other.low, high & ~other.high)
        if missingLow | missingHigh == 0 { return nil }
        return missingLow != 0 ? missingLow.trailingZeroBitCount : 64 &+ missingHigh.trailingZeroBitCount
    }
}
