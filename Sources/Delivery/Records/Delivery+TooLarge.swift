import LiveActivity

/// Commands whose body is too large for APNs. Their policy may name fields that are dropped until the body
/// fits (`oversize`).
///
/// The record is shortened when it is read. The shortened state is used everywhere: in the digest, the held
/// state, the deferred record and the fan-out records. If the record is read again, it gives the same bytes.
/// A carried alert never makes a body drop fields. (R33)
extension Delivery {
    /// Shortens and takes a command, whose app and policy are in its slot. Not for the hot path: this copies
    /// the record and decodes it again.
    @inline(never)
    mutating func receiveTooLarge(
        _ command: Command,
        index: UInt32,
        record: IncomingRecord,
        deferral: Deferral?,
        now: Moment
    ) {
        let fields = policies.droppedFields(records[index].policy)
        guard !fields.isEmpty, let value = record.value else {
            let fault = command.sizeFault
            let detail = record.value.map { fault.message(in: $0) } ?? ""
            return rejectTooLarge(command, index: index, record: record, code: fault.code.name, detail: detail)
        }
        withUnsafeTemporaryAllocation(byteCount: value.count, alignment: 1) { room in
            let trimmed = fields.trim(value, of: command, into: room)
            let rest = UnsafeRawBufferPointer(rebasing: room[..<trimmed.byteCount])
            let names = fields.text(of: trimmed)
            do throws(Fault) {
                let smaller = try Command.decode(rest)
                countTrimmedBody(of: index)
                // The decoder remembers the longer record, but the shortened one is laid out.
                lastAps.forget()
                contracts.forms.beginRecord()
                names.withUnsafeBytes { dropped in
                    take(
                        smaller,
                        from: rest,
                        index: index,
                        record: record,
                        deferral: deferral,
                        dropped: dropped,
                        now: now
                    )
                }
            } catch {
                var fault = error
                fault.offset = command.sizeFault.offset
                rejectTooLarge(
                    command,
                    index: index,
                    record: record,
                    code: fault.code.name,
                    detail: fault.message(in: value, afterDropping: names)
                )
            }
        }
    }

    /// Rejects a command that is too large. A start that is read again is settled instead, because its body
    /// may have fitted by an earlier configuration.
    private mutating func rejectTooLarge(
        _ command: Command,
        index: UInt32,
        record: IncomingRecord,
        code: StaticString,
        detail: String
    ) {
        guard records[index].isReadAgain, command.event == .start, let value = record.value else {
            return reject(record, index, command, code: code, detail: detail)
        }
        settleStartReadAgain(index, command, from: value)
    }
}
