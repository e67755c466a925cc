import LiveActivity

/// Drops the fields that the policy names (`oversize`) from commands whose body is too large for APNs: one after the
/// other, until the body fits or none of them is left. A body never loses fields to make room for a carried alert.
///
/// The fields are dropped when the record is read. So the digest, the held state, the deferred record and the fan-out
/// records are all made without them, and a lane that reads the record again with the same policy makes the same bytes.
/// (R33)
extension Delivery {
    /// Drops fields from a command whose body is too large, and passes the command to `routeCommand`. Rejects it if its
    /// policy names no fields, or if the body is still too large without them (`rejectTooLarge`). The slot already has
    /// the command's app and policy. Not for the hot path: this copies the record and decodes it again.
    @inline(never)
    mutating func receiveTooLarge(
        _ command: Command,
        index: RecordIndex,
        record: IncomingRecord,
        deferral: Deferral?,
        now: Moment
    ) {
        let oversizeFields = policies.oversizeFields(records[index].policyIndex)
        guard !oversizeFields.isEmpty, let value = record.value else {
            let fault = command.bodyTooLargeFault
            let detail = record.value.map { fault.message(in: $0) } ?? ""
            return rejectTooLarge(
                command,
                index: index,
                record: record,
                code: fault.code.name,
                detail: detail,
                now: now
            )
        }
        withUnsafeTemporaryAllocation(byteCount: value.count, alignment: 1) { buffer in
            let dropResult = oversizeFields.drop(from: value, of: command, into: buffer)
            let smallerValue = UnsafeRawBufferPointer(rebasing: buffer[..<dropResult.byteCount])
            let droppedFieldNames = oversizeFields.droppedFieldNames(of: dropResult)
            do throws(Fault) {
                let smallerCommand = try Command.decode(smallerValue)
                countBodyWithDroppedFields(of: index)
                // Both caches have the `aps` dictionary with all its fields. Make them forget it: if the next command
                // has the same dictionary, it must not share this smaller body.
                apsCache.forget()
                contracts.templates.forgetMatchedState()
                droppedFieldNames.withUnsafeBytes { droppedFields in
                    routeCommand(
                        smallerCommand,
                        from: smallerValue,
                        index: index,
                        record: record,
                        deferral: deferral,
                        droppedFields: droppedFields,
                        now: now
                    )
                }
            } catch {
                var fault = error
                fault.offset = command.bodyTooLargeFault.offset
                rejectTooLarge(
                    command,
                    index: index,
                    record: record,
                    code: fault.code.name,
                    detail: fault.message(in: value, afterDropping: droppedFieldNames),
                    now: now
                )
            }
        }
    }

    /// Rejects a command whose body is too large. But settles a reread start: with an earlier configuration, its body
    /// may have fitted, and the start may have been sent.
    private mutating func rejectTooLarge(
        _ command: Command,
        index: RecordIndex,
        record: IncomingRecord,
        code: StaticString,
        detail: String,
        now: Moment
    ) {
        guard records[index].isReread, command.event == .start, let value = record.value else {
            return finishAsInvalid(record, index, command, code: code, detail: detail)
        }
        settleRereadStart(index, command, from: value, now: now)
    }
}
