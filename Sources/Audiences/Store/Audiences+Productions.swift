public import Delivery
import LiveActivity
import Numbers

/// Records that this core produces.
extension Audiences {
    /// The next record to be produced, or nil if there is none now. It stays the first until ``productionTaken()``.
    public func nextProduction(now: Moment) -> AudienceProduction? { productions.next(now: now) }

    /// The producer has taken the production that `nextProduction` named.
    public mutating func productionTaken() { productions.take() }

    /// Takes a delivery report.
    public mutating func produced(_ production: AudienceProduction, _ report: ProductionReport, now: Moment) {
        if report == .failed { return productions.retry(production, now: now) }
        switch production.kind {
        case .fanout: fannedOut(production.index, isTooLarge: report == .tooLarge)
        // The broker will never take a result that it refused for its size.
        case .rangeResult, .commandResult: versionAcknowledged(production.index, now: now)
        case .broadcastResult, .broadcastTotals: broadcastAcknowledged(production.index, now: now)
        case .memberResult, .invalidation: noticeAcknowledged(production.index, now: now)
        case .start: startHandedOn(production.index, isTooLarge: report == .tooLarge, now: now)
        }
    }

    /// Writes a record for Kafka.
    public mutating func compose(_ production: AudienceProduction) -> ComposedRecord {
        writer.reset()
        keyWriter.reset()
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        switch production.kind {
        case .fanout: return composeFanout(production)
        case .rangeResult, .commandResult:
            if production.kind == .rangeResult {
                composeRangeResult(production.index)
            } else {
                composeCommandResult(production.index)
            }
            let version = versions[production.index]
            return ComposedRecord(
                key: rounds[version.round].identifier.bytes,
                value: writer.bytes,
                order: nil,
                trace: version.trace.bytes
            )
        case .broadcastResult, .broadcastTotals:
            if production.kind == .broadcastResult {
                composeBroadcastResult(production.index)
            } else {
                composeBroadcastTotals(production.index)
            }
            let broadcast = broadcasts[production.index]
            return ComposedRecord(
                key: channels[broadcast.channel].audience.bytes,
                value: writer.bytes,
                order: nil,
                trace: broadcast.trace.bytes
            )
        case .start: return composeStart(production.index)
        case .memberResult, .invalidation:
            composeNotice(production)
            let notice = notices.address(of: production.index)
            notice.pointee.withTexts { identifier, _, _ in keyWriter.raw(identifier) }
            return ComposedRecord(key: keyWriter.bytes, value: writer.bytes, order: nil, trace: none)
        }
    }

    private mutating func composeFanout(_ production: AudienceProduction) -> ComposedRecord {
        let command = commands[production.index]
        let environment = production.environment
        guard let grant = command.grant,
            let range = SegmentRange(
                index: environment == nil ? Int(production.range) : 0,
                count: Int(grant.rangeCount)
            )
        else {
            preconditionFailure("a command that is fanned out has a grant")
        }
        let order = FanoutOrder(
            range: range,
            channel: environment.flatMap { command.channels[$0] },
            grant: grant,
            partition: command.partition,
            offset: command.offset,
            recordMilliseconds: command.recordMilliseconds,
            receivedMilliseconds: command.receivedMilliseconds,
            admittedMilliseconds: command.admittedMilliseconds,
            alertVersion: command.alertVersion,
            isAlertExpired: command.isAlertExpired,
            startChannels: command.event == .start ? command.channels : AudienceChannels(),
            channelAbsence: command.channelAbsence
        )
        // The key names the audience and the range, or the channel's environment. So all versions of a range meet in one partition.
        FanoutKey(audiences[command.audience].digest, range: production.range, environment).write(to: &writer)
        return ComposedRecord(
            key: writer.bytes,
            value: command.value.bytes,
            order: order,
            trace: command.trace.bytes,
            dropped: command.dropped.bytes
        )
    }

    private mutating func composeRangeResult(_ version: UInt32) {
        let slot = versions[version]
        withName(of: version) { name, writer in
            var result = RangeResultRecord(
                command: name,
                range: slot.order.range,
                members: slot.counts,
                times: slot.times
            )
            result.isOvertaken = slot.isOvertaken
            result.write(to: &writer)
        }
    }

    private mutating func composeCommandResult(_ version: UInt32) {
        let slot = versions[version]
        withName(of: version) { name, writer in
            var result = AudienceResultRecord(
                command: name,
                members: slot.totals,
                times: slot.totalTimes,
                timestamp: slot.order.grant.timestamp,
                rangeCount: Int(slot.order.range.count)
            )
            result.broadcasts = slot.broadcasts
            result.channelAbsence = slot.order.channelAbsence
            result.isOvertaken = slot.isOvertaken
            result.isDemoted = slot.order.grant.isDemoted
            result.isAlertExpired = slot.order.isAlertExpired
            result.dropped = slot.dropped.bytes
            result.recordMilliseconds = slot.order.recordMilliseconds
            result.admittedMilliseconds = slot.order.admittedMilliseconds
            result.write(to: &writer)
        }
    }

    private mutating func withName(of version: UInt32, _ body: (AudienceCommandName, inout JSONWriter) -> Void) {
        let slot = versions[version]
        let round = rounds[slot.round]
        configuration.commandsTopic.withUnsafeBytes { topic in
            let name = AudienceCommandName(
                identifier: slot.identifier.isNone ? nil : slot.identifier.bytes,
                app: applicationNames[round.application],
                audience: round.identifier.bytes,
                sourceTopic: topic,
                sourcePartition: slot.order.partition,
                sourceOffset: slot.order.offset
            )
            body(name, &writer)
        }
    }

    private mutating func composeNotice(_ production: AudienceProduction) {
        let notice = notices[production.index]
        notice.withTexts { identifier, token, reason in
            if production.kind == .invalidation {
                InvalidationRecord(
                    app: applicationNames[notice.application],
                    address: notice.kind == .activity ? .activity(identifier) : .device(identifier),
                    token: token,
                    environment: notice.environment,
                    reason: reason,
                    invalidAtMilliseconds: notice.invalidAtMilliseconds
                )
                .write(to: &writer)
            } else {
                composeMemberResult(notice, identifier, reason: reason)
            }
        }
    }

    private mutating func composeMemberResult(
        _ notice: NoticeSlot,
        _ identifier: UnsafeRawBufferPointer,
        reason: UnsafeRawBufferPointer
    ) {
        let version = versions[notice.version]
        configuration.commandsTopic.withUnsafeBytes { topic in
            var result = ResultRecord(
                outcome: notice.outcome == .unregistered ? .unregistered : .failed,
                sourceTopic: topic,
                sourcePartition: version.order.partition,
                sourceOffset: version.order.offset
            )
            result.command = version.identifier.isNone ? nil : version.identifier.bytes
            result.app = applicationNames[notice.application]
            result.audience = rounds[notice.round].identifier.bytes
            if notice.kind == .activity { result.activity = identifier } else { result.device = identifier }
            result.status = notice.status
            result.reason = reason.isEmpty ? nil : reason
            result.timestamp = version.order.grant.timestamp
            result.recordMilliseconds = version.order.recordMilliseconds
            result.admittedMilliseconds = version.order.admittedMilliseconds
            result.sentMilliseconds = notice.sentMilliseconds
            result.answeredMilliseconds = notice.answeredMilliseconds
            result.write(to: &writer)
        }
    }
}

/// The key of a fan-out record: the audience's digest in hexadecimal digits, then the range, or a letter for the channel's environment.
struct FanoutKey {
    private let digest: AudienceDigest
    private let range: UInt16
    /// The channel's environment, for a broadcast.
    private let environment: DeviceEnvironment?

    init(_ digest: AudienceDigest, range: UInt16, _ environment: DeviceEnvironment?) {
        self.digest = digest
        self.range = range
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
        guard let environment else { return writer.integer(UInt64(range)) }
        let letter: StaticString = environment == .production ? "p" : "s"
        writer.raw(UnsafeRawBufferPointer(start: letter.utf8Start, count: letter.utf8CodeUnitCount))
    }
}
