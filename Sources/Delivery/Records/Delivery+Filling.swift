import LiveActivity

/// Fills the slot of a record with the fields of its command or registration.
extension Delivery {
    /// Copies a command's texts into a block and fills the fields of its slot, except for the body.
    @inline(__always)
    mutating func fillSlot(
        _ index: RecordIndex,
        with command: Command,
        from value: UnsafeRawBufferPointer,
        trace: UnsafeRawBufferPointer,
        droppedFields: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
    ) {
        fillSlot(
            index,
            with: command,
            subject: command.activity,
            deviceOrActivityTemplate: command.device,
            from: value,
            trace: trace,
            droppedFields: droppedFields
        )
    }

    /// Copies a command's texts into a block and fills the fields of its slot, except for the body.
    ///
    /// - Parameters:
    ///   - subject: the id of what the command addresses: an activity, an audience or a channel.
    ///   - deviceOrActivityTemplate: the id of the device. For a start to an audience, the template of the activities'
    ///     ids (`ActivityIdentifierTemplate`), which `handOver` moves from `texts.device` to `audienceCommand`.
    @inline(__always)
    mutating func fillSlot(
        _ index: RecordIndex,
        with command: Command,
        subject: TextRange,
        deviceOrActivityTemplate: TextRange,
        from value: UnsafeRawBufferPointer,
        trace: UnsafeRawBufferPointer,
        droppedFields: UnsafeRawBufferPointer
    ) {
        let slot = records.mutableAddress(of: index)
        slot.pointee.kind = .command
        slot.pointee.event = command.event
        let isLifetimeCommand = command.isLifetimeCommand(in: value)
        slot.pointee.lifetime.isEnd = isLifetimeCommand && command.event == .end
        slot.pointee.lifetime.isRestart = isLifetimeCommand && command.event == .start
        slot.pointee.version = command.version
        slot.pointee.digest = nil
        if command.event == .start { slot.pointee.start.claim = random.next() }
        slot.pointee.staleDateSeconds = command.staleDateSeconds
        slot.pointee.priorityWithoutAlert = Self.priority(of: command, hasAlert: false)
        slot.pointee.priority = Self.priority(of: command, hasAlert: command.hasAlert)
        slot.pointee.expirationSeconds =
            command.event == .start ? expirationSeconds(ofStart: command, slot) : command.expirationSeconds
        let textBytes =
            Int(subject.range.count) + Int(command.identifier.range.count)
            + Int(deviceOrActivityTemplate.range.count) + Int(command.attributesType.range.count)
            + Int(command.policy.range.count)
        let blockByteCount =
            textBytes + trace.count + droppedFields.count
            + (command.identifier.isAbsent ? defaultIdentifierBytesMax : 0)
            + RecordBlockWriter.reasonBytesMax
        var writer = RecordBlockWriter(block: records.allocateBlock(blockByteCount))
        slot.pointee.texts.block = writer.block
        slot.pointee.texts.subject = writer.append(subject, from: value)
        slot.pointee.texts.device = writer.append(deviceOrActivityTemplate, from: value)
        slot.pointee.texts.attributesType = writer.append(command.attributesType, from: value)
        slot.pointee.texts.policyName = writer.append(command.policy, from: value)
        slot.pointee.texts.trace = writer.append(trace)
        slot.pointee.texts.droppedFields = writer.append(droppedFields)
        slot.pointee.texts.commandIdentifier =
            command.identifier.isAbsent
            ? writer.reserve(defaultIdentifierBytesMax) : writer.append(command.identifier, from: value)
        slot.pointee.texts.reason = writer.reserve(RecordBlockWriter.reasonBytesMax)
        // If a registration released this command, the slot still refers to that registration's token. The caller frees
        // the token's bytes, so only clear the reference here.
        slot.pointee.token.block = .none
        slot.pointee.token.byteCount = 0
        if let environment = command.environment, !command.token.isAbsent {
            slot.pointee.token.environment = environment
            slot.pointee.token.mustBeRegistered = true
            slot.pointee.setRegistrationTimeFromRecord()
            records.setToken(of: index, registering: command.token, from: value)
        }
    }

    /// Writes the default id of a command that brought no id: `topic/partition/offset`. Does nothing for other records.
    /// Called only when the id is needed, because most commands are replaced before that.
    mutating func writeDefaultIdentifierIfMissing(of record: RecordIndex) {
        let slot = records.mutableAddress(of: record)
        guard slot.pointee.kind == .command, slot.pointee.texts.commandIdentifier.count == 0 else { return }
        let writtenByteCount = DefaultCommandIdentifier.write(
            topic: configuration.name(of: slot.pointee.source.topic),
            partition: slot.pointee.source.partition,
            offset: slot.pointee.source.offset,
            into: slot.pointee.texts.block.base + Int(slot.pointee.texts.commandIdentifier.offset)
        )
        slot.pointee.texts.commandIdentifier.count = UInt32(writtenByteCount)
    }

    /// Copies a registration's texts and token into blocks, and fills the fields of its slot.
    mutating func fillSlot(
        _ index: RecordIndex,
        with registration: Registration,
        from value: UnsafeRawBufferPointer,
        trace: UnsafeRawBufferPointer
    ) {
        let slot = records.mutableAddress(of: index)
        slot.pointee.kind = .registration
        slot.pointee.token.environment = registration.environment
        slot.pointee.token.registeredAtWallMilliseconds = registration.registeredAtMilliseconds
        let otherBytes = trace.count + RecordBlockWriter.reasonBytesMax
        var writer: RecordBlockWriter
        switch registration.kind {
        case .activity(let activity):
            let textBytes = Int(activity.activity.range.count) + activity.audienceCount * AudienceList.digestBytes
            writer = RecordBlockWriter(block: records.allocateBlock(textBytes + otherBytes))
            slot.pointee.texts.subject = writer.append(activity.activity, from: value)
            slot.pointee.registration.audienceDigests = writer.appendDigests(
                of: activity.audiences,
                count: activity.audienceCount,
                from: value
            )
            records.setToken(of: index, registering: activity.token, from: value)
            slot.pointee.registration.allowsFrequentUpdates = activity.allowsFrequentUpdates
            slot.pointee.registration.shownVersion = activity.shownVersion
        case .pushToStart(let start):
            let textBytes =
                Int(start.device.range.count) + Int(start.attributesType.range.count)
                + start.audienceCount * AudienceList.digestBytes
            writer = RecordBlockWriter(block: records.allocateBlock(textBytes + otherBytes))
            slot.pointee.texts.device = writer.append(start.device, from: value)
            slot.pointee.texts.attributesType = writer.append(start.attributesType, from: value)
            slot.pointee.registration.audienceDigests = writer.appendDigests(
                of: start.audiences,
                count: start.audienceCount,
                from: value
            )
            records.setToken(of: index, registering: start.token, from: value)
            slot.pointee.registration.supportsChannels = start.supportsChannels
        }
        slot.pointee.texts.block = writer.block
        slot.pointee.texts.trace = writer.append(trace)
        slot.pointee.texts.reason = writer.reserve(RecordBlockWriter.reasonBytesMax)
    }

    /// Returns when a start expires, UNIX seconds: at its own expiration, or when it reaches the greatest age that its
    /// policy permits, whichever comes first.
    private func expirationSeconds(ofStart command: Command, _ slot: UnsafeMutablePointer<RecordSlot>) -> Int64 {
        AgeRules.startExpirationSeconds(
            timestamp: command.version.timestamp,
            ownExpirationSeconds: command.expirationSeconds,
            startAgeSecondsMax: policies[slot.pointee.policyIndex].startAgeSecondsMax
        )
    }

    /// Returns the priority that a command names, or the default: low for an update without an alert, otherwise high.
    ///
    /// - Parameter hasAlert: whether to treat the command as one with an alert.
    @inline(__always)
    static func priority(of command: Command, hasAlert: Bool) -> UInt8 {
        guard command.priority == 0 else { return command.priority }
        return command.event == .update && !hasAlert ? PushPriority.low : PushPriority.high
    }
}

/// The id of a command that brings none: `topic/partition/offset` of the record from which it was first read.
enum DefaultCommandIdentifier {
    /// The maximum bytes of a default id. A Kafka topic's name has at most 249 bytes. The partition takes at most 11
    /// bytes, the offset 20.
    static let bytesMax = bytesMax(topicBytes: 249)

    static func bytesMax(topic: [UInt8]) -> Int { bytesMax(topicBytes: min(topic.count, 249)) }
    private static func bytesMax(topicBytes: Int) -> Int { topicBytes + 1 + 11 + 1 + 20 }

    /// Writes a default id to `target`, which must have room for the longest default id (`bytesMax`). Returns the
    /// number of bytes written.
    static func write(topic: [UInt8], partition: Int32, offset: Int64, into target: UnsafeMutableRawPointer) -> Int {
        var position = min(topic.count, 249)
        topic.withUnsafeBytes { name in
            if let base = name.baseAddress { target.copyMemory(from: base, byteCount: position) }
        }
        position = append(UInt64(clamping: partition), to: target, at: position)
        return append(UInt64(clamping: offset), to: target, at: position)
    }

    /// Writes a slash and the decimal digits of a number. Returns the position behind the last digit.
    private static func append(_ number: UInt64, to target: UnsafeMutableRawPointer, at position: Int) -> Int {
        var position = position
        target.storeBytes(of: UInt8(ascii: "/"), toByteOffset: position, as: UInt8.self)
        position += 1
        var digitCount = 1
        var remainingNumber = number / 10
        while remainingNumber > 0 {
            digitCount += 1
            remainingNumber /= 10
        }
        remainingNumber = number
        var digitPosition = position + digitCount
        repeat {
            digitPosition -= 1
            target.storeBytes(
                of: UInt8(ascii: "0") + UInt8(remainingNumber % 10),
                toByteOffset: digitPosition,
                as: UInt8.self
            )
            remainingNumber /= 10
        } while remainingNumber > 0
        return position + digitCount
    }
}
