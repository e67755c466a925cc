import Audiences
import Delivery
import Kafka
import Observability
import Reactor

/// What a lane takes from the Kafka thread: orders, records and delivery reports.
extension Lane {
    /// The maximum number of records that one iteration takes from the inbox. This bounds the duration of an iteration.
    /// The number is large, so that newer states replace many older ones before a command begins.
    private static let recordsPerIterationMax = 4_096
    /// How many records the lane takes from the inbox before it produces the pending results. In a backlog, most of the
    /// taken records finish at once, and their memory is then still in the processor's cache.
    private static let takenRecordsPerProduction = 256
    /// The maximum number of delivery reports that one iteration takes. This bounds the duration of an iteration.
    private static let deliveryReportsPerIterationMax = 16_384
    /// How far ahead in the queue of delivery reports a report's record is prefetched into the processor's cache. About
    /// six reports are handled in the time of one memory access.
    private static let deliveryReportPrefetchDistance = 6
    /// How far ahead in the inbox a record's message is prefetched into the processor's cache; 0: the next record.
    private static let messagePrefetchDistance = 2
    /// How far ahead in the inbox a record's value is prefetched; 0: the next record. The value's address is in the
    /// message, so the message must be prefetched earlier (`messagePrefetchDistance`).
    private static let valuePrefetchDistance = 0

    func takeLaneOrders() {
        while let order = mailbox.orders.pop() {
            switch order.kind {
            case .assign: assign(order)
            case .revoke: revoke(order)
            case .release: release(order)
            case .noteLogEnd: noteLogEnd(order)
            case .takeSettings: takeSettings()
            case .stop: loop.stop()
            }
        }
    }

    private func takeSettings() {
        guard let settings = mailbox.takeSettings() else { return }
        delivery.apply(settings)
        audiences.apply(settings)
    }

    /// Tells the core the lag: how many records of each partition of the commands topic the lane has not taken yet. The
    /// lane does this once an iteration, before the core begins to work on new records.
    func noteLag() {
        for entryIndex in partitions.entries.indices where partitions[entryIndex].topic == Intake.commandsTopicIndex {
            let (recordCount, isGuess) = partitions.countUntakenRecords(
                at: entryIndex,
                assumedRecordCount: delivery.configuration.reloadable.readAheadLagRecords + 1,
                nowMilliseconds: loop.nowMilliseconds
            )
            delivery.noteLag(
                partitions[entryIndex].indexInCore,
                recordCount: recordCount,
                isGuess: isGuess,
                now: now
            )
        }
    }

    /// Takes records from the inbox until the inbox is empty, a record must wait for room, or the iteration has taken
    /// its maximum (`recordsPerIterationMax`).
    ///
    /// Even if the cores have no room, this method discards the records of ended assignments at the front of the inbox,
    /// because each such record keeps the memory of its fetched batch.
    func takeRecords() {
        var takenCount = 0
        while takenCount < Self.recordsPerIterationMax {
            guard let entry = entryAwaitingRoom ?? mailbox.inbox.pop() else { return }
            entryAwaitingRoom = nil
            prefetchRecords()
            // If the lane does not know the partition, take the orders now: the Kafka thread may have sent the
            // `LaneOrder` that assigns the partition after this iteration took its orders.
            if partitions.entryIndex(topic: entry.topic, partition: entry.partition) == nil { takeLaneOrders() }
            guard takeUnlessFull(entry) else {
                entryAwaitingRoom = entry
                return
            }
            takenCount += 1
            if takenCount % Self.takenRecordsPerProduction == 0 { produceOutgoingRecords() }
        }
        // The inbox may have more records, so wake the lane for another iteration.
        mailbox.wakeup.signal()
    }

    /// Prefetches the next records while the current record is handled. Another thread wrote the records, so they are
    /// not in this processor's cache.
    private func prefetchRecords() {
        if let entry = mailbox.inbox.peek(at: Self.messagePrefetchDistance),
            let pointer = Message.Pointer(bitPattern: entry.messageAddress)
        {
            Message.prefetch(pointer)
        }
        if let entry = mailbox.inbox.peek(at: Self.valuePrefetchDistance),
            let pointer = Message.Pointer(bitPattern: entry.messageAddress)
        {
            Message.prefetchValue(of: pointer)
        }
    }

    /// Gives one record to its core, or discards it for one of these reasons:
    /// - Its assignment has ended.
    /// - The lane has requested a rewind after the record was dealt, so the record is read again.
    /// - Its partition's ledger is full, and the partition is being revoked.
    /// - Its partition's ledger is full behind an old record. The lane then requests a rewind, so that other partitions
    ///   do not wait.
    ///
    /// - Returns: false if the record must wait. The entry keeps its message, and the caller tries again in a later
    ///   iteration.
    private func takeUnlessFull(_ entry: InboxEntry) -> Bool {
        guard let pointer = Message.Pointer(bitPattern: entry.messageAddress) else { return true }
        let message = Message(taking: pointer)
        guard let entryIndex = partitions.entryIndex(topic: entry.topic, partition: entry.partition),
            partitions[entryIndex].expects(entry)
        else { return true }
        let indexInCore = partitions[entryIndex].indexInCore
        guard delivery.canReceive else {
            _ = message.releaseOwnership()
            return false
        }
        guard hasRoom(for: message.offset, partitions[entryIndex]) else {
            if requestRewindAfterPause(entryIndex, to: message.offset) { return true }
            _ = message.releaseOwnership()
            return false
        }
        partitions[entryIndex].nextOffset = message.offset + 1
        metrics.add(.recordsReceived, Int(entry.topic))
        let record = IncomingRecord(
            partitionIndex: indexInCore,
            offset: message.offset,
            timestampMilliseconds: message.timestampMilliseconds,
            key: message.key,
            value: message.value,
            trace: tracer.writeTrace(of: message)
        )
        if entry.topic == Intake.fanoutTopicIndex {
            audiences.receiveFanoutRecord(
                record,
                instruction: FanoutHeaders.readInstruction(of: message),
                droppedFields: DroppedFieldsHeader.read(from: message),
                now: now
            )
        } else if entry.topic == Intake.deferredTopicIndex, let deferral = DeferredHeaders.readDeferral(of: message) {
            delivery.receive(
                record,
                deferred: deferral,
                droppedFields: DroppedFieldsHeader.read(from: message),
                now: now
            )
        } else {
            delivery.receive(record, now: now)
        }
        return true
    }

    /// Passes Kafka's reports about this lane's outgoing records to the cores that made the records.
    func takeDeliveryReports() {
        var takenCount = 0
        while takenCount < Self.deliveryReportsPerIterationMax, let report = mailbox.deliveryReports.pop() {
            takenCount += 1
            if let audienceRecord = OutgoingAudienceRecord(tag: report.tag) {
                if report.errorCode == 0 { countAcknowledged(audienceRecord) }
                let isGivenUp = audiences.handleDeliveryReport(
                    audienceRecord,
                    Self.makeKafkaReport(of: report.errorCode),
                    now: now
                )
                if report.errorCode != 0 {
                    logFailure(of: report, to: findTopic(of: audienceRecord.kind), isGivenUp: isGivenUp)
                }
                continue
            }
            // Prefetch the core's record that a later report is about. The core last used it a while ago, so it has
            // left the processor's cache.
            if let laterReport = mailbox.deliveryReports.peek(at: Self.deliveryReportPrefetchDistance),
                let laterRecord = OutgoingRecord(tag: laterReport.tag)
            {
                delivery.prefetchRecord(of: laterRecord)
            }
            guard let outgoingRecord = OutgoingRecord(tag: report.tag) else { continue }
            if report.errorCode == 0 { countAcknowledged(outgoingRecord) }
            noteDeferralFailure(report.errorCode, of: outgoingRecord)
            let isGivenUp = delivery.handleDeliveryReport(
                outgoingRecord,
                Self.makeKafkaReport(of: report.errorCode),
                now: now
            )
            if report.errorCode != 0 {
                logFailure(of: report, to: findTopic(of: outgoingRecord.kind), isGivenUp: isGivenUp)
            }
        }
        if takenCount == Self.deliveryReportsPerIterationMax { mailbox.wakeup.signal() }
    }

    private func logFailure(of report: DeliveryReport, to topic: ProducerTopic, isGivenUp: Bool) {
        logUnwrittenRecord(KafkaError(deliveryReportCode: report.errorCode), to: topic, isGivenUp: isGivenUp)
    }

    static func makeKafkaReport(of errorCode: Int32) -> OutgoingRecord.KafkaReport {
        switch errorCode {
        case 0: .acknowledged
        case KafkaError.messageTooLargeCode: .tooLarge
        default: .failed
        }
    }
}
