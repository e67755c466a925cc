import Delivery
import Kafka
import LiveActivity
import Observability

/// Gives the results, invalidations, dead letters and deferred commands of the core for single activities to the
/// producer.
extension Lane {
    /// Gives the waiting records to the producer, until none waits or the producer's queue is full.
    func produceOutgoingRecords() {
        while let outgoingRecord = delivery.nextOutgoingRecord(now: now) {
            let tag = UInt64(number) << ProducerTag.laneShift | outgoingRecord.tag
            let queueingResult =
                switch outgoingRecord.kind {
                case .result: produceResult(outgoingRecord.record, tag: tag)
                case .invalidation: produceInvalidation(outgoingRecord.record, tag: tag)
                case .deadLetter: produceDeadLetter(outgoingRecord.record, tag: tag)
                case .deferral: produceDeferral(outgoingRecord.record, tag: tag)
                case .traceOnly: exportTrace(of: outgoingRecord.record)
                }
            switch queueingResult {
            case .queued:
                delivery.removeNextOutgoingRecord(outgoingRecord)
                if outgoingRecord.kind == .traceOnly {
                    delivery.handleDeliveryReport(outgoingRecord, .acknowledged, now: now)
                }
            case .queueFull:
                // The lane tries again in its next iteration. Usually a delivery report causes this iteration, and
                // makes room in the producer. If no report comes, the timer of `reportOffsets` causes the iteration.
                return
            case .failed(let error):
                delivery.removeNextOutgoingRecord(outgoingRecord)
                noteDeferralFailure(error.code, of: outgoingRecord)
                let isGivenUp = delivery.handleDeliveryReport(
                    outgoingRecord,
                    Self.makeKafkaReport(of: error.code),
                    now: now
                )
                // A failed deferral may have put its command back among the waiting commands of its activity. The core
                // begins these at the end of an iteration.
                requestCallAtIterationEnd()
                logUnwrittenRecord(error, to: findTopic(of: outgoingRecord.kind), isGivenUp: isGivenUp)
            }
        }
    }

    /// Returns the topic of a kind of record. (`traceOnly` goes to no topic, so nobody needs its topic.)
    func findTopic(of kind: OutgoingRecord.Kind) -> ProducerTopic {
        switch kind {
        case .result, .traceOnly: setup.topics.results
        case .invalidation: setup.topics.invalidations
        case .deadLetter: setup.topics.deadLetters
        case .deferral: setup.topics.deferred
        }
    }

    /// Exports the trace of a record that gets no result. (`produceResult` exports those of records with a result.)
    /// Always returns `.queued`, because nothing is written to Kafka.
    private func exportTrace(of record: RecordIndex) -> QueueingResult {
        let view = delivery.view(record)
        if let trace = RecordTrace(view.trace),
            let finishedTrace = tracer.makeFinishedTrace(trace, view, atWallMilliseconds: now.wallMilliseconds)
        {
            tracer.export(finishedTrace)
        }
        return .queued
    }

    private func produceResult(_ record: RecordIndex, tag: UInt64) -> QueueingResult {
        let view = delivery.view(record)
        let topic = setup.deliveryConfiguration.name(of: view.sourceTopic)
        let app = view.configuredAppIndex.map { setup.bundleIds[$0] }
        writer.reset()
        return topic.withUnsafeBytes { topic in
            var result = Self.makeResultRecord(of: view, topic: topic)
            write(&result, app: app)
            let key =
                view.isAudienceCommand
                ? (view.channel.isEmpty ? view.audience : view.channel)
                : view.activity.isEmpty ? view.deadLetterKey : view.activity
            guard var trace = RecordTrace(view.trace) else {
                return setup.producer.produce(
                    topic: setup.topics.results,
                    key: key,
                    value: writer.bytes,
                    tag: tag
                )
            }
            // The result's headers name the span that this worker exports or, without such a span, the command's own.
            let finishedTrace = tracer.makeFinishedTrace(trace, view, atWallMilliseconds: now.wallMilliseconds)
            if let finishedTrace { trace.context = finishedTrace.context }
            var headers = ProducedHeaders(capacity: 2)
            trace.append(to: &headers)
            let queueingResult = setup.producer.produce(
                topic: setup.topics.results,
                key: key,
                value: writer.bytes,
                headers: headers,
                tag: tag
            )
            if case .queued = queueingResult, let finishedTrace { tracer.export(finishedTrace) }
            return queueingResult
        }
    }

    /// Returns the record's result without its app, which the caller adds.
    private static func makeResultRecord(of view: RecordView, topic: UnsafeRawBufferPointer) -> ResultRecord {
        var result = ResultRecord(
            outcome: view.outcome,
            sourceTopic: topic,
            sourcePartition: view.sourcePartition,
            sourceOffset: view.sourceOffset
        )
        result.commandIdentifier = view.commandIdentifier
        result.activity = view.activity.isEmpty ? nil : view.activity
        result.audience = view.audience.isEmpty ? nil : view.audience
        if !view.channel.isEmpty { result.channel = (view.channel, view.environment) }
        result.device = view.device.isEmpty ? nil : view.device
        result.status = view.httpStatus ?? 0
        result.reason = view.reason.isEmpty ? nil : view.reason
        // If nothing was sent, for example because no connection was ready, the result describes no push.
        if view.sentAtWallMilliseconds != nil {
            result.apnsId = view.apnsId
            result.sentTimestamp = view.sentTimestamp
            result.priority = view.priority
        }
        result.isLifetimeCommand = view.isLifetimeCommand
        result.supersededCount = view.supersededCount
        result.isDemoted = view.isDemoted
        result.budgetLeft = view.budgetLeft ?? -1
        result.droppedFieldNames = view.droppedFields
        result.policy = view.policyName.isEmpty ? nil : view.policyName
        result.attemptCount = Int(view.attemptCount)
        result.recordTimestampMilliseconds = view.recordTimestampMilliseconds
        result.receivedAtMilliseconds = view.receivedAtWallMilliseconds
        result.admittedAtMilliseconds = view.admittedAtWallMilliseconds ?? -1
        result.sentAtMilliseconds = view.sentAtWallMilliseconds ?? -1
        result.responseAtMilliseconds = view.responseAtWallMilliseconds ?? -1
        return result
    }

    private func write(_ result: inout ResultRecord, app: [UInt8]?) {
        guard let app else { return result.write(to: &writer) }
        app.withUnsafeBytes { app in
            result.app = app
            result.write(to: &writer)
        }
    }

    private func produceInvalidation(_ record: RecordIndex, tag: UInt64) -> QueueingResult {
        let view = delivery.view(record)
        writer.reset()
        return setup.bundleIds[view.appIndex]
            .withUnsafeBytes { app in
                InvalidationRecord(
                    app: app,
                    address: view.isStart ? .device(view.device) : .activity(view.activity),
                    token: view.token,
                    environment: view.environment,
                    reason: view.reason,
                    invalidAtMilliseconds: view.invalidAtWallMilliseconds
                )
                .write(to: &writer)
                return setup.producer.produce(
                    topic: setup.topics.invalidations,
                    key: view.isStart ? view.device : view.activity,
                    value: writer.bytes,
                    tag: tag
                )
            }
    }

    private func produceDeadLetter(_ record: RecordIndex, tag: UInt64) -> QueueingResult {
        let view = delivery.view(record)
        var headers = ProducedHeaders(capacity: 5)
        headers.append("error", view.reason)
        headers.append("detail", view.deadLetterDetail)
        var source = delivery.sourceText(of: record)
        source.withUTF8 { headers.append("source", UnsafeRawBufferPointer($0)) }
        if var trace = RecordTrace(view.trace) {
            let finishedTrace = tracer.makeFinishedTrace(trace, view, atWallMilliseconds: now.wallMilliseconds)
            if let finishedTrace { trace.context = finishedTrace.context }
            trace.append(to: &headers)
        }
        return setup.producer.produce(
            topic: setup.topics.deadLetters,
            key: view.deadLetterKey,
            value: view.deadLetterValue,
            headers: headers,
            tag: tag
        )
    }
}

/// The number that a lane gives to the producer with a record. librdkafka returns this number with the delivery report.
/// - Bits 48 to 63 are the number of the lane.
/// - Bits 0 to 47 name the outgoing record in its core (`OutgoingRecord.tag` or `OutgoingAudienceRecord.tag`).
enum ProducerTag {
    static let laneShift: UInt64 = 48

    static func lane(of reportTag: UInt64) -> Int { Int(reportTag >> laneShift) }
    static func outgoingRecordTag(of reportTag: UInt64) -> UInt64 { reportTag & (1 << laneShift - 1) }
}
