import Delivery
import LiveActivity

/// A start to an audience of devices becomes one start command for each device, so that all rules of single starts
/// apply.
///
/// If a crash makes the core produce such a command twice, the second one is a `duplicate`, because its activity and
/// its version are the same.
extension Audiences {
    /// How long a round (``RoundSlot``) waits before it produces further starts, if `unacknowledgedStartsMax` starts
    /// wait for Kafka's acknowledgement. A timer must end this wait: the acknowledgements of other rounds' starts do
    /// not make this round continue.
    private static var startsRetryPauseMilliseconds: Int64 { 20 }

    /// Produces a start command for each device on the pages that were read. Does nothing unless the round is running
    /// and has a version.
    mutating func produceStarts(of round: RoundIndex, now: Moment) {
        guard rounds[round].phase == .running, rounds[round].versions.last != .null else { return }
        queueStartsOfPages(of: round, now: now)
        freeDonePages(of: round, now: now)
    }

    /// Queues the start of each device whose turn comes, until `unacknowledgedStartsMax` starts wait for Kafka's
    /// acknowledgement. A device whose start has expired, or would have too long an activity id, gets its outcome at
    /// once. If a page was read too long ago, the round reads it again first.
    private mutating func queueStartsOfPages(of round: RoundIndex, now: Moment) {
        let endPosition = readingEndPosition(of: round)
        while let next = moveToNextMember(of: round, endPosition: endPosition) {
            guard unacknowledgedStartCount < configuration.unacknowledgedStartsMax else {
                return scheduleAdvance(of: round, at: now.monotonicMilliseconds + Self.startsRetryPauseMilliseconds)
            }
            guard isPageFresh(next.page, now: now) else { return discardUnsentMembers(of: round) }
            let rangeVersion = rangeVersion(at: next.position, of: round)
            guard let member = pages[next.page].member(next.memberIndex), member.kind == .device else {
                advancePast(next, progress: .notAddressed, rangeVersion)
                continue
            }
            if isExpired(rangeVersion, now: now) {
                advancePast(next, progress: .done(.expired), rangeVersion)
            } else if Self.withDeviceAndActivityIdentifiers(
                of: member,
                rangeVersions[rangeVersion].activityTemplate.bytes,
                { _, _ in true }
            ) == nil {
                advancePast(next, progress: .done(.failed), rangeVersion)
            } else {
                queueStart(next, rangeVersion)
            }
        }
    }

    private mutating func queueStart(_ next: MemberCoordinates, _ rangeVersion: RangeVersionIndex) {
        advancePast(next, progress: .inFlight, rangeVersion)
        pages[next.page].underWayMemberCount += 1
        rounds[pages[next.page].round].members.inFlightCount += 1
        unacknowledgedStartCount += 1
        outgoingRecords.append(.start(PageMemberIndex(page: next.page, memberIndex: next.memberIndex)))
    }

    /// Called when Kafka has acknowledged the start command of one device, or has refused it as too large. The device
    /// then gets its outcome, unless its round is abandoned.
    mutating func handleStartCommandReport(_ index: PageMemberIndex, isTooLarge: Bool, now: Moment) {
        let round = pages[index.page].round
        unacknowledgedStartCount -= 1
        rounds[round].members.inFlightCount -= 1
        let tag = PushTag(page: index.page, memberIndex: index.memberIndex)
        guard rounds[round].phase != .abandoned else { return dropMemberOfAbandonedRound(tag, of: round, now: now) }
        finishMember(tag, isTooLarge ? .failed : .started, now: now)
    }

    /// Passes the device's id and the id of its new activity to `body`. If the template makes the activity's id too
    /// long, returns nil without calling `body`.
    private static func withDeviceAndActivityIdentifiers<Result>(
        of member: PageMember,
        _ template: UnsafeRawBufferPointer,
        _ body: (_ device: UnsafeRawBufferPointer, _ activity: UnsafeRawBufferPointer) -> Result
    ) -> Result? {
        withUnsafeTemporaryAllocation(byteCount: Limits.identifierBytesMax * 2, alignment: 1) { buffer in
            let deviceBuffer = UnsafeMutableRawBufferPointer(rebasing: buffer[..<Limits.identifierBytesMax])
            let activityBuffer = UnsafeMutableRawBufferPointer(rebasing: buffer[Limits.identifierBytesMax...])
            let device = UnsafeRawBufferPointer(rebasing: deviceBuffer[..<member.writeIdentifier(to: deviceBuffer)])
            return ActivityIdentifierTemplate.expand(template, device: device, into: activityBuffer)
                .map { body(device, UnsafeRawBufferPointer(rebasing: activityBuffer[..<$0])) }
        }
    }

    /// Composes the start command of one device. The record's key is the activity's id, as for all commands to
    /// activities.
    mutating func composeStart(_ index: PageMemberIndex) -> ComposedRecord {
        let slot = rangeVersions[pages[index.page].rangeVersion(index.memberIndex)]
        let app = bundleIds[rounds[slot.round].appIndex]
        guard let member = pages[index.page].member(index.memberIndex) else {
            preconditionFailure("the start belongs to a member of a page")
        }
        Self.withDeviceAndActivityIdentifiers(of: member, slot.activityTemplate.bytes) { device, activity in
            var command = CommandRecord(
                app: app,
                activity: activity,
                aps: slot.record.bodyLayout.aps.bytes(in: slot.record.body.bytes)
            )
            command.device = device
            command.payloadMembers = slot.record.bodyLayout.payloadMembers.bytes(in: slot.record.body.bytes)
            if !slot.record.commandIdentifier.isNone { command.identifier = slot.record.commandIdentifier.bytes }
            command.sequence = slot.record.version.sequence
            command.priority = slot.priority
            if !slot.policyName.isNone { command.policy = slot.policyName.bytes }
            command.expirationSeconds = slot.record.ownExpirationSeconds
            if let address = Self.startedActivityAddress(of: member, slot) {
                command.aps = slot.apsWithoutAddress.bytes
                command.address = address
            }
            command.write(to: &recordValueWriter)
            recordKeyWriter.raw(activity)
        }
        return ComposedRecord(
            key: recordKeyWriter.bytes,
            value: recordValueWriter.bytes,
            fanoutInstruction: nil,
            trace: slot.record.trace.bytes
        )
    }
}

/// The index of a page's slot, and the index of a member on this page, together in 32 bits, because the tag of an
/// ``OutgoingAudienceRecord`` has no room for more.
struct PageMemberIndex {
    let rawValue: UInt32

    init(page: PageIndex, memberIndex: Int) { rawValue = page.rawValue << 16 | UInt32(truncatingIfNeeded: memberIndex) }
    init(rawValue: UInt32) { self.rawValue = rawValue }

    var page: PageIndex { PageIndex(rawValue: rawValue >> 16) }
    var memberIndex: Int { Int(rawValue & 0xFFFF) }
}

// MARK: - Channels

extension Audiences {
    /// Returns the part of Apple's dictionary that is the same for all devices of a start to an audience with channels.
    /// For each device, the core adds the device's ``StartedActivityAddress``.
    ///
    /// The result is empty if the audience has no channel and should have none, or if the start names a channel itself:
    /// then its producer manages the channel.
    static func apsWithoutAddress(of slot: RangeVersionSlot) -> HeapBytes {
        let dictionary = slot.record.bodyLayout.aps.bytes(in: slot.record.body.bytes)
        let instruction = slot.record.instruction
        guard instruction.channelsForStarts.count > 0 || instruction.channelAbsence != nil, !dictionary.isEmpty else {
            return .none
        }
        return withUnsafeTemporaryAllocation(byteCount: dictionary.count, alignment: 1) { buffer in
            StartedActivityAddress.copyWithoutAddress(dictionary, into: buffer)
                .map { HeapBytes(copying: UnsafeRawBufferPointer(rebasing: buffer[..<$0])) } ?? .none
        }
    }

    /// Returns how the new activity of a device gets its updates: on a channel or with an update token, never both.
    /// - Usually on the audience's channel in the device's environment.
    /// - With a token if the device takes no channels, if the channel's id would make the body too long, or if the
    ///   audience should have a channel that is missing: otherwise nothing would reach the new activity.
    /// - Nil: the device gets the start's dictionary unchanged. The dictionary names a channel itself, or the audience
    ///   has no channel in this environment and should have none, or even `input-push-token` would make the body too
    ///   long.
    static func startedActivityAddress(of member: PageMember, _ slot: RangeVersionSlot) -> StartedActivityAddress? {
        guard !slot.apsWithoutAddress.isNone else { return nil }
        let channel = slot.record.instruction.channelsForStarts[member.environment]
        guard channel != nil || slot.record.instruction.channelAbsence != nil else { return nil }
        let bytesLeft =
            Limits.bodyBytesMax
            - (slot.record.body.count - Int(slot.record.bodyLayout.aps.count) + slot.apsWithoutAddress.count)
        if let channel, member.supportsChannels {
            let channelAddress = StartedActivityAddress.channel(channel.identifier)
            if channelAddress.byteCount <= bytesLeft { return channelAddress }
        }
        return StartedActivityAddress.token.byteCount <= bytesLeft ? .token : nil
    }
}
