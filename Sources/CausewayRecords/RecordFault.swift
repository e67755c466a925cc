/// One fault of a record: of a field, or of the record as a whole.
public struct RecordFault: Error, Hashable, Sendable, CustomStringConvertible {
    /// The path of keys to the field, joined with dots: `aps.alert.title`. Empty: the record as a whole.
    public var field: String
    /// What is wrong.
    public var message: String

    init(_ field: String, _ message: String) {
        self.field = field
        self.message = message
    }

    public var description: String { field.isEmpty ? message : "\(field): \(message)" }
}

/// A record that the worker would refuse.
public struct InvalidRecord: Error, Hashable, Sendable, CustomStringConvertible {
    /// All faults that were found, at least one.
    public var faults: [RecordFault]

    public var description: String { faults.map(\.description).joined(separator: "; ") }
}
