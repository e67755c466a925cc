import LiveActivity

/// The end of a record: its result is produced, its outcome settled in Redis, and when both are acknowledged its offset is settled.
extension Delivery {
    /// Gives a record its outcome, once.
    mutating func finish(_ record: UInt32, _ outcome: Outcome) {
        precondition(!records[record].isFinished, "a record was given a second outcome")
        records[record].isFinished = true
        recordsFinished += 1
        records[record].outcome = outcome
        count(outcome)
        completeIdentifier(of: record)
        if records[record].suppliesToken || records[record].isHeldStart { noteToken(of: record, outcome) }
        produce(.result, record)
        if outcome == .invalid { produce(.deadLetter, record) }
        if records[record].settlement != .none { call(.settle, record) }
        if records[record].kind == .command, records[record].event == .start {
            refundUnsentStart(record)
            if records[record].isHeldStart, !records[record].isInTwoHands, outcome != .held {
                records[record].leavesDevice = true
            } else if records[record].settlement != .none {
                call(.settleDevice, record)
            }
        }
        finishRider(of: record)
        if records[record].kind == .command, !records[record].retiresToken, !records[record].registersToken {
            records.freeTokenAndBody(of: record)
        }
    }

    /// Ends a record that has no result: a registration, or a tombstone, of which nothing is outstanding.
    mutating func finishSilently(_ record: UInt32) {
        precondition(!records[record].isFinished)
        records[record].isFinished = true
        recordsFinished += 1
        if records[record].kind == .unregistration { recordsAwaitingRedis -= 1 }
        settle(record)
    }

    mutating func produce(_ kind: Production.Kind, _ record: UInt32) {
        records[record].acknowledgementsOutstanding += 1
        productions.append(Production(kind: kind, record: record))
    }

    /// How long nothing is produced after a record failed: the next one is likely to fail too.
    static var productionFailurePauseMilliseconds: Int64 { 250 }

    /// The next record to be produced, or nil if there is none now. It stays first until `productionTaken`.
    public func nextProduction(now: Moment) -> Production? {
        guard productionsBlockedUntilMilliseconds <= now.monotonicMilliseconds else { return nil }
        return productions.first
    }

    public mutating func productionTaken() {
        productionsBlockedUntilMilliseconds = .min
        precondition(productions.popFirst() != nil)
    }

    /// A delivery report of the record will be handed over soon.
    public func expectReport(of production: Production) { records.prefetch(production.record) }

    /// A delivery report came.
    public mutating func produced(_ production: Production, _ report: ProductionReport, now: Moment) {
        switch report {
        case .acknowledged:
            acknowledge(production.record)
        case .failed:
            productionsBlockedUntilMilliseconds = now.monotonicMilliseconds + Self.productionFailurePauseMilliseconds
            productions.append(production)
        case .tooLarge:
            // A dead letter may be larger than the topic allows, though the record itself was not: its headers go without it.
            let canShrink = production.kind == .deadLetter && !records[production.record].isTruncated
            records[production.record].isTruncated = true
            if canShrink { productions.append(production) } else { acknowledge(production.record) }
        }
    }

    /// One thing less is outstanding for the record; with the last one its offset is settled and its slot is free.
    mutating func acknowledge(_ record: UInt32) {
        precondition(records[record].acknowledgementsOutstanding > 0)
        records[record].acknowledgementsOutstanding -= 1
        if records[record].acknowledgementsOutstanding == 0, records[record].isFinished { settle(record) }
    }

    mutating func settle(_ record: UInt32) {
        precondition(records[record].isFinished && records[record].acknowledgementsOutstanding == 0)
        if records[record].isLetGo {
            recordsFinished -= 1
            return records.free(record)
        }
        if records[record].leavesDevice {
            records[record].leavesDevice = false
            return call(.settleDevice, record)
        }
        if records[record].registersToken { return registerToken(of: record) }
        if let partition = partitions.current(records[record].partition, epoch: records[record].epoch) {
            partition.pointee.ledger.settle(records[record].offset)
            partition.pointee.outstanding -= 1
        }
        recordsFinished -= 1
        records.free(record)
    }

    /// Lets a record go that was never begun, without an outcome: its partition is given up, and its next owner reads it again.
    mutating func abandon(_ record: UInt32, now: Moment) {
        precondition(!records[record].isFinished && records[record].acknowledgementsOutstanding == 0)
        returnRider(of: record, now: now)
        partitions.current(records[record].partition, epoch: records[record].epoch)?.pointee.outstanding -= 1
        refundUnsentStart(record)
        guard records[record].acknowledgementsOutstanding > 0 else { return records.free(record) }
        // Its slot is the refund's until Redis has answered; of its partition it is no more.
        records[record].isLetGo = true
        records[record].isFinished = true
        recordsFinished += 1
    }
}
