import Delivery
public import LiveActivity
import Numbers

/// What a lane tells of one record of a sampled trace when its result is produced: enough for its spans, and of fixed size.
public struct FinishedTrace: BitwiseCopyable, Equatable {
    /// What a record came to.
    enum Ending: BitwiseCopyable, Equatable {
        case outcome(Outcome)
        /// A command to an audience became a record for each range of its members: these are parts of the same trace.
        case fannedOut
        /// One of these ranges was done; so many members had their turn.
        case range(RoundOutcome, members: UInt32)
    }

    public var context: TraceContext
    /// The span that the record's producer named; nil where the trace begins here.
    var parent: UInt64?
    /// Of a range it has no meaning.
    var topic: RecordTopic
    var partition: Int32
    var offset: Int64
    /// Index of the app; past the end for none.
    var application: Int
    var event: Event
    var ending: Ending
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
        context = Self.context(of: trace, offset: view.offset, resultsBefore: view.resultsBefore, seed: seed)
        parent = isRoot ? nil : trace.context.span
        topic = view.topic
        partition = view.partition
        offset = view.offset
        application = view.application
        event = view.event
        ending = .outcome(view.outcome)
        priority = view.priority
        attempts = view.attempts
        status = view.status
        receivedMilliseconds = view.receivedMilliseconds
        admittedMilliseconds = view.admittedMilliseconds
        sentMilliseconds = view.sentMilliseconds
        answeredMilliseconds = view.answeredMilliseconds
        self.finishedMilliseconds = finishedMilliseconds
    }

    /// A command to an audience is over for the lane that has fanned it out.
    ///
    /// - Parameter admittedMilliseconds: UNIX milliseconds.
    public init(
        fannedOut trace: CarriedTrace,
        _ view: RecordView,
        seed: UInt64,
        admittedMilliseconds: Int64,
        finishedMilliseconds: Int64
    ) {
        self.init(trace, view, seed: seed, finishedMilliseconds: finishedMilliseconds)
        ending = .fannedOut
        self.admittedMilliseconds = admittedMilliseconds
    }

    /// One range of a command to an audience is done. Its fan-out record names the command's span.
    public init(
        _ trace: CarriedTrace,
        _ range: FinishedRange,
        application: Int,
        seed: UInt64,
        finishedMilliseconds: Int64
    ) {
        context = Self.context(of: trace, offset: range.offset, resultsBefore: 0, seed: seed)
        parent = trace.context.span
        topic = .commands
        partition = range.partition
        offset = range.offset
        self.application = application
        event = range.event
        ending = .range(range.outcome, members: range.members)
        priority = range.priority
        attempts = 0
        status = 0
        receivedMilliseconds = range.receivedMilliseconds
        admittedMilliseconds = -1
        sentMilliseconds = -1
        answeredMilliseconds = -1
        self.finishedMilliseconds = finishedMilliseconds
    }

    /// The trace, and in it the span of what is done with a record: the same each time that it is asked for.
    public static func context(of trace: CarriedTrace, offset: Int64, resultsBefore: Int, seed: UInt64) -> TraceContext
    {
        guard !trace.isBegunHere || resultsBefore > 0 else { return trace.context }
        let number = UInt64(truncatingIfNeeded: offset) ^ UInt64(resultsBefore) << 56
        return trace.context.child(span: span(seed ^ trace.context.span, number))
    }

    /// The id of a span inside this one.
    func span(inside number: UInt64) -> UInt64 { Self.span(context.span, number) }

    /// Two numbers as a third that looks like neither and is not zero.
    private static func span(_ first: UInt64, _ second: UInt64) -> UInt64 {
        var generator = SplitMix64(seed: first &+ second &* 0xD6E8_FEB8_6659_FD93)
        return generator.nextNonzero()
    }
}

/// A range of a command to an audience that is done, as its span has it.
public struct FinishedRange: BitwiseCopyable, Sendable {
    /// The fan-out record.
    public var partition: Int32
    public var offset: Int64
    public var event: Event
    public var outcome: RoundOutcome
    /// Members that had their turn.
    public var members: UInt32
    /// 5 or 10; of members without frequent updates.
    public var priority: UInt8
    /// Of the fan-out record, UNIX milliseconds.
    public var receivedMilliseconds: Int64

    public init(
        partition: Int32,
        offset: Int64,
        event: Event,
        outcome: RoundOutcome,
        members: UInt32,
        priority: UInt8,
        receivedMilliseconds: Int64
    ) {
        self.partition = partition
        self.offset = offset
        self.event = event
        self.outcome = outcome
        self.members = members
        self.priority = priority
        self.receivedMilliseconds = receivedMilliseconds
    }
}
