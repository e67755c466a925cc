import Delivery
import Kafka
import Numbers
import Observability

/// The lane's part of tracing: it reads a record's trace from its headers, writes it to the records that follow from it, and gives
/// sampled traces to the exporter, if there is one.
final class LaneTraces {
    /// Where a trace is written for the core, which copies it.
    private let room: UnsafeMutableRawBufferPointer
    /// Nil: traces are not exported.
    private let ring: TraceRing?
    /// Of a million records of the commands topic that are in no trace, this many begin one.
    private let samplesPerMillion: UInt64
    /// Span ids follow from the seed, the parent and the offset, so a result that is produced twice names the same span.
    private let seed: UInt64
    private var randomness: SplitMix64

    init(ring: TraceRing?, samplesPerMillion: Int) {
        room = .allocate(byteCount: CarriedTrace.bytesMax, alignment: 8)
        self.ring = ring
        self.samplesPerMillion = ring == nil ? 0 : UInt64(clamping: samplesPerMillion)
        seed = UInt64.random(in: .min ... .max)
        randomness = SplitMix64(seed: seed)
    }

    deinit {
        room.deallocate()
    }

    /// The trace for the core to carry; empty for a record without a trace. Valid until the next call.
    func carried(by message: borrowing Message) -> UnsafeRawBufferPointer {
        if let headers = message.headers, let trace = CarriedTrace(headers) { return trace.write(to: room) }
        guard samplesPerMillion > 0, message.topic.index == Intake.commandsTopic,
            randomness.next() % 1_000_000 < samplesPerMillion
        else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        let context = TraceContext(
            traceHigh: randomness.next(),
            traceLow: randomness.nextNonzero(),
            span: randomness.nextNonzero(),
            isSampled: true,
            isRandom: true
        )
        return CarriedTrace(context: context, isBegunHere: true).write(to: room)
    }

    /// The trace of a record whose result is produced; nil if it is not exported.
    func finished(_ trace: CarriedTrace, _ view: RecordView, atMilliseconds: Int64) -> FinishedTrace? {
        guard ring != nil, trace.context.isSampled else { return nil }
        return FinishedTrace(trace, view, seed: seed, finishedMilliseconds: atMilliseconds)
    }

    /// The trace of a command to an audience that was fanned out; nil if it is not exported.
    func fannedOut(
        _ trace: CarriedTrace,
        _ view: RecordView,
        admittedMilliseconds: Int64,
        atMilliseconds: Int64
    ) -> FinishedTrace? {
        guard ring != nil, trace.context.isSampled else { return nil }
        return FinishedTrace(
            fannedOut: trace,
            view,
            seed: seed,
            admittedMilliseconds: admittedMilliseconds,
            finishedMilliseconds: atMilliseconds
        )
    }

    /// The trace for the fan-out records of a command: its span in this worker, if one is exported, else the trace that it came with.
    func fanout(_ trace: CarriedTrace, offset: Int64) -> CarriedTrace {
        guard ring != nil, trace.context.isSampled else { return trace }
        var trace = trace
        trace.context = FinishedTrace.context(of: trace, offset: offset, resultsBefore: 0, seed: seed)
        return trace
    }

    /// The trace of a range; nil if it is not exported.
    func finished(
        _ trace: CarriedTrace,
        _ range: FinishedRange,
        application: Int,
        atMilliseconds: Int64
    ) -> FinishedTrace? {
        guard ring != nil, trace.context.isSampled else { return nil }
        return FinishedTrace(
            trace,
            range,
            application: application,
            seed: seed,
            finishedMilliseconds: atMilliseconds
        )
    }

    func export(_ trace: FinishedTrace) { ring?.push(trace) }
}
