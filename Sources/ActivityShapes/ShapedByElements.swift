import Foundation

/// A type whose shape follows from the shape of the values in it: a collection or `Optional`. The recorder does not
/// decode such a type itself.
protocol ShapedByElements {
    static func shape(from example: ExampleValue?, depth: Int) -> FieldShape
}

extension Array: ShapedByElements where Element: Decodable {
    static func shape(from example: ExampleValue?, depth: Int) -> FieldShape {
        .array(ShapeRecorder.mergedShape(Element.self, example?.elements ?? [], depth: depth))
    }
}

extension Set: ShapedByElements where Element: Decodable {
    static func shape(from example: ExampleValue?, depth: Int) -> FieldShape {
        .array(ShapeRecorder.mergedShape(Element.self, example?.elements ?? [], depth: depth))
    }
}

extension Dictionary: ShapedByElements where Key: Decodable, Value: Decodable {
    static func shape(from example: ExampleValue?, depth: Int) -> FieldShape {
        // Only a dictionary with `String` keys has a shape of its own. `Codable` writes most other dictionaries as
        // arrays, and some as objects, for example those with `Int` keys. But a shape cannot say which keys are
        // allowed.
        guard Key.self == String.self else { return .any }
        var values: [ExampleValue] = []
        if case .object(let members)? = example { values = members.sorted { $0.key < $1.key }.map(\.value) }
        return .dictionary(ShapeRecorder.mergedShape(Value.self, values, depth: depth))
    }
}

extension Optional: ShapedByElements where Wrapped: Decodable {
    static func shape(from example: ExampleValue?, depth: Int) -> FieldShape {
        let value = example?.isNull == true ? nil : example
        return ShapeRecorder.shape(of: Wrapped.self, from: value, depth: depth).asOptional
    }
}
