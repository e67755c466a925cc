import Delivery
import LiveActivity

/// Commands that name a channel which their producer created and manages.
///
/// The store admits such a command like a command to an audience without members, under a digest of the environment and
/// the channel's id. So the store orders and compares the channel's commands like those of an audience (`duplicate`,
/// `unchanged`). Each admitted command is one broadcast with one result, and has no result over all ranges. The keeper
/// of channels is not involved.
extension Audiences {
    /// Admits a command to a producer's channel. Such a channel has no members, so the core reads no sample pages
    /// before.
    mutating func admitToProducerChannel(_ command: CommandIndex) {
        commands[command].enter(.admitting)
        storeQueue.append(.admit(command))
    }

    mutating func queueProducerChannelFanout(_ command: CommandIndex, _ grant: AudienceGrant) {
        let slot = audiences[commands[command].audience]
        guard let environment = slot.channelEnvironment,
            let identifier = ChannelIdentifier(slot.identifier.bytes)
        else { preconditionFailure("a command to a channel names one") }
        // The core does not know which storage policy the producer chose, so it assumes `newest`. If the channel stores
        // nothing, APNs refuses the first push whose expiration is not 0, and the core learns the right policy.
        let channel = AudienceChannel(environment: environment, storage: .newest, identifier: identifier)
        commands[command].channels =
            environment == .production ? AudienceChannels(production: channel) : AudienceChannels(sandbox: channel)
        var grant = grant
        grant.broadcastCount = 1
        queueFanoutRecords(command, grant, hasMembers: false)
    }

    /// Returns the maximum bytes of a body for an audience, or for a channel that commands name instead of an audience.
    func bodyBytesMax(of audience: AudienceIndex) -> Int {
        audiences[audience].channelEnvironment == nil ? Limits.bodyBytesMax : Limits.broadcastBodyBytesMax
    }

    /// If APNs has refused a push because a producer's channel stores no messages, notes the storage policy `none` and
    /// returns true. Otherwise returns false.
    ///
    /// A channel without storage accepts only the expiration 0. APNs refuses any other with the reason
    /// `BadExpirationDate`. The core then sends the state again with expiration 0.
    mutating func noteMissingStorage(of channel: ChannelIndex, from reason: UnsafeRawBufferPointer) -> Bool {
        guard channels[channel].isManagedByProducer, channels[channel].apnsChannel.storage == .newest,
            reason.elementsEqual("BadExpirationDate".utf8)
        else { return false }
        channels[channel].apnsChannel.storage = .none
        return true
    }
}
