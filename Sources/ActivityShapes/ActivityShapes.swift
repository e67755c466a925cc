import Foundation

/// Writes the shapes of an app's types into a file that Causeway's workers read (`apps.<name>.shapes.file`).
///
/// Call `check` in a unit test of the app, with one example of each type:
///
///     try ActivityShapes.check(
///         app: "com.example.ride",
///         [.activity(attributes: RideAttributes.example, state: RideAttributes.ContentState.example)],
///         file: URL(fileURLWithPath: "Shapes/ride.json")
///     )
///
/// `check` fails if the file in the repository differs from the types; `write` updates the file. An example should have
/// no nil and no empty array: without a value, the library knows only the declared type, and may have to record
/// `"any"`.
///
/// The types may be any `Codable` types; ActivityKit is not needed. The library decodes each example with a `Decoder`
/// of its own, which notes the key and the type of each value, and whether the value is optional. A date has the shape
/// `"date"`: a number of seconds since 2001, as ActivityKit decodes it.
public enum ActivityShapes {
    /// One type of `ActivityAttributes` with its `ContentState`.
    public struct Activity: Sendable {
        /// The name that commands have in `aps.attributes-type`.
        public var name: String
        public var attributes: FieldShape
        public var contentState: FieldShape

        /// Records the shapes of two types from an example of each.
        ///
        /// - Parameter name: the name that commands use for the type of the attributes, if it differs from the type's
        ///   name in Swift.
        /// - Throws: the error of encoding or decoding an example.
        public static func activity<Attributes: Codable, ContentState: Codable>(
            attributes: Attributes,
            state: ContentState,
            name: String = "\(Attributes.self)"
        ) throws -> Activity {
            Activity(
                name: name,
                attributes: try ActivityShapes.shape(of: attributes),
                contentState: try ActivityShapes.shape(of: state)
            )
        }
    }

    /// The error that `check` throws if the file differs from the app's types.
    public struct Difference: Error, CustomStringConvertible {
        public var file: String
        /// The number of the first line that differs, counted from 1.
        public var line: Int
        public var found: String
        public var expected: String

        public var description: String {
            """
            \(file):\(line): the app's types have other shapes than the file: found \(found), expected \(expected). \
            Call ActivityShapes.write, and give the new file to the workers before this app is released.
            """
        }
    }

    /// Records the shape of a type from an example.
    ///
    /// - Throws: the error of encoding or decoding the example.
    public static func shape<Value: Codable>(of example: Value) throws -> FieldShape {
        let json = try JSONEncoder().encode([example])
        // Throws if the type cannot decode its own example: the recorder would then record a wrong shape.
        _ = try JSONDecoder().decode([Value].self, from: json)
        let value = try JSONDecoder().decode(ExampleValue.self, from: json).elements.first
        return ShapeRecorder.shape(of: Value.self, from: value, depth: 0)
    }

    /// Returns the text of a file of shapes. Equal shapes in the same order give equal texts.
    public static func text(app: String, _ activities: [Activity]) -> String {
        let types = activities.map { activity in
            """
                {
                  "name": \(FieldShape.quoted(activity.name)),
                  "attributes": \(activity.attributes.rootText(indentation: 6)),
                  "contentState": \(activity.contentState.rootText(indentation: 6))
                }
            """
        }
        return """
            {
              "app": \(FieldShape.quoted(app)),
              "attributesTypes": [
            \(types.joined(separator: ",\n"))
              ]
            }

            """
    }

    /// Creates the file or replaces it. If writing fails, the old file stays unchanged.
    public static func write(app: String, _ activities: [Activity], to file: URL) throws {
        try Data(text(app: app, activities).utf8).write(to: file, options: .atomic)
    }

    /// Compares the file with the app's types. Call this in the app's continuous integration.
    ///
    /// - Throws: a ``Difference``, or the error of reading the file.
    public static func check(app: String, _ activities: [Activity], file: URL) throws {
        let expected = text(app: app, activities).split(separator: "\n", omittingEmptySubsequences: false)
        let found = String(decoding: try Data(contentsOf: file), as: UTF8.self)
            .split(separator: "\n", omittingEmptySubsequences: false)
        guard found != expected else { return }
        func line(_ lines: [Substring], _ index: Int) -> String {
            index < lines.count ? lines[index].trimmingCharacters(in: .whitespaces) : "no line"
        }
        let index = zip(found, expected).enumerated().first { $1.0 != $1.1 }?.offset ?? min(found.count, expected.count)
        throw Difference(file: file.path, line: index + 1, found: line(found, index), expected: line(expected, index))
    }
}
