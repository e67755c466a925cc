import Delivery
public import LiveActivity
import Numbers

/// A lane's report about one record of a sampled trace. The lane makes it in one of these cases:
/// - It has produced a result of the record.
/// - It has fanned out the record's command.
/// - It has finished the record without a result.
///
/// The report has all data for the record's spans in a fixed size, so a `TraceRing` carries it to the exporter without
/// allocation.
public struct FinishedTrace: BitwiseCopyable, Equatable, Sendable {
    /// What became of the record.
    enum RecordOutcome: BitwiseCopyable, Equatable, Sendable {
        case outcome(Outcome)
        /// The command went to an audience, and was fanned out. The records for its ranges belong to the same trace.
        case fannedOut
        /// A range of a command to an audience is finished. `memberCount` is the number of members that the range's
        /// round has passed.
        case range(FanoutOutcome, memberCount: UInt32)
    }

    public var context: TraceContext
    /// The parent of the record's span: the span that the record's producer named. If it named none, the record's first
    /// result is the root of the trace and has no parent (nil). Its span is the parent of the spans of the record's
    /// further results.
    var parentSpanIdentifier: UInt64?
    /// The topic of the record. Not used for a range, because its record is always on the fan-out topic.
    var topic: RecordTopic
    var partition: Int32
    var offset: Int64
    /// The index of the app. An index above that of the last app means: no configured app.
    var appIndex: Int
    var event: Event
    var recordOutcome: RecordOutcome
    var priority: UInt8
    var attemptCount: UInt8
    /// The status of APNs' response; 0 if APNs did not respond.
    var status: UInt16
    /// The times of the record's steps, UNIX milliseconds; -1 for a step that did not happen.
    var receivedAtWallMilliseconds: Int64
    var admittedAtWallMilliseconds: Int64
    var sentAtWallMilliseconds: Int64
    var responseAtWallMilliseconds: Int64
    var finishedAtWallMilliseconds: Int64

    /// - Parameters:
    ///   - trace: the trace that came with the record, or that begins at this worker.
    ///   - seed: the lane's seed for span ids. With the same seed, a repeated result gets the same span ids.
    public init(_ trace: RecordTrace, _ view: RecordView, seed: UInt64, finishedAtWallMilliseconds: Int64) {
        // Only the first result of a record can be the root of the trace. A registration has further results: those of
        // the held commands that its token releases.
        let isRoot = trace.beginsAtThisWorker && view.earlierResultCount == 0
        context = Self.context(
            of: trace,
            offset: view.sourceOffset,
            earlierResultCount: view.earlierResultCount,
            seed: seed
        )
        parentSpanIdentifier = isRoot ? nil : trace.context.spanIdentifier
        topic = view.sourceTopic
        partition = view.sourcePartition
        offset = view.sourceOffset
        appIndex = view.appIndex
        event = view.event
        recordOutcome = .outcome(view.outcome)
        priority = view.priority
        attemptCount = view.attemptCount
        status = view.httpStatus ?? 0
        receivedAtWallMilliseconds = view.receivedAtWallMilliseconds
        admittedAtWallMilliseconds = view.admittedAtWallMilliseconds ?? -1
        sentAtWallMilliseconds = view.sentAtWallMilliseconds ?? -1
        responseAtWallMilliseconds = view.responseAtWallMilliseconds ?? -1
        self.finishedAtWallMilliseconds = finishedAtWallMilliseconds
    }

    /// Makes the trace report of a command to an audience after the command's fan-out.
    ///
    /// - Parameter admittedAtWallMilliseconds: when the command was admitted, UNIX milliseconds.
    public init(
        fannedOut trace: RecordTrace,
        _ view: RecordView,
        seed: UInt64,
        admittedAtWallMilliseconds: Int64,
        finishedAtWallMilliseconds: Int64
    ) {
        self.init(trace, view, seed: seed, finishedAtWallMilliseconds: finishedAtWallMilliseconds)
        recordOutcome = .fannedOut
        self.admittedAtWallMilliseconds = admittedAtWallMilliseconds
    }

    /// Makes the trace report of a finished range. The parent of the range's span is the command's span, which the
    /// fan-out record names.
    public init(
        _ trace: RecordTrace,
        _ range: FinishedRange,
        appIndex: Int,
        seed: UInt64,
        finishedAtWallMilliseconds: Int64
    ) {
        context = Self.context(of: trace, offset: range.offset, earlierResultCount: 0, seed: seed)
        parentSpanIdentifier = trace.context.spanIdentifier
        topic = .commands
        partition = range.partition
        offset = range.offset
        self.appIndex = appIndex
        event = range.event
        recordOutcome = .range(range.outcome, memberCount: range.memberCount)
        priority = range.priority
        attemptCount = 0
        status = 0
        receivedAtWallMilliseconds = range.receivedAtWallMilliseconds
        admittedAtWallMilliseconds = -1
        sentAtWallMilliseconds = -1
        responseAtWallMilliseconds = -1
        self.finishedAtWallMilliseconds = finishedAtWallMilliseconds
    }

    /// Returns the trace context that names the span of one result of a record. Each of a record's results has its own
    /// span.
    ///
    /// The span's id is derived from the parameters, so a fan-out record can name its command's span before the export.
    /// Exception: if the trace begins at this worker, the first result has the span that `trace` names.
    ///
    /// - Parameters:
    ///   - trace: the trace of the record. The span that it names is the parent of the result's span.
    ///   - offset: the offset of the record.
    ///   - earlierResultCount: how many results the record had before this one.
    ///   - seed: the lane's seed for span ids.
    public static func context(of trace: RecordTrace, offset: Int64, earlierResultCount: Int, seed: UInt64)
        -> TraceContext
    {
        guard !trace.beginsAtThisWorker || earlierResultCount > 0 else { return trace.context }
        let number = UInt64(truncatingIfNeeded: offset) ^ UInt64(earlierResultCount) << 56
        return trace.context.child(spanIdentifier: deriveSpanIdentifier(seed ^ trace.context.spanIdentifier, number))
    }

    /// Returns the id of one of the record's child spans. `SpanEncoder` numbers them: `admit` is 1, `send` is 2.
    func childSpanIdentifier(number: UInt64) -> UInt64 { Self.deriveSpanIdentifier(context.spanIdentifier, number) }

    /// Returns a span id that depends only on the two numbers. It is never 0, because a span id of zeros is invalid
    /// (https://www.w3.org/TR/trace-context/).
    private static func deriveSpanIdentifier(_ first: UInt64, _ second: UInt64) -> UInt64 {
        var generator = SplitMix64(seed: first &+ second &* 0xD6E8_FEB8_6659_FD93)
        return generator.nextNonzero()
    }
}

/// The data of a finished range for its span.
public struct FinishedRange: BitwiseCopyable, Sendable {
    /// The partition of the fan-out record.
    public var partition: Int32
    public var offset: Int64
    public var event: Event
    public var outcome: FanoutOutcome
    /// The number of members that the range's round has passed.
    public var memberCount: UInt32
    /// The priority (5 or 10) of pushes to members whose users do not allow frequent updates. Pushes to other members
    /// may have another priority.
    public var priority: UInt8
    /// When the fan-out record was received, UNIX milliseconds.
    public var receivedAtWallMilliseconds: Int64

    public init(
        partition: Int32,
        offset: Int64,
        event: Event,
        outcome: FanoutOutcome,
        memberCount: UInt32,
        priority: UInt8,
        receivedAtWallMilliseconds: Int64
    ) {
        self.partition = partition
        self.offset = offset
        self.event = event
        self.outcome = outcome
        self.memberCount = memberCount
        self.priority = priority
        self.receivedAtWallMilliseconds = receivedAtWallMilliseconds
    }
}
