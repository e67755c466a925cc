public import Delivery
public import LiveActivity

/// Records of the fan-out topic. Each brings a version to a range (``RangeVersionSlot``), or a broadcast to a channel.
extension Audiences {
    /// Takes a record of the fan-out topic. If there is no room for the record, it is passed over, and
    /// ``rewindRequest(_:now:)`` later asks the shell to read it again. An unreadable record settles at once. Ignores a
    /// record of a partition that is not assigned, a record that a previous owner has settled, and a record that the
    /// core has received before and has not passed over.
    ///
    /// - Parameters:
    ///   - instruction: the contents of the record's headers; nil if Causeway did not write them.
    ///   - droppedFields: the names of the fields that were dropped because the body was too large, separated by
    ///     commas.
    public mutating func receiveFanoutRecord(
        _ record: IncomingRecord,
        instruction: FanoutInstruction?,
        droppedFields: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        now: Moment
    ) {
        guard let partition = partitions[record.partitionIndex], partition.pointee.phase == .assigned,
            receiveOffset(record.offset, of: partition, now: now)
        else { return }
        guard let incoming = decode(record, instruction, droppedFields: droppedFields) else {
            counters.unreadableRecordCount &+= 1
            partition.pointee.passedOverRecords.remove(record.offset)
            return partition.pointee.ledger.settle(record.offset)
        }
        if let channel = incoming.instruction.channel { return receiveBroadcast(incoming, to: channel, now: now) }
        let key = RoundKey(
            appIndex: incoming.appIndex,
            digest: withUnescapedText(incoming.command.audience, from: incoming.value) { AudienceDigest(of: $0) },
            range: incoming.instruction.range,
            isForStarts: incoming.command.event == .start
        )
        guard hasRoom(for: key, at: record.offset, of: record.partitionIndex) else {
            return passOver(record, incoming.instruction, key, now: now)
        }
        partition.pointee.passedOverRecords.remove(record.offset)
        partition.pointee.unsettledRecordCount += 1
        let fanoutRecord = makeFanoutRecord(incoming, assignmentEpoch: partition.pointee.assignmentEpoch, now: now)
        linkReceivedVersion(makeRangeVersion(incoming, fanoutRecord, key), now: now)
    }

    /// Decodes a record. Nil if another program wrote the record, or if its app is no longer configured. Causeway can
    /// read all other records, because it has written them itself.
    private func decode(
        _ record: IncomingRecord,
        _ instruction: FanoutInstruction?,
        droppedFields: UnsafeRawBufferPointer
    ) -> IncomingFanoutRecord? {
        guard let value = record.value, let instruction, let command = try? Command.decodeWrittenByCauseway(value)
        else { return nil }
        let isForAudience = !command.audience.isAbsent
        let isForChannelOfCommand = !command.channel.isAbsent && instruction.channel != nil
        guard isForAudience || isForChannelOfCommand else { return nil }
        // In a fan-out record, only a start has an `activity`: the template from which the id of each device's activity
        // is made. No start goes to a channel.
        let isStart = command.event == .start
        guard isStart == !command.activity.isAbsent, !isStart || instruction.channel == nil else { return nil }
        guard let appIndex = appIndex(of: command, in: value) else { return nil }
        return IncomingFanoutRecord(
            record: record,
            value: value,
            command: command,
            instruction: instruction,
            droppedFields: droppedFields,
            appIndex: appIndex
        )
    }

    /// Notes a record's offset, and settles passed-over records below it that Kafka has deleted. Returns whether the
    /// record must be handled now: either it is new and the ledger has room for it, or it was passed over before. If
    /// the ledger has no room, the core takes no record from this offset on until the partition is read again.
    private mutating func receiveOffset(
        _ offset: Int64,
        of partition: UnsafeMutablePointer<FanoutPartition>,
        now: Moment
    ) -> Bool {
        if let firstOffsetBeyondLedger = partition.pointee.passedOverRecords.firstOffsetBeyondLedger,
            offset >= firstOffsetBeyondLedger
        {
            return false
        }
        settleDeletedRecords(below: offset, of: partition)
        if partition.pointee.hasPassedOver(offset) { return true }
        guard partition.pointee.ledger.hasRoom(for: offset) else {
            partition.pointee.passedOverRecords.noteOffsetBeyondLedger(offset)
            return false
        }
        guard case .accepted = partition.pointee.ledger.receive(offset) else { return false }
        partition.pointee.lastRecordAtMilliseconds = now.monotonicMilliseconds
        partition.pointee.receiptTimes.noteReceipt(
            offset,
            atMilliseconds: now.monotonicMilliseconds,
            committableOffset: partition.pointee.ledger.committableOffset,
            areEarlierRecordsSettled: partition.pointee.unsettledRecordCount == 0
                && partition.pointee.passedOverRecords.count == 0
        )
        return true
    }

    private func appIndex(of command: Command, in value: UnsafeRawBufferPointer) -> UInt16? {
        withUnescapedText(command.app, from: value) { name in
            configuration.apps.firstIndex { $0.bundleId.elementsEqual(name) }.map { UInt16($0) }
        }
    }

    func withUnescapedText<Result>(
        _ text: TextRange,
        from value: UnsafeRawBufferPointer,
        _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result {
        withUnsafeTemporaryAllocation(byteCount: max(1, Int(text.range.count)), alignment: 1) { buffer in
            let count = text.isAbsent ? 0 : unescape(text, from: value, into: buffer)
            return body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        }
    }

    func unescaped(_ text: TextRange, from value: UnsafeRawBufferPointer) -> HeapBytes {
        withUnescapedText(text, from: value) { HeapBytes(copying: $0) }
    }

    /// Returns the index of the policy that applies to the app's commands that name no policy.
    func defaultPolicyIndex(of appIndex: UInt16) -> UInt8 {
        UInt8(truncatingIfNeeded: configuration.reloadable.apps[Int(appIndex)].defaultPolicyIndex)
    }

    /// Returns the parts of a record that a round or a channel keeps, with copies of the bytes.
    func makeFanoutRecord(_ incoming: IncomingFanoutRecord, assignmentEpoch: UInt32, now: Moment) -> FanoutRecord {
        let (command, value, instruction) = (incoming.command, incoming.value, incoming.instruction)
        let policyIndex =
            withUnescapedText(command.policy, from: value) { policies.index(of: $0) }
            ?? defaultPolicyIndex(of: incoming.appIndex)
        let body = HeapBytes(count: command.bodyByteCount)
        let layout = PushBody.write(command, from: value, into: body.mutableBuffer)
        PushBody.setTimestamp(instruction.grant.timestamp, in: body.mutableBuffer, layout)
        return FanoutRecord(
            partitionIndex: incoming.record.partitionIndex,
            assignmentEpoch: assignmentEpoch,
            offset: incoming.record.offset,
            receivedAtWallMilliseconds: now.wallMilliseconds,
            instruction: instruction,
            version: command.version,
            event: command.event,
            policyIndex: policyIndex,
            ownExpirationSeconds: command.expirationSeconds,
            staleDateSeconds: command.staleDateSeconds,
            alertVersion: instruction.carriedAlertVersion ?? command.version,
            alertAgeSecondsMax: policies[policyIndex].alertAgeSecondsMax,
            commandIdentifier: unescaped(command.identifier, from: value),
            trace: HeapBytes(copying: incoming.record.trace),
            droppedFields: HeapBytes(copying: incoming.droppedFields),
            body: body,
            bodyLayout: layout
        )
    }

    /// Makes the range version for a fan-out record. If the range has no round yet, begins the round.
    private mutating func makeRangeVersion(
        _ incoming: IncomingFanoutRecord,
        _ record: FanoutRecord,
        _ key: RoundKey
    ) -> RangeVersionIndex {
        let (command, value) = (incoming.command, incoming.value)
        let audience = unescaped(command.audience, from: value)
        let round = roundsByKey[key] ?? addRound(key, audience, record.partitionIndex, record.assignmentEpoch)
        // An existing round has its own copy of the audience's id, so this copy is not needed.
        if rounds[round].audienceIdentifier.bytes.baseAddress != audience.bytes.baseAddress { audience.free() }
        let slot = RangeVersionSlot(
            round: round,
            record: record,
            priority: command.priority,
            policyName: unescaped(command.policy, from: value),
            activityTemplate: unescaped(command.activity, from: value)
        )
        let rangeVersion = rangeVersions.allocate(slot)
        if command.event == .start {
            rangeVersions[rangeVersion].apsWithoutAddress = Self.apsWithoutAddress(
                of: rangeVersions[rangeVersion]
            )
        }
        apps[Int(key.appIndex)].fanoutRecordCount += 1
        addFanoutRecordBytes(rangeVersions[rangeVersion].occupiedBytes, of: rangeVersion)
        return rangeVersion
    }

    /// Adds `byteCount` to two sums: the bytes of all fan-out records in memory, and the bytes of those of the
    /// version's app. A negative number subtracts.
    mutating func addFanoutRecordBytes(_ byteCount: Int, of rangeVersion: RangeVersionIndex) {
        addFanoutRecordBytes(byteCount, ofApp: Int(rounds[rangeVersions[rangeVersion].round].appIndex))
    }

    mutating func addFanoutRecordBytes(_ byteCount: Int, ofApp appIndex: Int) {
        fanoutRecordBytes += byteCount
        apps[appIndex].fanoutRecordBytes += byteCount
    }

    /// Adds a round for a range that has none, and queues the claim of the range.
    private mutating func addRound(
        _ key: RoundKey,
        _ audience: HeapBytes,
        _ partitionIndex: UInt32,
        _ assignmentEpoch: UInt32
    )
        -> RoundIndex
    {
        let ordinals = key.range.ordinals
        let round = rounds.allocate(
            RoundSlot(
                key: key,
                audienceIdentifier: audience,
                partitionIndex: partitionIndex,
                assignmentEpoch: assignmentEpoch,
                claim: RoundClaim(number: random.next()),
                progress: RoundProgress(positionsPerLap: ordinals.upperBound - ordinals.lowerBound)
            )
        )
        roundsByKey[key] = round
        rounds[round].isClaimOrCheckpointOutstanding = true
        storeQueue.append(.claim(round))
        return round
    }

    /// Adds a version to the end of its round's list. If the store has granted the round's claim, the version begins or
    /// ends at once.
    private mutating func linkReceivedVersion(_ rangeVersion: RangeVersionIndex, now: Moment) {
        let round = rangeVersions[rangeVersion].round
        rounds[round].versions.list.append(rangeVersion, in: &rangeVersions)
        // Before the reply to its claim, the round does not know which versions the partition's previous owner had
        // under way. When the reply comes, all received versions begin or end.
        guard rounds[round].phase != .claiming, rounds[round].phase != .awaitingClaim else { return }
        beginOrEndReceivedVersions(of: round, now: now)
    }

    /// Removes the received versions from the round's list, and begins or ends each in the order of arrival. Then
    /// advances the round, which may free it.
    mutating func beginOrEndReceivedVersions(of round: RoundIndex, now: Moment) {
        let lastBegun = lastBegunAndFirstReceived(of: round).begun
        var receivedVersions = rounds[round].versions.list.removeAll(behind: lastBegun, in: &rangeVersions)
        while let rangeVersion = receivedVersions.popFirst(in: &rangeVersions) {
            beginOrEndReceivedVersion(rangeVersion, of: round, now: now)
        }
        advance(round, now: now)
    }
}
