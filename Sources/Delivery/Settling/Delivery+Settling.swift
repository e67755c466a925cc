import LiveActivity

/// The end of a record: its result is produced, its outcome settled in Redis, and when both are acknowledged its offset is settled.
extension Delivery {
    /// Gives a record its outcome, once.
    mutating func finish(_ record: UInt32, _ outcome: Outcome) {
        records.enter(.finished, record)
        records[record].outcome = outcome
        count(outcome)
        completeIdentifier(of: record)
        if records[record].suppliesToken || records[record].isHeldStart { noteToken(of: record, outcome) }
        produce(.result, record)
        if outcome == .invalid { produce(.deadLetter, record) }
        if records[record].settlement != nil { call(.settle, record) }
        if records[record].kind == .command, records[record].event == .start {
            refundUnsentStart(record)
            if records[record].isHeldStart, outcome != .held {
                records[record].followUps.insert(.leaveDevice)
            } else if records[record].settlement != nil {
                call(.settleDevice, record)
            }
        }
        finishRider(of: record)
        if records[record].kind == .command, records[record].tokenRefusal == .none,
            !records[record].followUps.contains(.registerToken)
        {
            records.freeTokenAndBody(of: record)
        }
    }

    /// Ends a registration that brought nothing back, or a tombstone: nothing of it is outstanding.
    mutating func settleWithoutResult(_ record: UInt32) {
        if records[record].stage == .unregistering { recordsAwaitingStore -= 1 }
        settle(record)
    }

    mutating func produce(_ kind: Production.Kind, _ record: UInt32) {
        records[record].acknowledgementsOutstanding += 1
        productions.append(Production(kind: kind, record: record))
    }

    /// The next record to be produced, or nil if there is none now. It stays first until `productionTaken`.
    public func nextProduction(now: Moment) -> Production? { productions.next(now: now) }

    public mutating func productionTaken() { productions.take() }

    /// A delivery report of the record will be handed over soon.
    public func expectReport(of production: Production) { records.prefetch(production.record) }

    /// A delivery report came.
    public mutating func produced(_ production: Production, _ report: ProductionReport, now: Moment) {
        switch report {
        case .acknowledged:
            acknowledge(production.record)
        case .failed:
            productions.retry(production, now: now)
        case .tooLarge:
            // A dead letter may be larger than the topic allows, though the record itself was not: its headers go without it.
            let canShrink =
                production.kind == .deadLetter && records[production.record].deadLetterValue != .tooLarge
            records[production.record].deadLetterValue = .tooLarge
            if canShrink { productions.append(production) } else { acknowledge(production.record) }
        }
    }

    /// One call or production less is outstanding for the record.
    mutating func acknowledge(_ record: UInt32) {
        precondition(records[record].acknowledgementsOutstanding > 0)
        records[record].acknowledgementsOutstanding -= 1
        if records[record].acknowledgementsOutstanding == 0, records[record].stage.awaitsAcknowledgements {
            acknowledged(record)
        }
    }

    /// The last outstanding call or production of a finished or dropped record was acknowledged: begins its next follow-up, or ends it.
    mutating func acknowledged(_ record: UInt32) {
        let (stage, followUps) = (records[record].stage, records[record].followUps)
        if stage == .refunding {
            records.enter(.dropped, record)
            records.free(record)
        } else if stage == .finished, followUps.contains(.leaveDevice) {
            records.enter(.leavingDevice, record)
            call(.settleDevice, record)
        } else if followUps.contains(.registerToken) {
            registerToken(of: record)
        } else {
            settle(record)
        }
    }

    /// Settles a record's offset and frees its slot.
    private mutating func settle(_ record: UInt32) {
        precondition(records[record].acknowledgementsOutstanding == 0)
        records.enter(.settled, record)
        if let partition = partitions.current(records[record].partition, epoch: records[record].epoch) {
            partition.pointee.ledger.settle(records[record].offset)
            partition.pointee.outstanding -= 1
        }
        records.free(record)
    }

    /// Drops a record that was never begun, without an outcome: its partition is revoked, and its next owner reads it again.
    mutating func drop(_ record: UInt32, now: Moment) {
        precondition(records[record].acknowledgementsOutstanding == 0)
        returnRider(of: record, now: now)
        partitions.current(records[record].partition, epoch: records[record].epoch)?.pointee.outstanding -= 1
        refundUnsentStart(record)
        guard records[record].acknowledgementsOutstanding == 0 else { return records.enter(.refunding, record) }
        records.enter(.dropped, record)
        records.free(record)
    }
}
