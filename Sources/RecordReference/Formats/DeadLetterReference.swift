/// A dead letter: an invalid record, unchanged, with headers. It has no format of its own.
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
}
