import LiveActivity

extension Delivery {
    /// Receives one record: decodes and queues it, or rejects it. A command begins at `endBatch` at the earliest. Call
    /// this only while `canReceive` and `hasRoom(for:)` are true. A record is ignored in three cases:
    /// - Its partition is being revoked or is not assigned, so the next owner reads it again.
    /// - Its offset was received before in this assignment.
    /// - A previous owner of the partition settled it.
    public mutating func receive(_ record: IncomingRecord, now: Moment) {
        guard let partition = noteInLedger(record, now: now) else { return }
        let index = records.allocate(Self.makeSlot(of: record, partition: partition, now: now))
        switch (partition.pointee.topic, record.value) {
        case (.commands, let value?): receiveCommand(value, index: index, record: record, now: now)
        case (.registrations, let value?): receiveRegistration(value, index: index, record: record, now: now)
        case (.registrations, nil): receiveTombstone(index: index, record: record)
        case (.commands, nil):
            finishAsInvalid(record, index, code: "emptyRecord", detail: "a command record has no value")
        case (.deferred, _):
            let detail = "the record has no header of a deferred command"
            finishAsInvalid(record, index, code: "notDeferred", detail: detail)
        }
    }

    /// Notes in its partition's ledger that a record was received.
    ///
    /// - Returns: the partition; nil in the three cases in which `receive(_:now:)` ignores a record.
    @inline(__always)
    mutating func noteInLedger(_ record: IncomingRecord, now: Moment) -> UnsafeMutablePointer<Partition>? {
        guard let partition = partitions[record.partitionIndex], partition.pointee.phase == .assigned else {
            return nil
        }
        switch partition.pointee.ledger.receive(record.offset) {
        case .accepted: break
        case .alreadyReceived, .settledByPreviousOwner: return nil
        }
        partition.pointee.receiptTimes.noteReceipt(
            record.offset,
            atMilliseconds: now.monotonicMilliseconds,
            committableOffset: partition.pointee.ledger.committableOffset,
            areEarlierRecordsSettled: partition.pointee.unsettledRecordCount == 0
        )
        partition.pointee.unsettledRecordCount += 1
        return partition
    }

    /// Whether the partition's ledger has room for `offset`; true if the partition is not assigned. If false, the shell
    /// reads the record again later, when older records may be settled.
    public func hasRoom(for offset: Int64, partition partitionIndex: UInt32) -> Bool {
        partitions[partitionIndex]?.pointee.ledger.hasRoom(for: offset) ?? true
    }

    /// Returns the slot of a received record. Its kind is `invalid` until the record is decoded. Inlined, so that Swift
    /// builds the slot in place and does not copy it.
    @inline(__always)
    private static func makeSlot(
        of record: IncomingRecord,
        partition: UnsafeMutablePointer<Partition>,
        now: Moment
    ) -> RecordSlot {
        RecordSlot(
            kind: .invalid,
            isReread: partition.pointee.rereadOffsets.contains(record.offset),
            ledgerPlace: RecordLedgerPlace(record, partition),
            source: RecordSource(
                offset: record.offset,
                partition: partition.pointee.number,
                topic: partition.pointee.topic
            ),
            times: RecordTimes(
                receivedAtWallMilliseconds: now.wallMilliseconds,
                recordTimestampMilliseconds: record.timestampMilliseconds
            )
        )
    }

    /// Decodes a command and passes it to `routeCommand`, or to `receiveTooLarge` if its body is too large. Rejects a
    /// command that is not valid. The record's key is not checked: if commands of one activity are in two partitions,
    /// Redis still orders them by version.
    ///
    /// - Parameters:
    ///   - deferral: what the deferred record has beside the command; nil: the command was not deferred.
    ///   - droppedFields: the names of the fields that the command's first reader dropped; empty: none.
    mutating func receiveCommand(
        _ value: UnsafeRawBufferPointer,
        index: RecordIndex,
        record: IncomingRecord,
        deferral: Deferral? = nil,
        droppedFields: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        now: Moment
    ) {
        var identifier = TextRange.absent
        do throws(Fault) {
            let command = try Command.decodeIgnoringBodyLimit(value, recalling: &apsCache, &contracts.templates)
            identifier = command.identifier
            // A deferred command's timestamp was accepted at its first receipt, perhaps by a worker whose clock is
            // ahead of this worker's. If that receipt is later than this worker's time, the timestamp is compared with
            // the time of the receipt.
            let firstReceivedAtSeconds = (deferral?.receivedAtWallMilliseconds ?? 0) / 1_000
            try command.checkTimestamp(nowSeconds: max(now.wallSeconds, firstReceivedAtSeconds))
            guard let appIndex = findAppIndex(named: command.app, in: value) else {
                let detail = "app: is not configured"
                return finishAsInvalid(record, index, identifier, code: "unknownApp", detail: detail)
            }
            records[index].appIndex = appIndex
            // The policy of a deferred command was configured when the command was first read. If it is not configured
            // any more, use the app's default policy. But a lifetime command is then `invalid`, because Causeway made
            // it only to carry out its policy.
            let mayReplacePolicy = deferral != nil && !command.isLifetimeCommand(in: value)
            let replacementPolicy = mayReplacePolicy ? defaultPolicyIndex(of: appIndex) : nil
            guard let policyIndex = findPolicyIndex(of: command, of: appIndex, in: value) ?? replacementPolicy else {
                let detail = "policy: is not configured"
                return finishAsInvalid(record, index, command, code: "unknownPolicy", detail: detail)
            }
            records[index].policyIndex = policyIndex
            guard command.fitsBodyLimit else {
                return receiveTooLarge(command, index: index, record: record, deferral: deferral, now: now)
            }
            routeCommand(
                command,
                from: value,
                index: index,
                record: record,
                deferral: deferral,
                droppedFields: droppedFields,
                now: now
            )
        } catch {
            finishAsInvalid(record, index, identifier, fault: error)
        }
    }

    /// Passes a command on, usually into its activity's waiting list. The slot already has the command's app and
    /// policy. Four kinds of commands do not go into a waiting list here:
    /// - A reread start (`isReread`) is settled.
    /// - A lifetime command joins the list after Redis has replied about the life. A restart that was held joins now.
    /// - A command that no phone could decode is rejected, unless the configuration of its app asks only for warnings.
    /// - A command to an audience or channel is handed over to the core of audiences.
    @inline(__always)
    mutating func routeCommand(
        _ command: Command,
        from value: UnsafeRawBufferPointer,
        index: RecordIndex,
        record: IncomingRecord,
        deferral: Deferral?,
        droppedFields: UnsafeRawBufferPointer,
        now: Moment
    ) {
        if records[index].isReread, command.event == .start {
            return settleRereadStart(index, command, from: value, now: now)
        }
        if command.isLifetimeCommand(in: value) {
            // Do not check the contract: Causeway made this command from commands that were checked.
            return beginLifetimeCommand(index, command, from: value, trace: record.trace, deferral: deferral, now: now)
        }
        if contracts.hasAnyContract, rejectIfUndecodable(command, from: value, index: index, record: record) { return }
        if command.isForAudienceOrChannel {
            return handOver(index, command, from: value, trace: record.trace, droppedFields: droppedFields)
        }
        let activity = findOrAddActivity(of: command, of: records[index].appIndex, in: value)
        fillSlot(index, with: command, from: value, trace: record.trace, droppedFields: droppedFields)
        records.setBody(of: index, to: command, from: value, apsDictionaryNumber: apsCache.apsDictionaryNumber)
        if records[index].isReread { removeAlert(ofRereadRecord: index) }
        if let deferral { restore(deferral, to: index, of: activity, now: now) }
        enqueue(index, of: activity, now: now)
    }

    /// Decodes a registration and asks Redis to register its token. If the timetable must first know that the activity
    /// is alive (`mustReportLife`), reports this, and the token is registered afterwards. Rejects a registration that
    /// is not valid, and settles one that is too old to be of use.
    private mutating func receiveRegistration(
        _ value: UnsafeRawBufferPointer,
        index: RecordIndex,
        record: IncomingRecord,
        now: Moment
    ) {
        do throws(Fault) {
            var registration = try Registration.decode(value)
            registration.limitTimes(ofRecordWrittenAtMilliseconds: records[index].times.recordAtWallMilliseconds)
            guard let appIndex = findAppIndex(named: registration.app, in: value) else {
                return finishAsInvalid(record, index, code: "unknownApp", detail: "app: is not configured")
            }
            records[index].appIndex = appIndex
            if registration.isTooOld(recordTimestampMilliseconds: record.timestampMilliseconds, now: now) {
                return settleWithoutAction(index)
            }
            fillSlot(index, with: registration, from: value, trace: record.trace)
            records.enter(index, .awaitingRedis)
            queueStoreCall(
                mustReportLife(ofRegistration: index, now: now) ? .reportLifetimeEvent : .registerToken,
                index
            )
        } catch {
            finishAsInvalid(record, index, fault: error)
        }
    }

    /// Handles a tombstone. It names no app, so it counts for every configured app, for one after another
    /// (`continueUnregistrationIfAcknowledged`). Its key may be the id of an activity or of a device, so both are
    /// unregistered. The key may also name an attributes type of a device (`DeviceRegistrationKey`); the token of this
    /// type is unregistered last. A tombstone that is too old to be of use is settled at once.
    private mutating func receiveTombstone(index: RecordIndex, record: IncomingRecord) {
        let isIdentifier = record.key.map { (1...Limits.identifierBytesMax).contains($0.count) } ?? false
        guard let key = record.key, isIdentifier || DeviceRegistrationKey.split(key) != nil else {
            let detail = "a tombstone's key must name an activity or device"
            return finishAsInvalid(record, index, code: "missingKey", detail: detail)
        }
        if records.address(of: index).pointee.isTooOldToUnregister(isPushToStart: true) {
            return settleWithoutAction(index)
        }
        var writer = RecordBlockWriter(block: records.allocateBlock(key.count))
        let slot = records.mutableAddress(of: index)
        slot.pointee.kind = .tombstone
        records.enter(index, .unregistering)
        slot.pointee.texts.block = writer.block
        slot.pointee.texts.subject = writer.append(key)
        slot.pointee.setRegistrationTimeFromRecord()
        slot.pointee.appIndex = 0
        recordsAwaitingStoreCount += 1
        if !isIdentifier { _ = selectAttributesType(ofTombstone: index) }
        queueUnregistration(index)
    }

    /// Returns the index of the configured app with this bundle id; nil if there is none.
    func findAppIndex(named text: TextRange, in value: UnsafeRawBufferPointer) -> UInt16? {
        // Compare the bytes as they are in JSON. An id with escapes counts as unknown, because a bundle id needs none.
        let name = text.range.bytes(in: value)
        for appIndex in 0..<configuration.apps.count {
            let isSameIdentifier = configuration.apps[appIndex].bundleId.withUnsafeBytes { $0.hasSameBytes(as: name) }
            if isSameIdentifier { return UInt16(appIndex) }
        }
        return nil
    }

    /// Returns the index of the policy that a command names; nil if no policy has this name. If the command names no
    /// policy, returns the index of its app's default policy.
    func findPolicyIndex(of command: Command, of appIndex: UInt16, in value: UnsafeRawBufferPointer) -> UInt8? {
        guard !command.policy.isAbsent else { return defaultPolicyIndex(of: appIndex) }
        return policies.index(of: command.policy.range.bytes(in: value))
    }

    func defaultPolicyIndex(of appIndex: UInt16) -> UInt8 {
        UInt8(truncatingIfNeeded: configuration.reloadable.apps[Int(appIndex)].defaultPolicyIndex)
    }
}

extension Command {
    /// Whether the command addresses an audience or a channel, and not a single activity.
    @inline(__always)
    var isForAudienceOrChannel: Bool { !audience.isAbsent || !channel.isAbsent }
}
