import Kafka
import Observability

/// W3C Trace Context in a record's headers: `traceparent` and `tracestate`.
extension CarriedTrace {
    /// What a record's headers say; nil if they name no trace, or not as the specification has it. Of several headers the last counts.
    init?(_ headers: MessageHeaders) {
        guard let text = headers.last("traceparent"), let context = TraceContext(text) else { return nil }
        self.init(context: context)
        guard let state = headers.last("tracestate"), state.count <= Self.stateBytesMax,
            state.allSatisfy({ (0x20...0x7E).contains($0) || $0 == 0x09 })
        else { return }
        self.state = state
    }

    /// As headers of a record that is to be produced.
    func append(to headers: inout ProducedHeaders) {
        withUnsafeTemporaryAllocation(byteCount: TraceContext.textBytes, alignment: 1) { text in
            context.write(to: text)
            headers.append("traceparent", UnsafeRawBufferPointer(text))
        }
        if !state.isEmpty { headers.append("tracestate", state) }
    }
}
