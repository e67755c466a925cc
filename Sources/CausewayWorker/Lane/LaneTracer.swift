import Delivery
import Kafka
import Numbers
import Observability

/// The lane's part of tracing. Reads the trace of a record from its headers, and makes the traces of the records that
/// the lane writes for this record, such as its result. Gives sampled traces to the exporter.
final class LaneTracer {
    /// The buffer in which a trace is written for the core. The core copies the trace.
    private let traceBuffer: UnsafeMutableRawBufferPointer
    /// The ring to the exporter; nil if traces are not exported.
    private let traceRing: TraceRing?
    /// How many of a million commands without a trace get a new one.
    private let samplesPerMillion: UInt64
    /// The seed of span ids. A result's span id depends only on this seed, the parent span, the record's offset, and
    /// the number of the record's earlier results. So if this lane produces a result twice, both copies name the same
    /// span.
    private let spanSeed: UInt64
    private var random: SplitMix64

    init(traceRing: TraceRing?, samplesPerMillion: Int) {
        traceBuffer = .allocate(byteCount: RecordTrace.bytesMax, alignment: 8)
        self.traceRing = traceRing
        self.samplesPerMillion = traceRing == nil ? 0 : UInt64(clamping: samplesPerMillion)
        spanSeed = UInt64.random(in: .min ... .max)
        random = SplitMix64(seed: spanSeed)
    }

    deinit {
        traceBuffer.deallocate()
    }

    /// Returns the trace that the core keeps with the record; empty for a record without a trace. Begins a trace for
    /// some commands that have none (``samplesPerMillion``). The returned bytes are valid until this method is called
    /// again.
    func writeTrace(of message: borrowing Message) -> UnsafeRawBufferPointer {
        if let headers = message.headers, let trace = RecordTrace(headers) { return trace.write(to: traceBuffer) }
        guard samplesPerMillion > 0, message.topic.index == Intake.commandsTopicIndex,
            random.next() % 1_000_000 < samplesPerMillion
        else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        let context = TraceContext(
            traceIdentifierHigh: random.next(),
            traceIdentifierLow: random.nextNonzero(),
            spanIdentifier: random.nextNonzero(),
            isSampled: true,
            hasRandomTraceIdentifier: true
        )
        return RecordTrace(context: context, beginsAtThisWorker: true).write(to: traceBuffer)
    }

    /// Returns the trace of a record whose outcome is known; nil if the trace is not exported.
    func makeFinishedTrace(_ trace: RecordTrace, _ view: RecordView, atWallMilliseconds: Int64) -> FinishedTrace? {
        guard traceRing != nil, trace.context.isSampled else { return nil }
        return FinishedTrace(trace, view, seed: spanSeed, finishedAtWallMilliseconds: atWallMilliseconds)
    }

    /// Returns the trace of a command to an audience after the command's fan-out; nil if the trace is not exported.
    func makeFannedOutTrace(
        _ trace: RecordTrace,
        _ view: RecordView,
        admittedAtWallMilliseconds: Int64,
        atWallMilliseconds: Int64
    ) -> FinishedTrace? {
        guard traceRing != nil, trace.context.isSampled else { return nil }
        return FinishedTrace(
            fannedOut: trace,
            view,
            seed: spanSeed,
            admittedAtWallMilliseconds: admittedAtWallMilliseconds,
            finishedAtWallMilliseconds: atWallMilliseconds
        )
    }

    /// Returns the trace for a command's fan-out records. It names the command's span in this worker if that span is
    /// exported. Otherwise it is the command's own trace.
    func makeFanoutTrace(_ trace: RecordTrace, offset: Int64) -> RecordTrace {
        guard traceRing != nil, trace.context.isSampled else { return trace }
        var trace = trace
        trace.context = FinishedTrace.context(of: trace, offset: offset, earlierResultCount: 0, seed: spanSeed)
        return trace
    }

    /// Returns the trace of a fan-out record whose range has ended; nil if traces are not exported or this trace is not
    /// sampled.
    func makeFinishedTrace(
        _ trace: RecordTrace,
        _ range: FinishedRange,
        appIndex: Int,
        atWallMilliseconds: Int64
    ) -> FinishedTrace? {
        guard traceRing != nil, trace.context.isSampled else { return nil }
        return FinishedTrace(
            trace,
            range,
            appIndex: appIndex,
            seed: spanSeed,
            finishedAtWallMilliseconds: atWallMilliseconds
        )
    }

    func export(_ trace: FinishedTrace) { traceRing?.push(trace) }
}
