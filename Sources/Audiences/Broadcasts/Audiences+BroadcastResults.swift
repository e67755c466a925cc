import Delivery
import LiveActivity

/// Composes the results that broadcasts write. Each broadcast writes its own result. If it is the last to end of all
/// ranges and broadcasts of a command to an audience, it also writes the result of the whole command.
extension Audiences {
    mutating func composeBroadcastResult(_ broadcast: BroadcastIndex) -> ComposedRecord {
        let slot = broadcasts[broadcast]
        let channel = slot.record.instruction.channel ?? channels[slot.channel].apnsChannel
        let reason = slot.outcome == .failed ? slot.reason.bytes : UnsafeRawBufferPointer(start: nil, count: 0)
        return composeResult(of: subject(ofChannel: slot.channel), slot.record) { command, writer in
            var result = BroadcastResultRecord(
                command: command,
                channel: channel,
                outcome: slot.outcome,
                reason: reason,
                times: slot.times
            )
            result.status = slot.httpStatus
            if slot.outcome == .failed { result.advice = slot.advice }
            result.droppedFieldNames = slot.record.droppedFields.bytes
            result.write(to: &writer)
        }
    }

    mutating func composeCommandResultAfterBroadcast(_ broadcast: BroadcastIndex) -> ComposedRecord {
        let slot = broadcasts[broadcast]
        return composeTotals(
            slot.totals,
            of: subject(ofChannel: slot.channel),
            slot.record,
            isSuperseded: slot.outcome == .superseded
        )
    }

    private func subject(ofChannel channel: ChannelIndex) -> ResultSubject {
        let slot = channels[channel]
        return ResultSubject(
            appIndex: slot.key.appIndex,
            identifier: slot.audienceOrChannelIdentifier.bytes,
            isChannel: slot.isManagedByProducer
        )
    }
}
