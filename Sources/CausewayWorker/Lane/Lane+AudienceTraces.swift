import Audiences
import Delivery
import LiveActivity
import Observability

/// Traces of commands to audiences: a span for the command, and inside it one span for each range.
extension Lane {
    /// Counts a command that was fanned out, and exports its trace if it has one. The command's span ends now: each
    /// range has a record and a span of its own.
    func countAndTraceFannedOutCommand(_ command: ReturnedCommand) {
        let view = delivery.view(command.record)
        metrics.add(.audienceCommands, view.appIndex)
        guard let trace = RecordTrace(view.trace),
            let finishedTrace = tracer.makeFannedOutTrace(
                trace,
                view,
                admittedAtWallMilliseconds: command.admittedAtWallMilliseconds ?? -1,
                atWallMilliseconds: now.wallMilliseconds
            )
        else { return }
        tracer.export(finishedTrace)
    }

    /// Returns the trace for the record's headers; nil if the record has no trace. For the result of a range, also
    /// returns the trace to export; nil if none is exported.
    func makeTraces(
        of outgoingRecord: OutgoingAudienceRecord,
        _ record: ComposedRecord
    ) -> (forHeaders: RecordTrace?, toExport: FinishedTrace?) {
        guard var trace = RecordTrace(record.trace) else { return (nil, nil) }
        if let instruction = record.fanoutInstruction {
            return (tracer.makeFanoutTrace(trace, offset: instruction.offset), nil)
        }
        // A result about a range names the range's span. A broadcast has no span. So if a broadcast ends last, the
        // command's result names the command's own span.
        guard outgoingRecord.kind != .commandResultAfterBroadcast,
            let resultContent = audiences.resultContent(of: outgoingRecord),
            let finishedTrace = tracer.makeFinishedTrace(
                trace,
                FinishedRange(resultContent),
                appIndex: audiences.appIndex(of: outgoingRecord),
                atWallMilliseconds: now.wallMilliseconds
            )
        else { return (trace, nil) }
        trace.context = finishedTrace.context
        // Export a range's span only with the range's own result. If this range ended last, the command's result names
        // the span too.
        return (trace, outgoingRecord.kind == .rangeResult ? finishedTrace : nil)
    }
}

extension FinishedRange {
    fileprivate init(_ resultContent: AudienceResultContent) {
        self.init(
            partition: resultContent.partition,
            offset: resultContent.offset,
            event: resultContent.event,
            outcome: resultContent.outcome,
            memberCount: resultContent.memberCount,
            priority: resultContent.priority,
            receivedAtWallMilliseconds: resultContent.receivedAtWallMilliseconds
        )
    }
}
