import LiveActivity

/// Handles invalid records. Each gets a result `invalid` and is copied to the dead letters, unless it is reread
/// (`isReread`). If Kafka refuses a dead letter because of its size, it is written again without the record's value.
extension Delivery {
    /// Rejects a record because of a fault.
    ///
    /// - Parameter identifier: the command's own id, if it could be read. Otherwise the result has the default id.
    mutating func finishAsInvalid(
        _ record: IncomingRecord,
        _ index: RecordIndex,
        _ identifier: TextRange = .absent,
        fault: Fault
    ) {
        let detail = record.value.map { fault.message(in: $0) } ?? ""
        finishAsInvalid(record, index, identifier, code: fault.code.name, detail: detail)
    }

    /// Rejects a command whose app is known. If the command is a start that Causeway made after a lifetime, the life
    /// also leaves the timetable, so that `LifetimeKeeper` does not make the same invalid start again. (R35)
    mutating func finishAsInvalid(
        _ record: IncomingRecord,
        _ index: RecordIndex,
        _ command: Command,
        code: StaticString,
        detail: String
    ) {
        guard command.event == .start, let value = record.value, command.isLifetimeCommand(in: value) else {
            return finishAsInvalid(record, index, command.identifier, code: code, detail: detail)
        }
        records[index].lifetime.isRestart = true
        let address = (command.activity, command.device)
        finishAsInvalid(record, index, command.identifier, of: address, code: code, detail: detail)
    }

    /// Rejects a record: finishes it as `invalid`. Not for the hot path: it copies the record, because the bytes of
    /// `record` are valid only while this method runs.
    ///
    /// - Parameters:
    ///   - address: the command's activity and device, if a store call about them follows the result.
    ///   - decodedInput: the bytes from which the command was decoded, if fields were dropped before; nil: the command
    ///     was decoded from the record's value.
    ///   - code: the code of the fault, which is the reason in the result.
    ///   - detail: the fault in words.
    mutating func finishAsInvalid(
        _ record: IncomingRecord,
        _ index: RecordIndex,
        _ identifier: TextRange = .absent,
        of address: (activity: TextRange, device: TextRange) = (.absent, .absent),
        decodedFrom decodedInput: UnsafeRawBufferPointer? = nil,
        code: StaticString,
        detail: String
    ) {
        var slot = records[index]
        let topic = configuration.name(of: slot.source.topic)
        let code = code.bytes
        var detail = detail
        let key = record.key ?? UnsafeRawBufferPointer(start: nil, count: 0)
        let value = record.value ?? UnsafeRawBufferPointer(start: nil, count: 0)
        let decodedInput = decodedInput ?? value
        slot.deadLetter.valueForm = record.value == nil ? .absent : .asReceived
        slot.body = records.makeBody(copying: value)
        detail.withUTF8 { detail in
            let detail = UnsafeRawBufferPointer(detail)
            let identifierByteCount =
                identifier.isAbsent ? DefaultCommandIdentifier.bytesMax : Int(identifier.range.count)
            let addressByteCount = Int(address.activity.range.count) + Int(address.device.range.count)
            let blockByteCount =
                key.count + record.trace.count + code.count + detail.count + identifierByteCount + addressByteCount
            var writer = RecordBlockWriter(block: records.allocateBlock(blockByteCount))
            slot.texts.block = writer.block
            let recordKey = writer.append(key)
            slot.deadLetter.key = record.key == nil ? nil : recordKey
            slot.texts.trace = writer.append(record.trace)
            slot.texts.reason = writer.append(code)
            slot.deadLetter.detail = writer.append(detail)
            slot.texts.subject = writer.append(address.activity, from: decodedInput)
            slot.texts.device = writer.append(address.device, from: decodedInput)
            guard identifier.isAbsent else {
                slot.texts.commandIdentifier = writer.append(identifier, from: decodedInput)
                return
            }
            let writtenByteCount = DefaultCommandIdentifier.write(
                topic: topic,
                partition: slot.source.partition,
                offset: slot.source.offset,
                into: writer.writePointer
            )
            slot.texts.commandIdentifier = writer.advance(by: writtenByteCount)
        }
        records[index] = slot
        finish(index, .invalid)
    }
}
