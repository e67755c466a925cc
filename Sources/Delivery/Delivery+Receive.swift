import LiveActivity

extension Delivery {
    /// Takes one record in: it is read, and waits for `endBatch`, or its fault is published.
    ///
    /// Call only while `canReceive` and `hasRoom(for:)` hold. A record of a partition that is being revoked is let fall: its next owner
    /// reads it again. A record whose offset was received before in this assignment likewise: the first one stands.
    public mutating func receive(_ record: IncomingRecord, now: Moment) {
        guard let partition = partitions[record.partition], partition.phase == .assigned else { return }
        guard partition.ledger.receive(record.offset) == .accepted else { return }
        partition.receipts.note(
            record.offset,
            milliseconds: now.monotonicMilliseconds,
            committableOffset: partition.ledger.committableOffset,
            isAlone: partition.outstanding == 0
        )
        partition.outstanding += 1
        countReceived()
        let slot = emptySlot(of: record, partition: partition, now: now)
        switch (partition.topic, record.value) {
        case (.commands, let value?): receiveCommand(value, slot: slot, record: record, now: now)
        case (.registrations, let value?): receiveRegistration(value, slot: slot, record: record)
        case (.registrations, nil): receiveTombstone(slot: slot, record: record)
        case (.commands, nil): reject(record, slot: slot, code: "emptyRecord", detail: "a command record has no value")
        }
    }

    /// Whether the partition's window has room for `offset`; if not, the record waits outside.
    public func hasRoom(for offset: Int64, partition: UInt32) -> Bool {
        partitions[partition]?.ledger.hasRoom(for: offset) ?? true
    }

    private func emptySlot(of record: IncomingRecord, partition: Partition, now: Moment) -> RecordSlot {
        RecordSlot(
            kind: .invalid,
            topic: partition.topic,
            partition: record.partition,
            epoch: partition.epoch,
            partitionNumber: partition.number,
            offset: record.offset,
            recordMilliseconds: record.timestampMilliseconds,
            receivedMilliseconds: now.wallMilliseconds
        )
    }

    private mutating func receiveCommand(
        _ value: UnsafeRawBufferPointer,
        slot: RecordSlot,
        record: IncomingRecord,
        now: Moment
    ) {
        do throws(Fault) {
            let command = try Command.decode(value)
            guard let application = application(named: command.app, in: value) else {
                return reject(record, slot: slot, code: "unknownApp", detail: "app: is not configured")
            }
            guard let policy = policy(of: command, of: application, in: value) else {
                return reject(record, slot: slot, code: "unknownPolicy", detail: "policy: is not configured")
            }
            var slot = slot
            slot.application = application
            slot.policy = policy
            fill(&slot, with: command, from: value, trace: record.trace)
            enqueue(records.allocate(slot), now: now)
        } catch {
            reject(record, slot: slot, fault: error)
        }
    }

    private mutating func receiveRegistration(
        _ value: UnsafeRawBufferPointer,
        slot: RecordSlot,
        record: IncomingRecord
    ) {
        do throws(Fault) {
            let registration = try Registration.decode(value)
            guard let application = application(named: registration.app, in: value) else {
                return reject(record, slot: slot, code: "unknownApp", detail: "app: is not configured")
            }
            var slot = slot
            slot.application = application
            fill(&slot, with: registration, from: value, trace: record.trace)
            let index = records.allocate(slot)
            call(.register, index)
        } catch {
            reject(record, slot: slot, fault: error)
        }
    }

    /// A tombstone names its activity or device by the record's key alone, and no app: it unregisters in every app that is configured.
    private mutating func receiveTombstone(slot: RecordSlot, record: IncomingRecord) {
        guard let key = record.key, (1...Limits.identifierBytes).contains(key.count) else {
            return reject(
                record,
                slot: slot,
                code: "missingKey",
                detail: "a tombstone's key must name an activity or device"
            )
        }
        var slot = slot
        slot.kind = .unregistration
        var writer = RecordBlockWriter(block: arena.allocate(key.count))
        slot.block = writer.block
        slot.subject = writer.append(key)
        slot.registeredAtMilliseconds =
            record.timestampMilliseconds >= 0 ? record.timestampMilliseconds : slot.receivedMilliseconds
        let index = records.allocate(slot)
        recordsAwaitingRedis += 1
        for application in 0..<UInt16(configuration.applications.count) {
            call(.unregisterActivity, index, application: application)
            call(.unregisterDevice, index, application: application)
        }
    }

    func application(named text: TextRange, in record: UnsafeRawBufferPointer) -> UInt16? {
        // A bundle id has no character that JSON must escape; one written with escapes is simply not found.
        let name = text.range.bytes(in: record)
        for position in 0..<configuration.applications.count {
            let matches = configuration.applications[position].bundleIdentifier.withUnsafeBytes { isEqual($0, name) }
            if matches { return UInt16(position) }
        }
        return nil
    }

    /// The policy that a command names, or its app's. nil if there is none of that name.
    func policy(of command: Command, of application: UInt16, in record: UnsafeRawBufferPointer) -> UInt8? {
        guard !command.policy.isAbsent else {
            return UInt8(truncatingIfNeeded: configuration.applications[Int(application)].policy)
        }
        return policies.index(of: command.policy.range.bytes(in: record))
    }

    /// Lays a command out in blocks of its own and fills its slot's fields. The record's bytes are not needed afterwards.
    mutating func fill(
        _ slot: inout RecordSlot,
        with command: Command,
        from value: UnsafeRawBufferPointer,
        trace: UnsafeRawBufferPointer
    ) {
        slot.kind = .command
        slot.event = command.event
        slot.version = command.version
        slot.isBodyComplete = false
        if command.event == .start { slot.claim = randomness.next() }
        slot.staleDate = command.staleDate
        slot.priority = command.priority != 0 ? command.priority : Self.priority(of: command)
        slot.expiration = command.expiration
        let topic = slot.topic == .commands ? configuration.commandsTopic : configuration.registrationsTopic
        let texts =
            Int(command.activity.range.count) + Int(command.identifier.range.count)
            + Int(command.device.range.count) + Int(command.attributesType.range.count)
            + Int(command.policy.range.count)
        let count =
            texts + trace.count + (command.identifier.isAbsent ? DefaultIdentifier.bytesMax(topic: topic) : 0)
            + BlockRoom.reasonBytes
        var writer = RecordBlockWriter(block: arena.allocate(count))
        slot.block = writer.block
        slot.subject = writer.append(command.activity, from: value)
        slot.device = writer.append(command.device, from: value)
        slot.attributesType = writer.append(command.attributesType, from: value)
        slot.policyName = writer.append(command.policy, from: value)
        slot.trace = writer.append(trace)
        if command.identifier.isAbsent {
            let written = DefaultIdentifier.write(
                topic: topic,
                partition: slot.partitionNumber,
                offset: slot.offset,
                into: writer.remaining
            )
            slot.commandIdentifier = writer.advance(written)
        } else {
            slot.commandIdentifier = writer.append(command.identifier, from: value)
        }
        slot.reason = writer.reserve(BlockRoom.reasonBytes)
        var content = RecordBlockWriter(block: arena.allocate(BlockRoom.tokenBytes + command.bodyCount))
        slot.content = content.block
        slot.token = content.reserve(BlockRoom.tokenBytes)
        if let environment = command.environment, !command.token.isAbsent {
            slot.environment = environment
            slot.suppliesToken = true
            slot.registeredAtMilliseconds =
                slot.recordMilliseconds >= 0 ? slot.recordMilliseconds : slot.receivedMilliseconds
            slot.setToken(registering: command.token, from: value)
        }
        let room = UnsafeMutableRawBufferPointer(start: content.remaining, count: command.bodyCount)
        slot.layout = Body.write(command, from: value, into: room)
        slot.body = content.advance(command.bodyCount)
    }

    private mutating func fill(
        _ slot: inout RecordSlot,
        with registration: Registration,
        from value: UnsafeRawBufferPointer,
        trace: UnsafeRawBufferPointer
    ) {
        slot.kind = .registration
        slot.environment = registration.environment
        slot.registeredAtMilliseconds = registration.registeredAtMilliseconds
        let rooms = trace.count + BlockRoom.reasonBytes
        var content = RecordBlockWriter(block: arena.allocate(BlockRoom.tokenBytes))
        slot.content = content.block
        slot.token = content.reserve(BlockRoom.tokenBytes)
        switch registration.kind {
        case .activity(let activity):
            var writer = RecordBlockWriter(block: arena.allocate(Int(activity.activity.range.count) + rooms))
            slot.block = writer.block
            slot.subject = writer.append(activity.activity, from: value)
            slot.trace = writer.append(trace)
            slot.reason = writer.reserve(BlockRoom.reasonBytes)
            slot.setToken(registering: activity.token, from: value)
            slot.frequentUpdates = activity.frequentUpdates
            slot.shows = activity.shows
        case .pushToStart(let start):
            let texts = Int(start.device.range.count) + Int(start.attributesType.range.count)
            var writer = RecordBlockWriter(block: arena.allocate(texts + rooms))
            slot.block = writer.block
            slot.device = writer.append(start.device, from: value)
            slot.attributesType = writer.append(start.attributesType, from: value)
            slot.trace = writer.append(trace)
            slot.reason = writer.reserve(BlockRoom.reasonBytes)
            slot.setToken(registering: start.token, from: value)
        }
    }

    /// Design §4: left to the policy, an update is 5, and a start, an end and whatever carries an alert is 10.
    private static func priority(of command: Command) -> UInt8 {
        command.event == .update && !command.hasAlert ? 5 : 10
    }
}

/// The id of a command that names none: `topic/partition/offset`.
enum DefaultIdentifier {
    /// A topic's name has at most 249 bytes (Kafka), the numbers at most 10 and 20 digits and a sign.
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
