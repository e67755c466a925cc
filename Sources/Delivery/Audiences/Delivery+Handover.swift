import LiveActivity

/// Hands each command that addresses an audience or a channel over to the core of audiences, which decides about it.
/// This core only reads the command's record and, if the command was not fanned out, writes the command's result. In
/// these comments, *command to an audience* includes commands to a channel.
///
/// What must hold: each record that the core of audiences took is passed to `endHandover` exactly once. Until then its
/// slot, body and texts stay in memory, and its offset is not settled.
extension Delivery {
    /// Puts a newly received command to an audience into the queue for the core of audiences.
    mutating func handOver(
        _ record: RecordIndex,
        _ command: Command,
        from value: UnsafeRawBufferPointer,
        trace: UnsafeRawBufferPointer,
        droppedFields: UnsafeRawBufferPointer
    ) {
        let addressesChannel = !command.channel.isAbsent
        fillSlot(
            record,
            with: command,
            subject: addressesChannel ? command.channel : command.audience,
            deviceOrActivityTemplate: command.activity,
            from: value,
            trace: trace,
            droppedFields: droppedFields
        )
        records.setBody(of: record, to: command, from: value, apsDictionaryNumber: apsCache.apsDictionaryNumber)
        if records[record].isReread { removeAlert(ofRereadRecord: record) }
        writeDefaultIdentifierIfMissing(of: record)
        let slot = records.mutableAddress(of: record)
        slot.pointee.audienceCommand = RecordAudienceCommand(
            activityTemplate: slot.pointee.texts.device,
            requestsChannel: command.requestsChannel,
            channelEnvironment: addressesChannel ? command.environment ?? .production : nil
        )
        slot.pointee.texts.device = BlockRange()
        slot.pointee.kind = .audienceCommand
        records.enter(record, .handedOver)
        if records[record].isReread { rereadHandovers.append(record) } else { handovers.append(record) }
    }

    /// The next command for the core of audiences; nil if there is none now. The command stays first until
    /// `removeNextHandover`.
    ///
    /// While the lane reads ahead, all commands wait, so that an audience's newest command can replace the older ones
    /// (R21). Reread commands (`isReread`) also wait until Redis has the members again (`areAudienceMembersComplete`),
    /// as long as the lane has room for them.
    public var nextHandover: RecordIndex? {
        guard !isReadingAhead else { return nil }
        if let record = handovers.first { return record }
        return areAudienceMembersComplete || rereadHandoversMustNotWait ? rereadHandovers.first : nil
    }

    /// Decides whether reread commands still wait until Redis has the audiences' members: not while the lane is more
    /// than three quarters full. A full lane would read no records, not even the registrations that bring the members
    /// back. The price: the number of ranges of such a command is chosen from the members that Redis has at its
    /// admission.
    mutating func updateHandoverWait() {
        rereadHandoversMustNotWait =
            !areAudienceMembersComplete && !rereadHandovers.isEmpty && isFuller(thanQuarters: 3)
    }

    /// Removes the command that `nextHandover` named, because the core of audiences has taken it.
    public mutating func removeNextHandover() {
        let record = handovers.popFirst() ?? rereadHandovers.popFirst()
        precondition(record != nil, "no command waits")
    }

    /// Ends the handover of a command, because the core of audiences is done with it.
    ///
    /// - Parameters:
    ///   - result: says how the command ends. With an outcome, it is finished, usually with a result. After a fan-out,
    ///     it is settled, and the core of audiences writes its result later. A dropped command is neither.
    ///   - reason: the reason in the command's result; at most 64 bytes are kept.
    ///   - admittedAtWallMilliseconds: when Redis last replied to the command's admission, UNIX milliseconds; nil:
    ///     there was no reply.
    public mutating func endHandover(
        _ record: RecordIndex,
        _ result: HandoverResult,
        reason: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        admittedAtWallMilliseconds: Int64? = nil,
        now: Moment
    ) {
        precondition(records[record].stage == .handedOver, "a command came back that was not handed over")
        switch result {
        case .outcome(.duplicate) where partitions.partition(of: records[record].ledgerPlace) == nil:
            // The assignment in which this record was read has ended. The next owner, perhaps this lane, reads the
            // record again. That copy gets the outcome.
            drop(record, now: now)
        case .outcome(let outcome):
            precondition(!outcome.effects.contains(.deadLetter))
            records[record].times.admittedAtWallMilliseconds = admittedAtWallMilliseconds
            records[record].setReason(reason)
            finish(record, outcome)
            records.freeTokenAndBody(of: record)
        case .fannedOut:
            records.enter(record, .finished)
            continueAfterAcknowledgements(record)
        case .dropped:
            precondition(isPartitionRevoked(record), "a command was dropped whose partition is not revoked")
            drop(record, now: now)
        }
    }

    /// Drops the commands of revoked partitions that the core of audiences has not taken yet. The next owner reads them
    /// again.
    mutating func dropUntakenHandovers(now: Moment) {
        for _ in 0..<handovers.count {
            guard let record = handovers.popFirst() else { break }
            if isPartitionRevoked(record) { drop(record, now: now) } else { handovers.append(record) }
        }
        for _ in 0..<rereadHandovers.count {
            guard let record = rereadHandovers.popFirst() else { break }
            if isPartitionRevoked(record) { drop(record, now: now) } else { rereadHandovers.append(record) }
        }
    }
}
