import Delivery
import Kafka
import LiveActivity
import Observability
import Reactor

/// Writes commands that cannot be sent soon to the deferred topic.
extension Lane {
    /// Writes a command to the deferred topic. Its record goes to the partition that has the same number as the
    /// command's own partition. One lane usually reads both partitions, so an activity's newer state still replaces an
    /// older one. But if `deferralsKeepPartitionNumber` is false, the record's key chooses the partition.
    func produceDeferral(_ record: RecordIndex, tag: UInt64) -> QueueingResult {
        let view = delivery.view(record)
        var headers = ProducedHeaders(capacity: 8)
        let dueWallMilliseconds = now.wallMilliseconds + delivery.configuration.reloadable.deferredDelayMilliseconds
        DeferredHeaders.append(
            view,
            topic: setup.deliveryConfiguration.name(of: view.sourceTopic),
            dueWallMilliseconds: dueWallMilliseconds,
            to: &headers
        )
        if let trace = RecordTrace(view.trace) { trace.append(to: &headers) }
        writer.reset()
        setup.bundleIds[view.appIndex].withUnsafeBytes { view.deferredCommand(app: $0).write(to: &writer) }
        return setup.producer.produce(
            topic: setup.topics.deferred,
            partition: deferralsKeepPartitionNumber ? view.sourcePartition : -1,
            key: view.activity,
            value: writer.bytes,
            headers: headers,
            // The Kafka thread that reads the record compares this time with the due time. If no time is given,
            // librdkafka takes the machine's clock, which may be wrong.
            timestampMilliseconds: now.wallMilliseconds,
            tag: tag
        )
    }

    /// Notes an error that shows that the deferred topic has fewer partitions than the commands topic. From then on,
    /// the key of a deferred record chooses its partition.
    ///
    /// Another lane may then read the deferred command. Redis still decides which state of the activity is the newest.
    /// But this lane may send a newer state before the deferred command's alert has rung.
    func noteDeferralFailure(_ errorCode: Int32, of outgoingRecord: OutgoingRecord) {
        guard outgoingRecord.kind == .deferral, errorCode == KafkaError.unknownPartitionCode else { return }
        deferralsKeepPartitionNumber = false
    }

    /// Asks the Kafka thread to read this lane's deferred records at once, even those that are not due, because an APNs
    /// pool works again, or perhaps does. The core decides when to ask (`PoolRecoveryReports`).
    func reportPoolRecovery() {
        guard delivery.takeDuePoolRecoveryReport(now: now) else { return }
        mailbox.notePoolRecovery(atWallMilliseconds: now.wallMilliseconds)
        kafkaWakeup.signal()
    }
}
