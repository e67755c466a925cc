import Testing

@testable import Observability

struct RecordTraceTests {
    private func writeAndRead(_ trace: RecordTrace) throws -> (context: TraceContext, traceState: String) {
        try withUnsafeTemporaryAllocation(byteCount: RecordTrace.bytesMax, alignment: 1) { buffer in
            let readTrace = try #require(RecordTrace(trace.write(to: buffer)))
            return (readTrace.context, String(decoding: readTrace.traceState, as: UTF8.self))
        }
    }

    @Test(arguments: ["00", "01", "02", "03"]) func `The context is read as it was written`(flags: String) throws {
        let text = String(TraceContextTests.example.dropLast(2) + flags)
        let context = try #require(TraceContextTests.parse(text))
        let readTrace = try writeAndRead(RecordTrace(context: context))
        #expect(readTrace.context == context && readTrace.context.description == text)
        #expect(readTrace.traceState.isEmpty)
    }

    @Test(arguments: ["congo=t61rcWkgMzE", String(repeating: "x", count: RecordTrace.traceStateBytesMax)])
    func `The tracestate is read as it was written`(state: String) throws {
        var trace = RecordTrace(context: try #require(TraceContextTests.parse(TraceContextTests.example)))
        let bytes = Array(state.utf8)
        try bytes.withUnsafeBytes {
            trace.traceState = $0
            let readTrace = try writeAndRead(trace)
            #expect(readTrace.traceState == state)
        }
    }

    @Test func `An empty value is no trace`() {
        #expect(RecordTrace(UnsafeRawBufferPointer(start: nil, count: 0)) == nil)
    }
}
