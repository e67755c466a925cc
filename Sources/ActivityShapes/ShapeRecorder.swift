import Foundation

/// A `Decoder` that records which values a type decodes. The type gets the values of an example. If the example lacks a
/// value or has null, the type gets an invented value.
struct ShapeRecorder: Decoder {
    /// The maximum depth of nested types. Without this limit, the recording of a type that contains itself would not
    /// end. Deeper values have the shape `any`. Workers accept a few levels more (`shapeDepthMax`).
    static let depthMax = 12

    /// The example that the type decodes; nil: the type gets only invented values.
    let example: ExampleValue?
    let recording: Recording
    let depth: Int

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    /// What one type, or one nested container of a type, has decoded.
    final class Recording {
        var fields: [String: FieldShape]?
        /// Keys that may be missing or null: the type has used `contains`, `decodeNil` or `decodeIfPresent` for them.
        var optionalKeys: Set<String> = []
        /// The recordings of nested containers and super decoders that the type has asked for, by key.
        var nestedRecordings: [String: Recording] = [:]
        var valueShape: FieldShape?
        var isNullable = false
        /// Whether the type may accept values of other shapes than the example has, for example because it tries a
        /// second type after the first one fails. The type's shape is then `any`.
        var mayAcceptOtherValues = false

        var shape: FieldShape {
            guard !mayAcceptOtherValues, fields == nil || valueShape == nil else { return .any }
            if let valueShape { return isNullable ? valueShape.asOptional : valueShape }
            guard let fields else { return .any }
            var shapes = fields
            for (key, recording) in nestedRecordings { shapes[key] = recording.shape }
            for key in optionalKeys { if let shape = shapes[key] { shapes[key] = shape.asOptional } }
            return .object(shapes)
        }
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        if recording.fields == nil { recording.fields = [:] }
        return KeyedDecodingContainer(KeyedRecorder<Key>(recorder: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        // The type decodes an array element by element: for example, a point decodes two numbers. The recorder cannot
        // know how many elements the type needs.
        recording.mayAcceptOtherValues = true
        return UnkeyedExampleContainer(elements: example?.elements ?? [], depth: depth)
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { SingleValueRecorder(recorder: self) }

    // MARK: - Shapes

    /// Returns the shape of a type. There are fixed rules for scalars, collections, optionals and most enums. Any other
    /// type is decoded from the example, and the recorder notes what it decodes. The shape is `any` if types are nested
    /// deeper than ``depthMax``, or if the type cannot be decoded or described.
    ///
    /// - Parameter example: nil: the type is decoded from invented values.
    static func shape<Value: Decodable>(of type: Value.Type, from example: ExampleValue?, depth: Int) -> FieldShape {
        guard depth <= depthMax else { return .any }
        if let scalar = scalarNames[ObjectIdentifier(type)] { return .scalar(scalar) }
        if let shapedByElements = type as? any ShapedByElements.Type {
            return shapedByElements.shape(from: example, depth: depth + 1)
        }
        if let cases = type as? any (CaseIterable & RawRepresentable & Decodable).Type, let shape = enumShape(of: cases)
        {
            return shape
        }
        // The example is null, but the type is not `Optional`: so the type itself decodes null. The recorder cannot see
        // which other values the type accepts.
        if example?.isNull == true { return .any }
        let recording = Recording()
        guard (try? Value(from: ShapeRecorder(example: example, recording: recording, depth: depth + 1))) != nil else {
            return .any
        }
        return recording.shape
    }

    /// Returns a shape that allows all examples. Without examples, the shape is recorded from invented values.
    static func mergedShape<Value: Decodable>(_ type: Value.Type, _ examples: [ExampleValue], depth: Int) -> FieldShape
    {
        let shapes = examples.map { shape(of: type, from: $0, depth: depth) }
        guard let first = shapes.first else { return shape(of: type, from: nil, depth: depth) }
        return shapes.dropFirst().reduce(first) { $0.merged(with: $1) }
    }

    private static let scalarNames: [ObjectIdentifier: String] = [
        ObjectIdentifier(Bool.self): "bool", ObjectIdentifier(String.self): "string",
        ObjectIdentifier(Int.self): "int", ObjectIdentifier(Int8.self): "int8", ObjectIdentifier(Int16.self): "int16",
        ObjectIdentifier(Int32.self): "int32", ObjectIdentifier(Int64.self): "int",
        ObjectIdentifier(UInt.self): "uint", ObjectIdentifier(UInt8.self): "uint8",
        ObjectIdentifier(UInt16.self): "uint16", ObjectIdentifier(UInt32.self): "uint32",
        ObjectIdentifier(UInt64.self): "uint",
        ObjectIdentifier(Double.self): "double", ObjectIdentifier(Float.self): "float",
        ObjectIdentifier(Decimal.self): "decimal", ObjectIdentifier(Date.self): "date",
        ObjectIdentifier(ClosedRange<Date>.self): "dateRange", ObjectIdentifier(Range<Date>.self): "dateRange",
        ObjectIdentifier(URL.self): "url", ObjectIdentifier(Data.self): "data", ObjectIdentifier(UUID.self): "uuid",
    ]

    /// Returns an enum's raw values as a shape. If the enum also decodes unknown raw values, the shape is any string or
    /// any integer, because a later release of the app may add cases.
    ///
    /// - Returns: nil if the enum has no cases, or if it is not decoded from raw values that are strings, or integers
    ///   between -2^50 and 2^50, which a `Double` holds exactly.
    private static func enumShape<Cases: CaseIterable & RawRepresentable & Decodable>(
        of type: Cases.Type
    ) -> FieldShape? {
        func decodes(_ value: ExampleValue) -> Bool {
            guard let json = try? JSONEncoder().encode([value]) else { return false }
            return (try? JSONDecoder().decode([Cases].self, from: json)) != nil
        }
        let texts = type.allCases.compactMap { $0.rawValue as? String }
        if texts.count == type.allCases.count, !texts.isEmpty, texts.allSatisfy({ decodes(.string($0)) }) {
            return decodes(.string("\u{1}no case")) ? .scalar("string") : .texts(texts)
        }
        let numbers = type.allCases.compactMap { ($0.rawValue as? any BinaryInteger).flatMap { Int64(exactly: $0) } }
        guard numbers.count == type.allCases.count, let largest = numbers.max(), largest < 1 << 50,
            numbers.allSatisfy({ $0 > -(1 << 50) && decodes(.number(Double($0))) })
        else { return nil }
        // Tests whether the enum also decodes a number that is not one of its cases. The number is at most 127, so that
        // it fits the smallest raw type, `Int8`.
        let unusedNumber = (Int64(0)...Int64(127)).first { !numbers.contains($0) }
        return unusedNumber.map { decodes(.number(Double($0))) } == true ? .scalar("int") : .numbers(numbers)
    }

    // MARK: - Values

    /// Returns a value of the type, decoded from the example. Without an example, returns an invented value.
    static func value<Value: Decodable>(of type: Value.Type, from example: ExampleValue?, depth: Int) throws -> Value {
        if let example {
            let values = try JSONDecoder().decode([Value].self, from: try JSONEncoder().encode([example]))
            if let value = values.first { return value }
        }
        guard depth <= depthMax else { throw MissingValue() }
        for inventedValue in inventedValues { if let value = inventedValue as? Value { return value } }
        if let cases = type as? any CaseIterable.Type, let value = firstCase(of: cases) as? Value { return value }
        return try Value(from: ShapeRecorder(example: nil, recording: Recording(), depth: depth + 1))
    }

    /// Thrown if types are nested too deeply (``depthMax``) to invent a value.
    struct MissingValue: Error {}

    private static func firstCase<Cases: CaseIterable>(of type: Cases.Type) -> Any? { type.allCases.first }

    private static var inventedValues: [Any] {
        let date = Date(timeIntervalSinceReferenceDate: 0)
        return [
            false, "", 0, Int8(0), Int16(0), Int32(0), Int64(0), UInt(0), UInt8(0), UInt16(0), UInt32(0), UInt64(0),
            0.0,
            Float(0), Decimal(0), date, date...date, date..<date, URL(fileURLWithPath: "/"), Data(), UUID(),
        ]
    }
}
