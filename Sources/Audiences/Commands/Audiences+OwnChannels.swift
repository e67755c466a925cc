import Delivery
import LiveActivity

/// Commands that name a channel themselves: a channel that their producer keeps. They are admitted as those of an audience without members,
/// so versions, dedupe and `unchanged` are the channel's, and one broadcast goes out for each.
extension Audiences {
    /// There is no size to be asked for, and nobody joins.
    mutating func admitToChannel(_ command: UInt32) {
        commands[command].stage = .admitting
        storeQueue.append(AudienceTicket(.admit, index: command))
    }

    mutating func broadcast(_ command: UInt32, _ grant: AudienceGrant) {
        let audience = audiences[commands[command].audience]
        guard let environment = audience.channelEnvironment,
            let identifier = ChannelIdentifier(audience.identifier.bytes)
        else { preconditionFailure("a command to a channel names one") }
        // Which storage policy the producer has chosen, APNs says where this is not it.
        let channel = AudienceChannel(environment: environment, storage: .newest, identifier: identifier)
        commands[command].channels =
            environment == .production ? AudienceChannels(production: channel) : AudienceChannels(sandbox: channel)
        var grant = grant
        grant.broadcastCount = 1
        fanOut(command, grant, hasMembers: false)
    }

    /// Of a body that is sent to an audience, or to a channel that commands name themselves.
    func bodyBytesMax(of audience: UInt32) -> Int {
        audiences[audience].channelEnvironment == nil ? Limits.bodyBytes : Limits.broadcastBodyBytes
    }

    /// APNs takes no expiration but 0 on a channel that stores nothing, and says so by its refusal.
    mutating func learnsStorage(of channel: UInt32, from reason: UnsafeRawBufferPointer) -> Bool {
        guard channels[channel].isOwn, channels[channel].channel.storage == .newest,
            reason.elementsEqual("BadExpirationDate".utf8)
        else { return false }
        channels[channel].channel.storage = .none
        return true
    }
}
