import Delivery
import Kafka
import LiveActivity
import Observability
import Reactor

/// Commands that cannot be sent soon, into the deferred topic.
extension Lane {
    /// To the partition of the command's source, whose lane reads the activity's other commands: there the newer replaces the older.
    func produceDeferral(_ record: UInt32, tag: UInt64) -> ProduceOutcome {
        let view = delivery.view(record)
        var headers = ProducedHeaders(capacity: 7)
        let due = now.wallMilliseconds + plan.delivery.deferredDelayMilliseconds
        DeferredHeaders.append(view, topic: plan.delivery.name(of: view.topic), dueMilliseconds: due, to: &headers)
        if let trace = CarriedTrace(view.trace) { trace.append(to: &headers) }
        writer.reset()
        plan.applications[view.application].withUnsafeBytes { view.deferredCommand(app: $0).write(to: &writer) }
        return plan.producer.produce(
            topic: plan.topics.deferred,
            partition: defersToSourcePartition ? view.partition : -1,
            key: view.activity,
            value: writer.bytes,
            headers: headers,
            opaque: tag
        )
    }

    /// A deferred topic with fewer partitions than the others is written by the key.
    func noteDeferralFailure(_ error: Int32, of production: Production) {
        guard production.kind == .deferral, error == KafkaError.unknownPartition else { return }
        defersToSourcePartition = false
    }

    /// A pool that is back has what was deferred read at once. Not again within the delay: of a pool that comes and goes, and of the others whose
    /// commands lie between, everything would be read and deferred over and over.
    func reportPoolReturn() {
        guard delivery.takePoolReturn(), loop.nowMilliseconds >= poolReturnHeldUntilMilliseconds else { return }
        poolReturnHeldUntilMilliseconds = loop.nowMilliseconds + plan.delivery.deferredDelayMilliseconds
        mailbox.notePoolReturn(wallMilliseconds: now.wallMilliseconds)
        kafkaWakeup.signal()
    }
}
