import Delivery
import LiveActivity

/// The core's requests to the keeper of channels. If the queue is full, a request is dropped (R4). This does no lasting
/// harm: the command that waits for the channel, a later command or a later push makes the request again, and the
/// keeper finds ended audiences by itself.
extension Audiences {
    static var channelRequestsMax: Int { 1_024 }

    /// Removes and returns the next request to the keeper; nil if there is none.
    public mutating func takeChannelRequest() -> CoreChannelRequest? {
        channelRequests.isEmpty ? nil : channelRequests.removeFirst()
    }

    /// Queues a request to the keeper if the queue has room, and returns true. Otherwise drops the request and returns
    /// false.
    @discardableResult
    mutating func appendChannelRequest(
        _ kind: CoreChannelRequest.Kind,
        appIndex: UInt16,
        audience: UnsafeRawBufferPointer
    ) -> Bool {
        guard channelRequests.count < Self.channelRequestsMax else { return false }
        channelRequests.append(CoreChannelRequest(kind: kind, appIndex: appIndex, audience: Array(audience)))
        return true
    }

    /// Requests what the keeper must do after a command was admitted. Requests nothing in any other case than these:
    /// - The command is an end, and its audience has channels or should have them: plan the deletion of the channels.
    /// - The command is a start or an update, and its audience lacks a channel that it should have: create the channel.
    /// - The command is a start, and its audience has channels: cancel a deletion that is perhaps planned.
    mutating func appendChannelRequest(
        afterAdmissionOf command: CommandIndex,
        _ channels: AudienceChannels,
        now: Moment
    ) {
        let slot = commands[command]
        let (appIndex, audience) = (audiences[slot.audience].appIndex, audiences[slot.audience].identifier.bytes)
        let rule = configuration.channelRules[appIndex]
        let shouldHaveChannel = shouldAudienceHaveChannel(command)
        if slot.event == .end {
            // Tell the keeper about the end even if the audience has no channel: the keeper may still be creating the
            // channel that an earlier command requested.
            guard channels.count > 0 || shouldHaveChannel else { return }
            appendChannelRequest(
                .ended(storedUntilWallMilliseconds: storedUntilWallMilliseconds(slot, channels, now: now)),
                appIndex: appIndex,
                audience: audience
            )
        } else if shouldHaveChannel, let rule, rule.missingEnvironmentBits(in: channels) != 0 {
            appendChannelRequest(.wanted, appIndex: appIndex, audience: audience)
        } else if slot.event == .start, channels.count > 0 {
            // The keeper cancels the deletion that it may have planned after an earlier end.
            appendChannelRequest(.wanted, appIndex: appIndex, audience: audience)
        }
    }

    /// Whether the keeper creates a channel for the command's audience if it has none: the app's rule includes the
    /// audience, or the command requests the channel. False in an app without a rule. An audience may have a channel
    /// although it should not: an earlier command or an operator has requested it.
    func shouldAudienceHaveChannel(_ command: CommandIndex) -> Bool {
        let (slot, audienceSlot) = (commands[command], audiences[commands[command].audience])
        guard let rule = configuration.channelRules[audienceSlot.appIndex] else { return false }
        return slot.requestsChannel || rule.includes(audienceSlot.identifier.bytes)
    }

    /// Returns until when APNs may deliver the audience's end to phones if it accepts the broadcast now, UNIX
    /// milliseconds; 0 if no channel of the audience stores messages.
    ///
    /// Known issue (K21): if APNs accepts the broadcast only hours later, the channel may be deleted already, because
    /// the keeper does not learn when APNs accepts the end.
    private func storedUntilWallMilliseconds(_ slot: CommandSlot, _ channels: AudienceChannels, now: Moment) -> Int64 {
        let isStored = APNsEnvironment.allCases.contains { channels[$0]?.storage == .newest }
        guard isStored else { return 0 }
        let expirationSeconds = sentExpirationSeconds(
            event: slot.event,
            ownExpirationSeconds: slot.ownExpirationSeconds,
            staleDateSeconds: slot.staleDateSeconds,
            policy: slot.policyIndex,
            from: now.wallSeconds
        )
        return min(expirationSeconds, now.wallSeconds + ChannelStoragePolicy.storedSecondsMax) * 1_000
    }
}
