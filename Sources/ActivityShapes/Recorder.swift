import Foundation

/// A `Decoder` that notes what a type asks for. It answers from an example, and invents what the example does not have.
struct Recorder: Decoder {
    /// The most nested types. A type that contains itself is recorded to this depth.
    static let depthMax = 12

    /// Nil: values are invented.
    let example: ExampleValue?
    let note: Note
    let depth: Int

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    /// What one type has asked for.
    final class Note {
        var fields: [String: FieldShape]?
        /// Keys for which the type asked whether they are there.
        var optionalKeys: Set<String> = []
        /// Objects and arrays that the type decodes without a type of their own.
        var nested: [String: Note] = [:]
        var single: FieldShape?
        var isNullable = false
        /// The type decides by itself what it reads, so the note is not all that it accepts.
        var isOwn = false

        var shape: FieldShape {
            guard !isOwn, fields == nil || single == nil else { return .any }
            if let single { return isNullable ? single.asOptional : single }
            guard let fields else { return .any }
            var shapes = fields
            for (key, note) in nested { shapes[key] = note.shape }
            for key in optionalKeys { if let shape = shapes[key] { shapes[key] = shape.asOptional } }
            return .object(shapes)
        }
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        if note.fields == nil { note.fields = [:] }
        return KeyedDecodingContainer(KeyedRecorder<Key>(recorder: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        // A type that decodes an array by itself, such as a point. How many elements it needs is not known.
        note.isOwn = true
        return UnkeyedRecorder(elements: example?.elements ?? [], depth: depth)
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { SingleRecorder(recorder: self) }

    // MARK: - Shapes

    /// The shape of a type, as an example of it shows.
    static func shape<Value: Decodable>(of type: Value.Type, from example: ExampleValue?, depth: Int) -> FieldShape {
        guard depth <= depthMax else { return .any }
        if let scalar = scalars[ObjectIdentifier(type)] { return .scalar(scalar) }
        if let collection = type as? any RecordableCollection.Type {
            return collection.shape(from: example, depth: depth + 1)
        }
        if let cases = type as? any (CaseIterable & RawRepresentable & Decodable).Type, let shape = caseShape(of: cases)
        {
            return shape
        }
        // A type that is not optional and has null as its value decodes it by itself.
        if example?.isNull == true { return .any }
        let note = Note()
        guard (try? Value(from: Recorder(example: example, note: note, depth: depth + 1))) != nil else { return .any }
        return note.shape
    }

    /// The shape of all these examples; of the type alone if there are none.
    static func merged<Value: Decodable>(_ type: Value.Type, _ examples: [ExampleValue], depth: Int) -> FieldShape {
        let shapes = examples.map { shape(of: type, from: $0, depth: depth) }
        guard let first = shapes.first else { return shape(of: type, from: nil, depth: depth) }
        return shapes.dropFirst().reduce(first) { $0.merged(with: $1) }
    }

    private static let scalars: [ObjectIdentifier: String] = [
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

    /// The raw values of an enum; nil if the enum is not decoded from them. An enum that also decodes a value without a case, as some do
    /// for values of later versions, takes any raw value.
    private static func caseShape<Cases: CaseIterable & RawRepresentable & Decodable>(
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
        // Small raw types have no room above all cases.
        let free = (Int64(0)...Int64(127)).first { !numbers.contains($0) }
        return free.map { decodes(.number(Double($0))) } == true ? .scalar("int") : .numbers(numbers)
    }

    // MARK: - Values

    /// A value for the type that asked: the example, or an invented one.
    static func value<Value: Decodable>(of type: Value.Type, from example: ExampleValue?, depth: Int) throws -> Value {
        if let example {
            let values = try JSONDecoder().decode([Value].self, from: try JSONEncoder().encode([example]))
            if let value = values.first { return value }
        }
        guard depth <= depthMax else { throw NoValue() }
        for invented in inventions { if let value = invented as? Value { return value } }
        if let cases = type as? any CaseIterable.Type, let value = first(of: cases) as? Value { return value }
        return try Value(from: Recorder(example: nil, note: Note(), depth: depth + 1))
    }

    struct NoValue: Error {}

    private static func first<Cases: CaseIterable>(of type: Cases.Type) -> Any? { type.allCases.first }

    private static var inventions: [Any] {
        let date = Date(timeIntervalSinceReferenceDate: 0)
        return [
            false, "", 0, Int8(0), Int16(0), Int32(0), Int64(0), UInt(0), UInt8(0), UInt16(0), UInt32(0), UInt64(0),
            0.0,
            Float(0), Decimal(0), date, date...date, date..<date, URL(fileURLWithPath: "/"), Data(), UUID(),
        ]
    }
}
