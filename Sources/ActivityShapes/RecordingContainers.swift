/// The keyed container of a ``ShapeRecorder``. It gives a type the fields of the example, and records which fields the
/// type decodes.
struct KeyedRecorder<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let recorder: ShapeRecorder
    var codingPath: [any CodingKey] { [] }

    /// The keys of the example that `Key` can represent.
    ///
    /// The type's shape becomes `any`, because a type that asks for the keys may decode other fields if the keys are
    /// others. An example is an enum with associated values.
    var allKeys: [Key] {
        recorder.recording.mayAcceptOtherValues = true
        guard case .object(let members)? = recorder.example else { return [] }
        return members.keys.sorted().compactMap { Key(stringValue: $0) }
    }

    private func example(_ key: Key) -> ExampleValue? {
        let value = recorder.example?[key.stringValue]
        return value?.isNull == true ? nil : value
    }

    private func noteShape(_ shape: FieldShape, of key: Key) {
        let earlierShape = recorder.recording.fields?[key.stringValue]
        recorder.recording.fields?[key.stringValue] = earlierShape.map { $0 == shape ? shape : .any } ?? shape
    }

    /// Always returns true: even if the example lacks the key, the type then decodes the key's value, and the recorder
    /// sees the value's type. Notes that the key is optional, because the type has asked whether it is present.
    func contains(_ key: Key) -> Bool {
        recorder.recording.optionalKeys.insert(key.stringValue)
        return true
    }

    func decodeNil(forKey key: Key) throws -> Bool {
        recorder.recording.optionalKeys.insert(key.stringValue)
        return false
    }

    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        noteShape(ShapeRecorder.shape(of: type, from: example(key), depth: recorder.depth), of: key)
        do {
            return try ShapeRecorder.value(of: type, from: example(key), depth: recorder.depth)
        } catch {
            // The caller may catch this error, and decode the field as another type. So the shape of the field is
            // unknown.
            recorder.recording.fields?[key.stringValue] = .any
            throw error
        }
    }

    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        recorder.recording.optionalKeys.insert(key.stringValue)
        noteShape(ShapeRecorder.shape(of: type, from: example(key), depth: recorder.depth), of: key)
        return try? ShapeRecorder.value(of: type, from: example(key), depth: recorder.depth)
    }

    private func nestedRecorder(_ key: Key) -> ShapeRecorder {
        let nestedRecording = recorder.recording.nestedRecordings[key.stringValue] ?? ShapeRecorder.Recording()
        recorder.recording.nestedRecordings[key.stringValue] = nestedRecording
        return ShapeRecorder(example: example(key), recording: nestedRecording, depth: recorder.depth + 1)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        try nestedRecorder(key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try nestedRecorder(key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder {
        recorder.recording.mayAcceptOtherValues = true
        return ShapeRecorder(
            example: recorder.example?["super"],
            recording: ShapeRecorder.Recording(),
            depth: recorder.depth + 1
        )
    }

    func superDecoder(forKey key: Key) throws -> any Decoder { nestedRecorder(key) }
}

/// Gives the elements of an array to a type that decodes them one by one.
struct UnkeyedExampleContainer: UnkeyedDecodingContainer {
    let elements: [ExampleValue]
    let depth: Int
    var currentIndex = 0

    init(elements: [ExampleValue], depth: Int) {
        self.elements = elements
        self.depth = depth
    }

    var codingPath: [any CodingKey] { [] }
    var count: Int? { elements.count }
    var isAtEnd: Bool { currentIndex >= elements.count }

    private mutating func takeElement() -> ExampleValue? {
        defer { currentIndex += 1 }
        return isAtEnd ? nil : elements[currentIndex]
    }

    mutating func decodeNil() throws -> Bool {
        guard !isAtEnd, elements[currentIndex].isNull else { return false }
        currentIndex += 1
        return true
    }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try ShapeRecorder.value(of: type, from: takeElement(), depth: depth)
    }

    private mutating func nestedRecorder() -> ShapeRecorder {
        ShapeRecorder(example: takeElement(), recording: ShapeRecorder.Recording(), depth: depth + 1)
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> {
        try nestedRecorder().container(keyedBy: type)
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try nestedRecorder().unkeyedContainer()
    }
    mutating func superDecoder() throws -> any Decoder { nestedRecorder() }
}

/// The single-value container of a ``ShapeRecorder``. It gives a type its only value, and records the value's shape.
struct SingleValueRecorder: SingleValueDecodingContainer {
    let recorder: ShapeRecorder
    var codingPath: [any CodingKey] { [] }

    func decodeNil() -> Bool {
        recorder.recording.isNullable = true
        return recorder.example?.isNull ?? true
    }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        let shape = ShapeRecorder.shape(of: type, from: recorder.example, depth: recorder.depth)
        if let earlierShape = recorder.recording.valueShape, earlierShape != shape {
            recorder.recording.mayAcceptOtherValues = true
        }
        recorder.recording.valueShape = shape
        do {
            return try ShapeRecorder.value(of: type, from: recorder.example, depth: recorder.depth)
        } catch {
            recorder.recording.mayAcceptOtherValues = true
            throw error
        }
    }
}
