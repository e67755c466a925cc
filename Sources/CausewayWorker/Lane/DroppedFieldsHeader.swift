import Kafka
import LiveActivity

/// The header `dropped` of a record of the fan-out topic or the deferred topic: the names of the fields that were
/// dropped because the body was too large, separated by commas.
enum DroppedFieldsHeader {
    private static let name: StaticString = "dropped"

    /// Adds the header, unless no field was dropped.
    static func append(_ fieldNames: UnsafeRawBufferPointer, to headers: inout ProducedHeaders) {
        if !fieldNames.isEmpty { headers.append(name, fieldNames) }
    }

    /// Returns the names of the fields; empty if the header is missing or malformed. The returned bytes are valid as
    /// long as the message.
    static func read(from message: borrowing Message) -> UnsafeRawBufferPointer {
        guard let fieldNames = message.headers?.lastValue(named: name), OversizeFields.isFieldNameList(fieldNames)
        else {
            return UnsafeRawBufferPointer(start: nil, count: 0)
        }
        return fieldNames
    }
}
