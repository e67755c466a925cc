import Kafka
import Observability

/// W3C Trace Context in the headers of a record: `traceparent` and `tracestate`.
extension RecordTrace {
    /// Reads the trace context from a record's headers. Returns nil if `traceparent` is missing or malformed. Ignores a
    /// malformed `tracestate`. If a name occurs more than once, uses its last header.
    init?(_ headers: MessageHeaders) {
        guard let text = headers.lastValue(named: "traceparent"), let context = TraceContext(text) else { return nil }
        self.init(context: context)
        guard let state = headers.lastValue(named: "tracestate"), state.count <= Self.traceStateBytesMax,
            state.allSatisfy({ (0x20...0x7E).contains($0) || $0 == 0x09 })
        else { return }
        self.traceState = state
    }

    /// Adds the trace to the headers of a record that will be produced.
    func append(to headers: inout ProducedHeaders) {
        withUnsafeTemporaryAllocation(byteCount: TraceContext.textByteCount, alignment: 1) { text in
            context.write(to: text)
            headers.append("traceparent", UnsafeRawBufferPointer(text))
        }
        if !traceState.isEmpty { headers.append("tracestate", traceState) }
    }
}
