import Foundation

/// A collection, or `Optional`. Its shape follows from the shapes of its elements or of its wrapped value, so the
/// recorder finds the shape without decoding the collection itself.
protocol RecordableCollection {
    static func shape(from example: ExampleValue?, depth: Int) -> FieldShape
}

extension Array: RecordableCollection where Element: Decodable {
    static func shape(from example: ExampleValue?, depth: Int) -> FieldShape {
        .array(ShapeRecorder.mergedShape(Element.self, example?.elements ?? [], depth: depth))
    }
}

extension Set: RecordableCollection where Element: Decodable {
    static func shape(from example: ExampleValue?, depth: Int) -> FieldShape {
        .array(ShapeRecorder.mergedShape(Element.self, example?.elements ?? [], depth: depth))
    }
}

extension Dictionary: RecordableCollection where Key: Decodable, Value: Decodable {
    static func shape(from example: ExampleValue?, depth: Int) -> FieldShape {
        // A shape can describe only a dictionary with keys of type `String`. If the key type is `Int` or conforms to
        // CodingKeyRepresentable, `Codable` writes an object, but a shape cannot limit the keys of an object.
        // `Codable` writes all other dictionaries as arrays in which keys and values alternate; a shape cannot
        // describe such arrays.
        guard Key.self == String.self else { return .any }
        var values: [ExampleValue] = []
        if case .object(let members)? = example { values = members.sorted { $0.key < $1.key }.map(\.value) }
        return .dictionary(ShapeRecorder.mergedShape(Value.self, values, depth: depth))
    }
}

extension Optional: RecordableCollection where Wrapped: Decodable {
    static func shape(from example: ExampleValue?, depth: Int) -> FieldShape {
        let value = example?.isNull == true ? nil : example
        return ShapeRecorder.shape(of: Wrapped.self, from: value, depth: depth).asOptional
    }
}
