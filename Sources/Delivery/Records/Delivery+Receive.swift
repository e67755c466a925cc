import LiveActivity

extension Delivery {
    /// Receives one record. Decodes and queues it, or rejects it. A command begins at `endBatch` at the earliest.
    ///
    /// Call this only while `canReceive` and `hasRoom(for:)` are true. A record is ignored in three cases:
    /// - Its partition is being revoked or is not assigned, so the next owner reads it again.
    /// - Its offset was received before in this assignment.
    /// - An earlier owner of the partition settled it.
    public mutating func receive(_ record: IncomingRecord, now: Moment) {
        guard let partition = accept(record, now: now) else { return }
        let index = records.allocate(Self.emptySlot(of: record, partition: partition, now: now))
        switch (partition.pointee.topic, record.value) {
        case (.commands, let value?): receiveCommand(value, index: index, record: record, now: now)
        case (.registrations, let value?): receiveRegistration(value, index: index, record: record, now: now)
        case (.registrations, nil): receiveTombstone(index: index, record: record)
        case (.commands, nil): reject(record, index, code: "emptyRecord", detail: "a command record has no value")
        case (.deferred, _):
            reject(record, index, code: "notDeferred", detail: "the record has no header of a deferred command")
        }
    }

    /// Notes a record in its partition's ledger.
    /// - Returns: the partition; nil if the caller must ignore the record.
    @inline(__always)
    mutating func accept(_ record: IncomingRecord, now: Moment) -> UnsafeMutablePointer<Partition>? {
        guard let partition = partitions[record.partition], partition.pointee.phase == .assigned else { return nil }
        switch partition.pointee.ledger.receive(record.offset) {
        case .accepted: break
        case .alreadySeen: return nil
        case .settledBefore:
            countRecordSettledBefore()
            return nil
        }
        partition.pointee.receiptTimes.noteReceipt(
            record.offset,
            milliseconds: now.monotonicMilliseconds,
            committableOffset: partition.pointee.ledger.committableOffset,
            isAlone: partition.pointee.unsettledCount == 0
        )
        partition.pointee.unsettledCount += 1
        return partition
    }

    /// Whether the partition's ledger has room for `offset`. If not, the shell keeps the record until older
    /// records are settled.
    public func hasRoom(for offset: Int64, partition: UInt32) -> Bool {
        partitions[partition]?.pointee.ledger.hasRoom(for: offset) ?? true
    }

    private static func emptySlot(
        of record: IncomingRecord,
        partition: UnsafeMutablePointer<Partition>,
        now: Moment
    ) -> RecordSlot {
        RecordSlot(
            kind: .invalid,
            topic: partition.pointee.topic,
            partition: record.partition,
            epoch: partition.pointee.epoch,
            offset: record.offset,
            isReadAgain: partition.pointee.readAgainOffsets.contains(record.offset),
            sourcePartition: partition.pointee.number,
            sourceOffset: record.offset,
            recordMilliseconds: record.timestampMilliseconds,
            receivedMilliseconds: now.wallMilliseconds
        )
    }

    /// Decodes a command and passes it to `dispatch`, or rejects it.
    /// - Parameters:
    ///   - deferral: what the deferred topic's record has beside the command; nil: it was not deferred.
    ///   - droppedFields: the names of the fields that the command's first reader dropped; empty: none.
    mutating func receiveCommand(
        _ value: UnsafeRawBufferPointer,
        index: UInt32,
        record: IncomingRecord,
        deferral: Deferral? = nil,
        droppedFields: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        now: Moment
    ) {
        var identifier = TextRange.absent
        do throws(Fault) {
            let command = try Command.decodeAnySize(value, recalling: &lastAps, &contracts.templates)
            identifier = command.identifier
            // The worker that first read a deferred command has accepted the timestamp. Its clock may be ahead of
            // this worker's clock. So the time at which it received the command counts, if that time is later than now.
            let firstSeconds = (deferral?.receivedMilliseconds ?? 0) / 1_000
            try command.checkTimestamp(now: max(now.wallSeconds, firstSeconds))
            guard let application = application(named: command.app, in: value) else {
                let detail = "app: is not configured"
                return reject(record, index, identifier, code: "unknownApp", detail: detail)
            }
            records[index].application = application
            // The worker that first read a deferred command knew its policy, so a missing policy does not make the
            // command invalid. A lifetime command is useless without its policy.
            let isAccepted = deferral != nil && !command.isLifetimeCommand(in: value)
            let replacementPolicy = isAccepted ? defaultPolicy(of: application) : nil
            guard let policy = policy(of: command, of: application, in: value) ?? replacementPolicy else {
                let detail = "policy: is not configured"
                return reject(record, index, command, code: "unknownPolicy", detail: detail)
            }
            records[index].policy = policy
            guard command.fitsBodyLimit else {
                return receiveTooLarge(command, index: index, record: record, deferral: deferral, now: now)
            }
            dispatch(
                command,
                from: value,
                index: index,
                record: record,
                deferral: deferral,
                droppedFields: droppedFields,
                now: now
            )
        } catch {
            reject(record, index, identifier, fault: error)
        }
    }

    /// Puts a command into its activity's waiting list. The slot already has the command's app and policy.
    ///
    /// Four kinds of commands take another way: a start that is read again, a command that Causeway made because a
    /// lifetime is over, a command rejected because no phone could decode it, and one to an audience or channel.
    @inline(__always)
    mutating func dispatch(
        _ command: Command,
        from value: UnsafeRawBufferPointer,
        index: UInt32,
        record: IncomingRecord,
        deferral: Deferral?,
        droppedFields: UnsafeRawBufferPointer,
        now: Moment
    ) {
        if records[index].isReadAgain, command.event == .start {
            return settleStartReadAgain(index, command, from: value)
        }
        if command.isLifetimeCommand(in: value) {
            // The contract is not checked: Causeway made this command, because a lifetime is over, from
            // commands that were checked.
            return beginLifetimeCommand(index, command, from: value, trace: record.trace, deferral: deferral, now: now)
        }
        if contracts.isAnyConfigured, rejectIfUndecodable(command, from: value, index: index, record: record) { return }
        guard command.audience.isAbsent, command.channel.isAbsent else {
            return handOver(index, command, from: value, trace: record.trace, droppedFields: droppedFields)
        }
        let activity = findOrAddActivity(of: command, of: records[index].application, in: value)
        fill(index, with: command, from: value, trace: record.trace, droppedFields: droppedFields)
        records.setBody(of: index, to: command, from: value, dictionaryNumber: lastAps.dictionaryNumber)
        if records[index].isReadAgain { removeAlert(ofRecordReadAgain: index) }
        if let deferral { restore(deferral, to: index, of: activity, now: now) }
        enqueue(index, of: activity, now: now)
    }

    private mutating func receiveRegistration(
        _ value: UnsafeRawBufferPointer,
        index: UInt32,
        record: IncomingRecord,
        now: Moment
    ) {
        do throws(Fault) {
            let registration = try Registration.decode(value)
            if records[index].isReadAgain, registration.isTooOld(now: now) { return settleWithoutAction(index) }
            guard let application = application(named: registration.app, in: value) else {
                return reject(record, index, code: "unknownApp", detail: "app: is not configured")
            }
            records[index].application = application
            fill(index, with: registration, from: value, trace: record.trace)
            records.enter(.registering, index)
            call(mustReportLife(ofRegistration: index, now: now) ? .reportLifetimeEvent : .register, index)
        } catch {
            reject(record, index, fault: error)
        }
    }

    /// Handles a tombstone. Its key is the id of an activity or a device, and no app is named. So an activity
    /// and a device with this id are unregistered in every configured app.
    private mutating func receiveTombstone(index: UInt32, record: IncomingRecord) {
        guard let key = record.key, (1...Limits.identifierBytes).contains(key.count) else {
            let detail = "a tombstone's key must name an activity or device"
            return reject(record, index, code: "missingKey", detail: detail)
        }
        var writer = RecordBlockWriter(block: records.allocateBlock(key.count))
        let slot = records.mutableAddress(of: index)
        slot.pointee.kind = .unregistration
        records.enter(.unregistering, index)
        slot.pointee.block = writer.block
        slot.pointee.subject = writer.append(key)
        slot.pointee.setRegistrationTimeFromRecord()
        recordsAwaitingStore += 1
        for application in 0..<UInt16(configuration.applications.count) {
            call(.unregisterActivity, index, application: application)
            call(.unregisterDevice, index, application: application)
            if policies.hasLifetimes { call(.reportLifetimeEvent, index, application: application) }
        }
    }

    func application(named text: TextRange, in record: UnsafeRawBufferPointer) -> UInt16? {
        // Compare the bytes as they are in JSON. A bundle id needs no escapes there, so an id with escapes counts
        // as unknown.
        let name = text.range.bytes(in: record)
        for position in 0..<configuration.applications.count {
            let matches = configuration.applications[position].bundleIdentifier.withUnsafeBytes { isEqual($0, name) }
            if matches { return UInt16(position) }
        }
        return nil
    }

    /// Returns the policy that a command names, or its app's default policy; nil if no policy has the name.
    func policy(of command: Command, of application: UInt16, in record: UnsafeRawBufferPointer) -> UInt8? {
        guard !command.policy.isAbsent else { return defaultPolicy(of: application) }
        return policies.index(of: command.policy.range.bytes(in: record))
    }

    func defaultPolicy(of application: UInt16) -> UInt8 {
        UInt8(truncatingIfNeeded: configuration.applications[Int(application)].policy)
    }

    /// Copies a command's texts into a block and fills the fields of its slot, except for the body.
    mutating func fill(
        _ index: UInt32,
        with command: Command,
        from value: UnsafeRawBufferPointer,
        trace: UnsafeRawBufferPointer,
        droppedFields: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
    ) {
        // The pointer stays valid, because no record is added while it is used.
        let slot = records.mutableAddress(of: index)
        slot.pointee.kind = .command
        slot.pointee.event = command.event
        let isLifetimeCommand = command.isLifetimeCommand(in: value)
        slot.pointee.isLifetimeEnd = isLifetimeCommand && command.event == .end
        slot.pointee.isLifetimeRestart = isLifetimeCommand && command.event == .start
        slot.pointee.version = command.version
        slot.pointee.digest = nil
        if command.event == .start { slot.pointee.claim = randomness.next() }
        slot.pointee.staleDate = command.staleDate
        slot.pointee.statePriority = command.priority != 0 ? command.priority : command.event == .update ? 5 : 10
        slot.pointee.priority = command.priority != 0 ? command.priority : Self.priority(of: command)
        slot.pointee.expiration = command.event == .start ? expiration(ofStart: command, slot) : command.expiration
        let textBytes =
            Int(command.activity.range.count) + Int(command.identifier.range.count)
            + Int(command.device.range.count) + Int(command.attributesType.range.count)
            + Int(command.policy.range.count)
        let count =
            textBytes + trace.count + droppedFields.count
            + (command.identifier.isAbsent ? defaultIdentifierBytesMax : 0)
            + BlockRoom.reasonBytes
        var writer = RecordBlockWriter(block: records.allocateBlock(count))
        slot.pointee.block = writer.block
        slot.pointee.subject = writer.append(command.activity, from: value)
        slot.pointee.device = writer.append(command.device, from: value)
        slot.pointee.attributesType = writer.append(command.attributesType, from: value)
        slot.pointee.policyName = writer.append(command.policy, from: value)
        slot.pointee.trace = writer.append(trace)
        slot.pointee.droppedFields = writer.append(droppedFields)
        slot.pointee.commandIdentifier =
            command.identifier.isAbsent
            ? writer.reserve(defaultIdentifierBytesMax) : writer.append(command.identifier, from: value)
        slot.pointee.reason = writer.reserve(BlockRoom.reasonBytes)
        // Clear the token. If a registration released this command, the slot still has the token of the
        // registration.
        slot.pointee.tokenBlock = .none
        slot.pointee.tokenCount = 0
        if let environment = command.environment, !command.token.isAbsent {
            slot.pointee.environment = environment
            slot.pointee.hasOwnToken = true
            slot.pointee.setRegistrationTimeFromRecord()
            records.setToken(of: index, registering: command.token, from: value)
        }
    }

    /// Writes the default id of a command without one: topic, partition and offset. Called when the id is
    /// first needed, because most commands are replaced earlier.
    mutating func completeIdentifier(of record: UInt32) {
        let slot = records.mutableAddress(of: record)
        guard slot.pointee.kind == .command, slot.pointee.commandIdentifier.count == 0 else { return }
        let writtenByteCount = DefaultIdentifier.write(
            topic: configuration.name(of: slot.pointee.topic),
            partition: slot.pointee.sourcePartition,
            offset: slot.pointee.sourceOffset,
            into: slot.pointee.block.base + Int(slot.pointee.commandIdentifier.offset)
        )
        slot.pointee.commandIdentifier.count = UInt32(writtenByteCount)
    }

    private mutating func fill(
        _ index: UInt32,
        with registration: Registration,
        from value: UnsafeRawBufferPointer,
        trace: UnsafeRawBufferPointer
    ) {
        let slot = records.mutableAddress(of: index)
        slot.pointee.kind = .registration
        slot.pointee.environment = registration.environment
        slot.pointee.registeredAtMilliseconds = registration.registeredAtMilliseconds
        let otherBytes = trace.count + BlockRoom.reasonBytes
        var writer: RecordBlockWriter
        switch registration.kind {
        case .activity(let activity):
            let textBytes = Int(activity.activity.range.count) + activity.audienceCount * AudienceList.digestBytes
            writer = RecordBlockWriter(block: records.allocateBlock(textBytes + otherBytes))
            slot.pointee.subject = writer.append(activity.activity, from: value)
            slot.pointee.audiences = writer.appendDigests(
                of: activity.audiences,
                count: activity.audienceCount,
                from: value
            )
            records.setToken(of: index, registering: activity.token, from: value)
            slot.pointee.frequentUpdates = activity.frequentUpdates
            slot.pointee.shownVersion = activity.shownVersion
        case .pushToStart(let start):
            let textBytes =
                Int(start.device.range.count) + Int(start.attributesType.range.count)
                + start.audienceCount * AudienceList.digestBytes
            writer = RecordBlockWriter(block: records.allocateBlock(textBytes + otherBytes))
            slot.pointee.device = writer.append(start.device, from: value)
            slot.pointee.attributesType = writer.append(start.attributesType, from: value)
            slot.pointee.audiences = writer.appendDigests(of: start.audiences, count: start.audienceCount, from: value)
            records.setToken(of: index, registering: start.token, from: value)
            slot.pointee.supportsChannels = start.supportsChannels
        }
        slot.pointee.block = writer.block
        slot.pointee.trace = writer.append(trace)
        slot.pointee.reason = writer.reserve(BlockRoom.reasonBytes)
    }

    /// Returns when a start expires, UNIX seconds: `startSeconds` of its policy after its timestamp, or at its own
    /// expiration if that is earlier.
    private func expiration(ofStart command: Command, _ slot: UnsafeMutablePointer<RecordSlot>) -> Int64 {
        AgeRules.startExpiration(
            timestamp: command.version.timestamp,
            expiration: command.expiration,
            startSeconds: policies[slot.pointee.policy].startSeconds
        )
    }

    /// Returns the default priority: 5 for an update without an alert, otherwise 10.
    private static func priority(of command: Command) -> UInt8 {
        command.event == .update && !command.hasAlert ? 5 : 10
    }
}

/// The id of a command that brings none: `topic/partition/offset` of the record from which it was first read.
enum DefaultIdentifier {
    /// A Kafka topic's name has at most 249 bytes. The partition takes at most 11 bytes, the offset 20.
    static let bytesMax = bytesMax(topicBytes: 249)

    static func bytesMax(topic: [UInt8]) -> Int { bytesMax(topicBytes: min(topic.count, 249)) }
    private static func bytesMax(topicBytes: Int) -> Int { topicBytes + 1 + 11 + 1 + 20 }

    static func write(topic: [UInt8], partition: Int32, offset: Int64, into target: UnsafeMutableRawPointer) -> Int {
        var position = min(topic.count, 249)
        topic.withUnsafeBytes { name in
            if let base = name.baseAddress { target.copyMemory(from: base, byteCount: position) }
        }
        position = append(UInt64(clamping: partition), to: target, at: position)
        return append(UInt64(clamping: offset), to: target, at: position)
    }

    private static func append(_ number: UInt64, to target: UnsafeMutableRawPointer, at position: Int) -> Int {
        var position = position
        target.storeBytes(of: UInt8(ascii: "/"), toByteOffset: position, as: UInt8.self)
        position += 1
        var digits = 1
        var rest = number / 10
        while rest > 0 {
            digits += 1
            rest /= 10
        }
        rest = number
        var digit = position + digits
        repeat {
            digit -= 1
            target.storeBytes(of: UInt8(ascii: "0") + UInt8(rest % 10), toByteOffset: digit, as: UInt8.self)
            rest /= 10
        } while rest > 0
        return position + digits
    }
}

func isEqual(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
    guard left.count == right.count else { return false }
    var position = 0
    while position + 8 <= left.count {
        guard
            left.loadUnaligned(fromByteOffset: position, as: UInt64.self)
                == right.loadUnaligned(fromByteOffset: position, as: UInt64.self)
        else { return false }
        position += 8
    }
    while position < left.count {
        guard left[position] == right[position] else { return false }
        position += 1
    }
    return true
}
