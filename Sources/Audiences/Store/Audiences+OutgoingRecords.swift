public import Delivery
import LiveActivity
import Numbers

/// Composes the records that this core produces, and handles Kafka's reports about them.
extension Audiences {
    /// The maximum number of records for one topic that are on their way to Kafka. Each topic has a limit of its own.
    /// So if one topic takes no writes for hours, the records of the other topics still reach Kafka.
    ///
    /// Fan-out records and starts count as soon as they are queued.
    public static var unacknowledgedRecordsPerTopicMax: Int { 1_024 }
    /// The maximum number of records of all topics that are on their way to Kafka: fan-out records, starts, results and
    /// invalidations.
    public static var unacknowledgedRecordsMax: Int { 4 * unacknowledgedRecordsPerTopicMax }

    /// Returns the next record to be produced; nil if there is none now. The producer's queue may be full, so the
    /// record stays the next one until ``removeNextOutgoingRecord(_:)``.
    public mutating func nextOutgoingRecord(now: Moment) -> OutgoingAudienceRecord? { outgoingRecords.next(now: now) }

    /// Removes the record that `nextOutgoingRecord` returned, because the producer has taken or refused it.
    public mutating func removeNextOutgoingRecord(_ outgoingRecord: OutgoingAudienceRecord) {
        outgoingRecords.removeFirst(outgoingRecord.kind)
    }

    /// Takes Kafka's report on a record that this core has produced. The core produces the record again if Kafka could
    /// not take it for a temporary reason, or perhaps refused it only because its batch was too large. Otherwise the
    /// work that waited for the report continues.
    ///
    /// - Returns: whether the record is given up, so that its topic never has it.
    @discardableResult
    public mutating func handleDeliveryReport(
        _ outgoingRecord: OutgoingAudienceRecord,
        _ report: OutgoingRecord.KafkaReport,
        now: Moment
    ) -> Bool {
        outgoingRecords.noteReport(outgoingRecord.kind)
        if report == .failed {
            if outgoingRecord.refusalCount > 0 {
                outgoingRecords.retryInSmallGroup(outgoingRecord, now: now)
            } else {
                outgoingRecords.retry(outgoingRecord, now: now)
            }
            return false
        }
        if report == .tooLarge, let nextAttempt = outgoingRecord.nextAttempt {
            outgoingRecords.retryInSmallGroup(nextAttempt, now: now)
            return false
        }
        switch outgoingRecord.kind {
        case .fanout: handleFanoutRecordReport(outgoingRecord.command, isTooLarge: report == .tooLarge)
        // A result that the broker refuses as too large counts as acknowledged, because another attempt would not help.
        case .rangeResult, .commandResult: callOrRecordAcknowledged(of: outgoingRecord.rangeVersion, now: now)
        case .broadcastResult, .commandResultAfterBroadcast:
            callOrRecordAcknowledged(of: outgoingRecord.broadcast, now: now)
        case .memberResult, .invalidation: callOrRecordAcknowledged(about: outgoingRecord.refusedMember, now: now)
        case .start: handleStartCommandReport(outgoingRecord.pageMember, isTooLarge: report == .tooLarge, now: now)
        }
        return report == .tooLarge
    }

    /// Composes a record for Kafka: its key, its value, and the contents of its headers.
    public mutating func compose(_ outgoingRecord: OutgoingAudienceRecord) -> ComposedRecord {
        recordValueWriter.reset()
        recordKeyWriter.reset()
        switch outgoingRecord.kind {
        case .fanout: return composeFanout(outgoingRecord)
        case .rangeResult: return composeRangeResult(outgoingRecord.rangeVersion)
        case .commandResult: return composeCommandResult(outgoingRecord.rangeVersion)
        case .broadcastResult: return composeBroadcastResult(outgoingRecord.broadcast)
        case .commandResultAfterBroadcast: return composeCommandResultAfterBroadcast(outgoingRecord.broadcast)
        case .start: return composeStart(outgoingRecord.pageMember)
        case .memberResult, .invalidation: return composeRefusedMember(outgoingRecord)
        }
    }

    private mutating func composeFanout(_ outgoingRecord: OutgoingAudienceRecord) -> ComposedRecord {
        let slot = commands[outgoingRecord.command]
        let environment = outgoingRecord.environment
        guard let grant = slot.grant,
            let range = SegmentRange(
                index: environment == nil ? Int(outgoingRecord.rangeOrChannelNumber) : 0,
                rangeCount: Int(grant.rangeCount)
            )
        else {
            preconditionFailure("a command that is fanned out has a grant")
        }
        let instruction = FanoutInstruction(
            range: range,
            channel: environment.flatMap { slot.channels[$0] },
            grant: grant,
            partition: slot.partition,
            offset: slot.offset,
            recordTimestampMilliseconds: slot.recordTimestampMilliseconds,
            receivedAtMilliseconds: slot.receivedAtWallMilliseconds,
            admittedAtMilliseconds: slot.admittedAtWallMilliseconds ?? -1,
            carriedAlertVersion: slot.carriedAlertVersion,
            wasAlertRemovedByAge: slot.wasAlertRemovedByAge,
            channelsForStarts: slot.event == .start ? slot.channels : AudienceChannels(),
            channelAbsence: slot.channelAbsence
        )
        // The key names the audience and its range (`SegmentRange`), or the audience and the channel's environment. So
        // all versions of a range, and all broadcasts to a channel, are in one partition, in order.
        FanoutKey(audiences[slot.audience].digest, rangeIndex: outgoingRecord.rangeOrChannelNumber, environment)
            .write(to: &recordKeyWriter)
        return ComposedRecord(
            key: recordKeyWriter.bytes,
            value: slot.fanoutValue.bytes,
            fanoutInstruction: instruction,
            trace: slot.trace.bytes,
            droppedFields: slot.droppedFields.bytes
        )
    }

    private mutating func composeRangeResult(_ rangeVersion: RangeVersionIndex) -> ComposedRecord {
        let slot = rangeVersions[rangeVersion]
        return composeResult(of: subject(ofRound: slot.round), slot.record) { command, writer in
            var result = RangeResultRecord(
                command: command,
                range: slot.record.instruction.range,
                memberCounts: slot.counts,
                times: slot.times
            )
            result.isSuperseded = slot.isSuperseded
            result.write(to: &writer)
        }
    }

    private mutating func composeCommandResult(_ rangeVersion: RangeVersionIndex) -> ComposedRecord {
        let slot = rangeVersions[rangeVersion]
        return composeTotals(
            slot.totals,
            of: subject(ofRound: slot.round),
            slot.record,
            isSuperseded: slot.isSuperseded
        )
    }

    private func subject(ofRound round: RoundIndex) -> ResultSubject {
        let slot = rounds[round]
        return ResultSubject(appIndex: slot.appIndex, identifier: slot.audienceIdentifier.bytes, isChannel: false)
    }

    /// Composes the result of a command over all its ranges and broadcasts.
    mutating func composeTotals(
        _ totals: AudienceTotals,
        of subject: ResultSubject,
        _ record: FanoutRecord,
        isSuperseded: Bool
    ) -> ComposedRecord {
        composeResult(of: subject, record) { command, writer in
            var result = AudienceResultRecord(
                command: command,
                memberCounts: totals.memberCounts,
                times: totals.times,
                timestamp: record.instruction.grant.timestamp,
                rangeCount: Int(record.instruction.range.rangeCount)
            )
            result.broadcastCounts = totals.broadcastCounts
            result.channelAbsence = record.instruction.channelAbsence
            result.isSuperseded = isSuperseded
            result.isDemoted = record.instruction.grant.isDemoted
            result.wasAlertRemovedByAge = record.instruction.wasAlertRemovedByAge
            result.droppedFieldNames = record.droppedFields.bytes
            result.recordTimestampMilliseconds = record.instruction.recordTimestampMilliseconds
            result.admittedAtMilliseconds = record.instruction.admittedAtMilliseconds
            result.write(to: &writer)
        }
    }

    /// Composes a result of the command that a fan-out record brought. `write` writes the result's JSON; its first
    /// parameter has the fields that name the command.
    mutating func composeResult(
        of subject: ResultSubject,
        _ record: FanoutRecord,
        _ write: (AudienceCommandReference, inout JSONWriter) -> Void
    ) -> ComposedRecord {
        configuration.commandsTopic.withUnsafeBytes { topic in
            let command = AudienceCommandReference(
                identifier: record.commandIdentifier.isNone ? nil : record.commandIdentifier.bytes,
                app: bundleIds[subject.appIndex],
                audience: subject.isChannel ? nil : subject.identifier,
                sourceTopic: topic,
                sourcePartition: record.instruction.partition,
                sourceOffset: record.instruction.offset
            )
            write(command, &recordValueWriter)
        }
        return ComposedRecord(
            key: subject.identifier,
            value: recordValueWriter.bytes,
            fanoutInstruction: nil,
            trace: record.trace.bytes
        )
    }

    private mutating func composeRefusedMember(_ outgoingRecord: OutgoingAudienceRecord) -> ComposedRecord {
        let slot = refusedMembers[outgoingRecord.refusedMember]
        slot.withIdentifierTokenAndReason { identifier, token, reason in
            if outgoingRecord.kind == .invalidation {
                InvalidationRecord(
                    app: bundleIds[slot.appIndex],
                    address: slot.kind == .activity ? .activity(identifier) : .device(identifier),
                    token: token,
                    environment: slot.environment,
                    reason: reason,
                    invalidAtMilliseconds: slot.invalidAtWallMilliseconds ?? slot.responseAtWallMilliseconds
                )
                .write(to: &recordValueWriter)
            } else {
                composeMemberResult(slot, identifier, reason: reason)
            }
            recordKeyWriter.raw(identifier)
        }
        let noTrace = UnsafeRawBufferPointer(start: nil, count: 0)
        return ComposedRecord(
            key: recordKeyWriter.bytes,
            value: recordValueWriter.bytes,
            fanoutInstruction: nil,
            trace: noTrace
        )
    }

    private mutating func composeMemberResult(
        _ slot: RefusedMemberSlot,
        _ identifier: UnsafeRawBufferPointer,
        reason: UnsafeRawBufferPointer
    ) {
        let versionSlot = rangeVersions[slot.rangeVersion]
        configuration.commandsTopic.withUnsafeBytes { topic in
            var result = ResultRecord(
                outcome: slot.outcome == .unregistered ? .unregistered : .failed,
                sourceTopic: topic,
                sourcePartition: versionSlot.record.instruction.partition,
                sourceOffset: versionSlot.record.instruction.offset
            )
            let commandIdentifier = versionSlot.record.commandIdentifier
            result.commandIdentifier = commandIdentifier.isNone ? nil : commandIdentifier.bytes
            result.app = bundleIds[slot.appIndex]
            result.audience = rounds[slot.round].audienceIdentifier.bytes
            if slot.kind == .activity { result.activity = identifier } else { result.device = identifier }
            result.status = slot.httpStatus
            result.attemptCount = Int(slot.attemptCount)
            result.reason = reason.isEmpty ? nil : reason
            result.sentTimestamp = versionSlot.record.instruction.grant.timestamp
            result.recordTimestampMilliseconds = versionSlot.record.instruction.recordTimestampMilliseconds
            result.admittedAtMilliseconds = versionSlot.record.instruction.admittedAtMilliseconds
            result.sentAtMilliseconds = slot.sentAtWallMilliseconds ?? -1
            result.responseAtMilliseconds = slot.responseAtWallMilliseconds
            result.write(to: &recordValueWriter)
        }
    }
}

/// The audience or channel that a result names. `identifier` is also the Kafka key of the result: the audience's id, or
/// the channel's id if the command names the channel.
struct ResultSubject {
    var appIndex: UInt16
    var identifier: UnsafeRawBufferPointer
    var isChannel: Bool
}

/// The key of a fan-out record. It has the digest of the audience or the channel in hexadecimal digits, `/`, and the
/// range's index or a letter for the channel's environment.
struct FanoutKey {
    private let digest: AudienceDigest
    private let rangeIndex: UInt16
    /// For a broadcast: the environment of its channel, which the key names instead of the range. Nil for a range.
    private let environment: APNsEnvironment?

    init(_ digest: AudienceDigest, rangeIndex: UInt16, _ environment: APNsEnvironment?) {
        self.digest = digest
        self.rangeIndex = rangeIndex
        self.environment = environment
    }

    func write(to writer: inout JSONWriter) {
        withUnsafeBytes(of: digest.value.bigEndian) { bytes in
            withUnsafeTemporaryAllocation(byteCount: 17, alignment: 1) { digits in
                _ = Hexadecimal.write(bytes, to: digits)
                digits[16] = UInt8(ascii: "/")
                writer.raw(UnsafeRawBufferPointer(digits))
            }
        }
        guard let environment else { return writer.integer(UInt64(rangeIndex)) }
        let letter: StaticString = environment == .production ? "p" : "s"
        writer.raw(UnsafeRawBufferPointer(start: letter.utf8Start, count: letter.utf8CodeUnitCount))
    }
}
