import LiveActivity

/// A dead letter: a copy of an invalid record with headers. It has no `RecordFormat`, because its value may be
/// anything.
package enum DeadLetterReference {
    static let topic = "causeway.dead-letters"
    static let introduction = """
        Workers copy each invalid command and registration to this topic: the same key, the same value, and headers \
        that say what is wrong. If the copy is too large for the broker, it has no value.
        """
    static let headers: [(name: String, meaning: String)] = [
        ("error", "The code of the error."),
        ("detail", "The error in words: the field, what it must be, and the position in bytes."),
        ("source", "The position of the record: `topic/partition/offset`."),
        ("traceparent", "Copied from the record."),
        ("tracestate", "Copied from the record."),
    ]

    /// A record that is invalid because its timestamp is in milliseconds.
    static let exampleRecord =
        #"{"app": "com.example.match", "activity": "final-phone-21", "aps": {"event": "update", "timestamp": 1790000006000, "#
        + #""content-state": {"home": 1, "away": 0}}}"#
    static let exampleSource = "causeway.commands/3/19"
    /// The fault that the worker's decoder finds in ``exampleRecord``.
    static let exampleFault = Array(exampleRecord.utf8)
        .withUnsafeBytes { bytes -> (error: String, detail: String) in
            do throws(Fault) {
                _ = try Command.decode(bytes)
                preconditionFailure("the example of an invalid record is valid")
            } catch {
                return (error.code.name.description, error.message(in: bytes))
            }
        }
}
