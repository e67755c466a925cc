import Delivery
import LiveActivity

/// The core's requests to the keeper of channels. The shell passes them on in the same iteration. If the queue is full,
/// a request is dropped (R4). This does no lasting harm: a command that waits on for its channel, or a later command or
/// push, makes the request again, and the keeper finds ended audiences by itself.
extension Audiences {
    static var channelRequestsMax: Int { 1_024 }

    /// Returns the next request to the keeper; nil if there is none.
    public mutating func takeChannelRequest() -> CoreChannelRequest? {
        channelRequests.isEmpty ? nil : channelRequests.removeFirst()
    }

    /// Queues a request to the keeper. Returns whether the queue had room.
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

    /// Requests what the keeper must do after this command was admitted:
    /// - for an end: plan the deletion of the audience's channels
    /// - for another command: create a missing channel that the audience should have
    /// - for a start: also cancel a planned deletion
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
            // Cancels a deletion that an earlier end may have planned.
            appendChannelRequest(.wanted, appIndex: appIndex, audience: audience)
        }
    }

    /// Whether the keeper creates a channel for the command's audience if it has none: the app's rule includes the
    /// audience, or the command requests the channel. Even if this is false, the audience may have a channel, which an
    /// earlier command or an operator has requested.
    func shouldAudienceHaveChannel(_ command: CommandIndex) -> Bool {
        let (slot, audienceSlot) = (commands[command], audiences[commands[command].audience])
        guard let rule = configuration.channelRules[audienceSlot.appIndex] else { return false }
        return slot.requestsChannel || rule.includes(audienceSlot.identifier.bytes)
    }

    /// Returns until when APNs may deliver the end if it accepts the broadcast now, UNIX milliseconds.
    ///
    /// Known issue (K21): APNs may accept the broadcast hours later, and the channel may be deleted before. The keeper
    /// does not learn whether APNs has accepted the end, and without a fault the channel must not stay for 12 hours.
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
