import Delivery
import Kafka
import Numbers
import Observability

/// What a lane does for traces: it takes a record's place in one from its headers, puts it into those of what the record comes to, and
/// tells the exporter of it, if there is one and the trace is sampled.
final class LaneTraces {
    /// Where a trace is written down for the core, which copies it.
    private let room: UnsafeMutableRawBufferPointer
    /// Nil: nothing is exported.
    private let ring: TraceRing?
    /// Of a million records of the commands topic that are in no trace, how many begin one.
    private let samplesPerMillion: UInt64
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

    /// For the core to carry; empty of a record that is in no trace. Valid until the next call.
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

    /// The trace of a record whose result is produced; nil if it is to be told to nobody.
    func finished(_ trace: CarriedTrace, _ view: RecordView, atMilliseconds: Int64) -> FinishedTrace? {
        guard ring != nil, trace.context.isSampled else { return nil }
        return FinishedTrace(trace, view, seed: seed, finishedMilliseconds: atMilliseconds)
    }

    /// The trace of a command to an audience that was fanned out; nil if it is to be told to nobody.
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

    /// What the fan-out records of a command name: its span here, if there will be one, else what it came with.
    func fanout(_ trace: CarriedTrace, offset: Int64) -> CarriedTrace {
        guard ring != nil, trace.context.isSampled else { return trace }
        var trace = trace
        trace.context = FinishedTrace.context(of: trace, offset: offset, resultsBefore: 0, seed: seed)
        return trace
    }

    /// The trace of a range; nil if it is to be told to nobody.
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
