import Delivery
import LiveActivity

/// What a lane tells of one record of a sampled trace when its result is produced: enough for its spans, and of fixed size.
public struct FinishedTrace: BitwiseCopyable, Equatable {
    public var context: TraceContext
    /// The span that the record's producer named; nil where the trace begins here.
    var parent: UInt64?
    var topic: RecordTopic
    var partition: Int32
    var offset: Int64
    /// Index of the app; past the end for none.
    var application: Int
    var event: Event
    var outcome: Outcome
    var priority: UInt8
    var attempts: UInt8
    /// 0 where nothing was answered.
    var status: UInt16
    /// UNIX milliseconds; -1 where it did not come to that.
    var receivedMilliseconds: Int64
    var admittedMilliseconds: Int64
    var sentMilliseconds: Int64
    var answeredMilliseconds: Int64
    var finishedMilliseconds: Int64

    /// - Parameters:
    ///   - trace: as it came with the record, or was begun here.
    ///   - seed: of the lane. A record whose result is produced a second time has the same spans as the first time.
    public init(_ trace: CarriedTrace, _ view: RecordView, seed: UInt64, finishedMilliseconds: Int64) {
        // What a record's token set free is another part of the same trace.
        let isRoot = trace.isBegunHere && view.resultsBefore == 0
        let number = UInt64(truncatingIfNeeded: view.offset) ^ UInt64(view.resultsBefore) << 56
        let span = isRoot ? trace.context.span : Self.span(seed ^ trace.context.span, number)
        context = trace.context.child(span: span)
        parent = isRoot ? nil : trace.context.span
        topic = view.topic
        partition = view.partition
        offset = view.offset
        application = view.application
        event = view.event
        outcome = view.outcome
        priority = view.priority
        attempts = view.attempts
        status = view.status
        receivedMilliseconds = view.receivedMilliseconds
        admittedMilliseconds = view.admittedMilliseconds
        sentMilliseconds = view.sentMilliseconds
        answeredMilliseconds = view.answeredMilliseconds
        self.finishedMilliseconds = finishedMilliseconds
    }

    /// The id of a span inside this one.
    func span(inside number: UInt64) -> UInt64 { Self.span(context.span, number) }

    /// Two numbers as a third that looks like neither and is not zero.
    private static func span(_ first: UInt64, _ second: UInt64) -> UInt64 {
        var generator = TraceRandomness(seed: first &+ second &* 0xD6E8_FEB8_6659_FD93)
        return generator.nextIdentifier()
    }
}

/// Ids for traces and spans, and the draw whether a trace is begun: SplitMix64 (https://prng.di.unimi.it/splitmix64.c).
public struct TraceRandomness {
    private var state: UInt64

    /// The same seed draws the same numbers.
    public init(seed: UInt64) { state = seed }

    /// Any number, each as likely.
    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }

    /// Never zero, which is no id.
    public mutating func nextIdentifier() -> UInt64 {
        let value = next()
        return value == 0 ? 1 : value
    }
}
