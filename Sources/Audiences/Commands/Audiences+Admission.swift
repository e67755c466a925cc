import Delivery
import LiveActivity

/// The admission of a command to an audience: the number of its ranges (``SegmentRange``), the store's decision, and
/// the fan-out records.
extension Audiences {
    /// The segments whose first page is read to estimate the size of an audience. Four of 256 segments are enough,
    /// because hashes of the members' ids spread the members evenly over the segments.
    ///
    /// Known issue (K16): in a cluster, these segments are on several servers. If one of these servers cannot be
    /// reached, the command waits.
    static var sampledSegments: [UInt8] { [0, 64, 128, 192] }
    /// Approximate bytes of one member on a page: a UUID and a token of 160 digits.
    private static var bytesPerMember: Double { 110 }

    mutating func requestSamplePages(_ command: CommandIndex) {
        commands[command].enter(.sizing)
        commands[command].estimatedSampleBytes = 0
        commands[command].unacknowledgedCount = UInt16(Self.sampledSegments.count)
        for sampleIndex in Self.sampledSegments.indices {
            storeQueue.append(.readSamplePage(command, sampleIndex: UInt8(sampleIndex)))
        }
    }

    /// Adds a segment's share to the estimate of the audience's size; adds nothing if the segment has no readable first
    /// page. After the last sample, asks the store to admit the command.
    ///
    /// The segment's first page is enough: its upper bound says which part of the segment the page covers, and hashes
    /// of the members' ids spread the members evenly over the segment. So a page with 6,000 bytes of members that
    /// covers a quarter of its segment stands for 24,000 bytes.
    mutating func handleSamplePage(_ command: CommandIndex, _ bytes: UnsafeRawBufferPointer?) {
        if let bytes, let page = MemberPage(bytes) {
            let coveredFraction =
                page.nextLowerBound.map { Double($0) / Double(MemberLocation.positionsPerSegment) } ?? 1
            commands[command].estimatedSampleBytes +=
                Double(bytes.count - MemberPage.Header.byteCount) / max(coveredFraction, 1e-6)
        }
        commands[command].unacknowledgedCount -= 1
        guard commands[command].unacknowledgedCount == 0 else { return }
        commands[command].enter(.admitting)
        composeJoinerBody(of: command)
        storeQueue.append(.admit(command))
    }

    func rangeCount(of command: CommandIndex) -> UInt16 {
        let segmentsPerSample = Double(MemberLocation.segmentCount) / Double(Self.sampledSegments.count)
        let memberCount = commands[command].estimatedSampleBytes / Self.bytesPerMember * segmentsPerSample
        return UInt16(Self.rangeCount(memberCount: memberCount, membersPerRangeMax: configuration.membersPerRangeMax))
    }

    /// Returns the number of ranges for an audience of this many members: the lowest power of two with which a range
    /// has at most `membersPerRangeMax` members on average, but at most 256.
    ///
    /// Known issue (K2): if the next command uses another number of ranges, the store deletes the checkpoints of the
    /// former ranges. If a worker died after the store had added a range's counts, and before Kafka had the range's
    /// result, the next owner then writes this result without counts. The result of the whole command is correct.
    package static func rangeCount(
        memberCount: Double,
        membersPerRangeMax: Int = AudiencesConfiguration.membersPerRangeMax
    )
        -> Int
    {
        var count = 1
        while count < MemberLocation.segmentCount, memberCount > Double(count * membersPerRangeMax) { count *= 2 }
        return count
    }

    private mutating func composeJoinerBody(of command: CommandIndex) {
        guard commands[command].storedJoinerBody.isNone else { return }
        let (alertlessBody, layout) = Self.bodyWithoutAlert(commands[command].body.bytes, commands[command].bodyLayout)
        commands[command].storedJoinerBody = JoinerBody.storedBody(alertlessBody.bytes, layout)
        alertlessBody.free()
    }

    func admission(of command: CommandIndex) -> AudienceAdmission<UnsafeRawBufferPointer> {
        let slot = commands[command]
        let isEnd = slot.event == .end
        let isStart = slot.event == .start
        return AudienceAdmission(
            version: slot.version,
            digest: PushBody.digest(slot.body.bytes, slot.bodyLayout),
            pace: policies[slot.policyIndex].pace,
            isEnd: isEnd,
            isStart: isStart,
            // A start draws nothing from the audience's budget, because the start of each device draws from the
            // device's budget.
            requestsHighPriority: slot.priority == PushPriority.high && !isStart,
            mayUseReserve: slot.hasAlert || isEnd,
            rangeCount: rangeCount(of: command),
            body: slot.storedJoinerBody.bytes,
            expirationSeconds: AgeRules.stateExpirationSeconds(
                timestamp: slot.version.timestamp,
                isEnd: isEnd,
                ownExpirationSeconds: slot.ownExpirationSeconds
            )
        )
    }

    /// Returns until when APNs keeps a push that is sent at `seconds` (UNIX seconds, as all times here). The first rule
    /// that applies decides:
    /// 1. If the command has an expiration of its own: this expiration.
    /// 2. If the command is no end, and its stale date is later than `seconds`: the stale date, but at most
    ///    ``AgeRules/updateAgeSecondsMax`` after `seconds`.
    /// 3. Otherwise the policy's default after `seconds`: `endSeconds` for an end, `updateSeconds` for another command.
    func sentExpirationSeconds(
        event: Event,
        ownExpirationSeconds: Int64,
        staleDateSeconds: Int64,
        policy: UInt8,
        from seconds: Int64
    ) -> Int64 {
        if ownExpirationSeconds >= 0 { return ownExpirationSeconds }
        guard event != .end else { return seconds + policies[policy].endExpirationSeconds }
        guard staleDateSeconds > seconds else { return seconds + policies[policy].updateExpirationSeconds }
        return min(staleDateSeconds, seconds + AgeRules.updateAgeSecondsMax)
    }

    /// Handles the store's decision about a command: fans the command out, lets it wait, or finishes it.
    mutating func handleAdmissionReply(_ command: CommandIndex, _ reply: Reply, now: Moment) {
        let audience = commands[command].audience
        commands[command].admittedAtWallMilliseconds = now.wallMilliseconds
        switch AudienceAdmissionVerdict(reply.verdict) {
        case .send:
            guard var grant = reply.grant, SegmentRange(index: 0, rangeCount: Int(grant.rangeCount)) != nil,
                (Limits.timestampMin...Limits.timestampMax).contains(grant.timestamp)
            else {
                return finishCurrentCommand(command, .outcome(.failed), reason: Self.unexpectedReplyReason, now: now)
            }
            guard audiences[audience].channelEnvironment == nil else {
                return queueProducerChannelFanout(command, grant)
            }
            commands[command].channels = reply.channels
            // A broadcast cannot begin activities, so a start is not broadcast. Instead, the start of each device that
            // supports channels names the channel.
            grant.broadcastCount = commands[command].event == .start ? 0 : UInt8(reply.channels.count)
            appendChannelRequest(afterAdmissionOf: command, reply.channels, now: now)
            guard !beginWaitForMissingChannel(command, now: now) else { return }
            queueFanoutRecords(command, grant)
        case .wait:
            let waitMillisecondsMax = policies[commands[command].policyIndex].pace.throttledSpacingMillisecondsMax
            let dueMilliseconds = now.monotonicMilliseconds + max(1, min(reply.waitMilliseconds, waitMillisecondsMax))
            audiences[audience].pausedUntilMilliseconds = dueMilliseconds
            startTimer(.audience(audience), dueMilliseconds: dueMilliseconds)
            putBackCurrentCommand(of: audience, now: now)
        case .superseded: finishCurrentCommand(command, .outcome(.superseded), now: now)
        case .duplicate: finishCurrentCommand(command, .outcome(.duplicate), now: now)
        case .unchanged: finishCurrentCommand(command, .outcome(.unchanged), now: now)
        case .ended: finishCurrentCommand(command, .outcome(.ended), now: now)
        case nil:
            finishCurrentCommand(command, .outcome(.failed), reason: Self.unexpectedReplyReason, now: now)
        }
    }

    static var unexpectedReplyReason: StaticString { "unexpected reply of the audience script" }

    /// Queues a fan-out record for each broadcast and for each range of an admitted command: now, or when records of
    /// other commands are acknowledged (``queueNextFanoutRecords()``).
    ///
    /// - Parameter hasMembers: false for a command that names a channel instead of an audience, and so has no ranges.
    mutating func queueFanoutRecords(_ command: CommandIndex, _ grant: AudienceGrant, hasMembers: Bool = true) {
        let rangeCount = hasMembers ? grant.rangeCount : 0
        commands[command].grant = grant
        commands[command].enter(.fanningOut)
        commands[command].fanoutRecordCount = rangeCount + UInt16(grant.broadcastCount)
        commands[command].unacknowledgedCount = commands[command].fanoutRecordCount
        composeFanoutValue(of: command)
        commandsToFanOut.append(command)
        queueNextFanoutRecords()
    }

    /// Queues further fan-out records of the commands in ``commandsToFanOut``, until
    /// ``unacknowledgedRecordsPerTopicMax`` fan-out records are queued or on their way to Kafka. Without this limit,
    /// the queue would need 258 places for each command: one for each record. (R4)
    private mutating func queueNextFanoutRecords() {
        while unacknowledgedFanoutRecordCount < Self.unacknowledgedRecordsPerTopicMax,
            let command = commandsToFanOut.first
        {
            let number = rangeOrChannelNumber(ofNextFanoutRecordOf: command)
            outgoingRecords.append(.fanout(command, rangeOrChannelNumber: number))
            unacknowledgedFanoutRecordCount += 1
            commands[command].queuedFanoutRecordCount += 1
            if commands[command].queuedFanoutRecordCount == commands[command].fanoutRecordCount {
                _ = commandsToFanOut.popFirst()
            }
        }
    }

    /// Returns the number of the range or channel that the command's next fan-out record is for
    /// (``OutgoingAudienceRecord/rangeOrChannelNumber``). The channels come first, then the ranges.
    private func rangeOrChannelNumber(ofNextFanoutRecordOf command: CommandIndex) -> UInt16 {
        let slot = commands.address(of: command)
        let broadcastCount = UInt16(slot.pointee.grant?.broadcastCount ?? 0)
        let queuedCount = slot.pointee.queuedFanoutRecordCount
        guard queuedCount < broadcastCount else { return queuedCount - broadcastCount }
        let isProduction = queuedCount == 0 && slot.pointee.channels[.production] != nil
        let environment: APNsEnvironment = isProduction ? .production : .sandbox
        return OutgoingAudienceRecord.channelNumberBase + UInt16(environment.rawValue)
    }

    private mutating func composeFanoutValue(of command: CommandIndex) {
        let slot = commands[command]
        let audienceSlot = audiences[slot.audience]
        let (app, aps) = (bundleIds[audienceSlot.appIndex], slot.bodyLayout.aps.bytes(in: slot.body.bytes))
        var record =
            audienceSlot.channelEnvironment
            .map { CommandRecord(app: app, channel: audienceSlot.identifier.bytes, environment: $0, aps: aps) }
            ?? CommandRecord(app: app, audience: audienceSlot.identifier.bytes, aps: aps)
        if slot.event == .start { record.activity = slot.activityTemplate.bytes }
        record.payloadMembers = slot.bodyLayout.payloadMembers.bytes(in: slot.body.bytes)
        if slot.identifier.count <= Limits.commandIdentifierBytesMax { record.identifier = slot.identifier.bytes }
        record.sequence = slot.version.sequence
        record.priority = slot.priority
        if !slot.policyName.isNone { record.policy = slot.policyName.bytes }
        record.expirationSeconds = slot.ownExpirationSeconds
        record.carriedAlertVersion = slot.carriedAlertVersion
        recordValueWriter.reset()
        record.write(to: &recordValueWriter)
        commands[command].fanoutValue.free()
        commands[command].fanoutValue = HeapBytes(copying: recordValueWriter.bytes)
    }

    /// Called when Kafka has acknowledged a fan-out record of the command, or has refused the record as too large.
    /// After the last record, asks the store to settle the command.
    mutating func handleFanoutRecordReport(_ command: CommandIndex, isTooLarge: Bool) {
        if isTooLarge { commands[command].isFanoutRecordTooLarge = true }
        unacknowledgedFanoutRecordCount -= 1
        queueNextFanoutRecords()
        commands[command].unacknowledgedCount -= 1
        guard commands[command].unacknowledgedCount == 0 else { return }
        commands[command].enter(.settling)
        storeQueue.append(.settle(command))
    }

    /// Called when the store has settled the command's version, or has refused this call. Returns the command to
    /// `Delivery`: as failed if Kafka refused one of its fan-out records as too large, otherwise as fanned out.
    mutating func handleSettledCommand(_ command: CommandIndex, now: Moment) {
        guard commands[command].isFanoutRecordTooLarge else {
            return finishCurrentCommand(command, .fannedOut, now: now)
        }
        finishCurrentCommand(command, .outcome(.failed), reason: "fanoutRecordTooLarge", now: now)
    }
}
