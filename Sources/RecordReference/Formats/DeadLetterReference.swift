import LiveActivity

/// A dead letter: a copy of an invalid record with headers. It has no `RecordFormat`, because its value may be
/// anything.
package enum DeadLetterReference {
    static let topic = "causeway.dead-letters"
    static let introduction = """
        Workers copy each invalid command and registration here: the same key, the same value, and headers that say what is wrong. The value \
        is missing if the broker refuses the copy for its size.
        """
    static let headers: [(name: String, meaning: String)] = [
        ("error", "The code of the fault."),
        ("detail", "The fault in words: the field, what it must be, and the byte."),
        ("source", "The record's place, `topic/partition/offset`."),
        ("traceparent", "As the record's."),
        ("tracestate", "As the record's."),
    ]

    /// A record that is invalid because its timestamp is in milliseconds.
    static let exampleRecord =
        #"{"app": "com.example.match", "activity": "final-phone-21", "aps": {"event": "update", "timestamp": 1790000006000, "#
        + #""content-state": {"home": 1, "away": 0}}}"#
    static let exampleSource = "causeway.commands/3/19"
    /// The fault that the worker's decoder finds in the record.
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
