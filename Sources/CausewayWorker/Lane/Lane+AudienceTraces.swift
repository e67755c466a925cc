import Audiences
import Delivery
import LiveActivity
import Observability

/// Commands to audiences in their traces: the command's span, and in it one for each range.
extension Lane {
    /// A command is over here: its ranges are records of their own.
    func noteFannedOut(_ command: HandedBack) {
        let view = delivery.view(command.record)
        metrics.add(.audienceCommands, view.application)
        guard let trace = CarriedTrace(view.trace),
            let finished = traces.fannedOut(
                trace,
                view,
                admittedMilliseconds: command.admittedMilliseconds,
                atMilliseconds: now.wallMilliseconds
            )
        else { return }
        traces.export(finished)
    }

    /// What a record names, and what is told of a range whose result it is.
    func trace(
        of production: AudienceProduction,
        _ record: ComposedRecord
    ) -> (carried: CarriedTrace?, finished: FinishedTrace?) {
        guard var trace = CarriedTrace(record.trace) else { return (nil, nil) }
        if let order = record.order { return (traces.fanout(trace, offset: order.offset), nil) }
        guard let round = audiences.finished(by: production),
            let finished = traces.finished(
                trace,
                FinishedRange(round),
                application: audiences.application(of: production),
                atMilliseconds: now.wallMilliseconds
            )
        else { return (trace, nil) }
        trace.context = finished.context
        // The command's result names its last range, which is told of with that range's own.
        return (trace, production.kind == .rangeResult ? finished : nil)
    }
}

extension FinishedRange {
    fileprivate init(_ round: FinishedRound) {
        self.init(
            partition: round.partition,
            offset: round.offset,
            event: round.event,
            outcome: round.outcome,
            members: round.members,
            priority: round.priority,
            receivedMilliseconds: round.receivedMilliseconds
        )
    }
}
