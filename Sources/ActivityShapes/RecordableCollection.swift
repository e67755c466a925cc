import Foundation

/// A collection whose shape follows from its elements' shapes, so the collection itself is not decoded.
protocol RecordableCollection {
    static func shape(from example: ExampleValue?, depth: Int) -> FieldShape
}

extension Array: RecordableCollection where Element: Decodable {
    static func shape(from example: ExampleValue?, depth: Int) -> FieldShape {
        .array(Recorder.mergedShape(Element.self, example?.elements ?? [], depth: depth))
    }
}

extension Set: RecordableCollection where Element: Decodable {
    static func shape(from example: ExampleValue?, depth: Int) -> FieldShape {
        .array(Recorder.mergedShape(Element.self, example?.elements ?? [], depth: depth))
    }
}

extension Dictionary: RecordableCollection where Key: Decodable, Value: Decodable {
    static func shape(from example: ExampleValue?, depth: Int) -> FieldShape {
        // JSON has a dictionary as an object only if its keys are strings or integers, else as an array of
        // keys and values. No shape describes such an array, or an object whose keys are numbers.
        guard Key.self == String.self else { return .any }
        var values: [ExampleValue] = []
        if case .object(let members)? = example { values = members.sorted { $0.key < $1.key }.map(\.value) }
        return .dictionary(Recorder.mergedShape(Value.self, values, depth: depth))
    }
}

extension Optional: RecordableCollection where Wrapped: Decodable {
    static func shape(from example: ExampleValue?, depth: Int) -> FieldShape {
        let value = example?.isNull == true ? nil : example
        return Recorder.shape(of: Wrapped.self, from: value, depth: depth).asOptional
    }
}
