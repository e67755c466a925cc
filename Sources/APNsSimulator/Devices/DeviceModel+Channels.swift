/// Broadcasts, the creation and deletion of channels, and phones that go offline.
extension DeviceModel {
    /// A broadcast with valid headers.
    struct Broadcast {
        var channel: String
        var priority: UInt8
        /// The `apns-expiration` of the broadcast, UNIX seconds.
        var expirationSeconds: Int64
    }

    /// Accepts or refuses a broadcast as APNs does, and delivers an accepted one to all active subscribers whose phones
    /// are online. A channel that stores messages also keeps the broadcast for offline phones, unless it has expired.
    /// In both cases, the channel no longer keeps an earlier one.
    mutating func publish(
        _ broadcast: Broadcast,
        _ body: UnsafeRawBufferPointer,
        appIndex: Int,
        tape: inout JSONTape,
        nowMilliseconds: Int64
    ) -> SimulatedResponse {
        guard apps[appIndex].mayBroadcast else { return .featureNotEnabled }
        guard let index = channels.find(broadcast.channel, appIndex: appIndex) else {
            return .channelNotRegistered
        }
        guard channels[index].storesNewestMessage || broadcast.expirationSeconds == 0 else { return .badExpirationDate }
        guard channels[index].budget.draw(from: channelRules.broadcastBudget, nowMilliseconds: nowMilliseconds) else {
            return .tooManyRequests
        }
        channels[index].broadcastCount += 1
        channels[index].pushStatistics.addPush(priority: broadcast.priority, atMilliseconds: nowMilliseconds)
        let message = BroadcastChannel.AcceptedBroadcast(
            body: Array(body),
            priority: broadcast.priority,
            broadcastNumber: channels[index].broadcastCount,
            expiresAtMilliseconds: min(
                Self.milliseconds(seconds: broadcast.expirationSeconds),
                nowMilliseconds + ChannelRules.messageStorageMillisecondsMax
            )
        )
        if channels[index].storesNewestMessage {
            channels[index].storedMessage = message.expiresAtMilliseconds > nowMilliseconds ? message : nil
        }
        let subscriberIndices = channels[index].subscriberIndices
        for activity in subscriberIndices {
            deliverBroadcast(message, to: activity, tape: &tape, nowMilliseconds: nowMilliseconds)
        }
        return .success
    }

    /// Delivers a broadcast to one subscribed activity. If the phone is offline, counts the broadcast as missed. If the
    /// activity is not active, does nothing.
    private mutating func deliverBroadcast(
        _ message: BroadcastChannel.AcceptedBroadcast,
        to activity: Int,
        tape: inout JSONTape,
        nowMilliseconds: Int64
    ) {
        advance(activity, nowMilliseconds: nowMilliseconds)
        guard activities[activity].isActive else { return }
        guard installations[activities[activity].installationIndex].isOnline else {
            activities[activity].effects[.missed] += 1
            return
        }
        activities[activity].lastBroadcastNumber = message.broadcastNumber
        activities[activity].receivedBroadcastCount += 1
        activities[activity].pushStatistics.addPush(priority: message.priority, atMilliseconds: nowMilliseconds)
        message.body.withUnsafeBytes { body in
            do throws(PushPayload.Fault) {
                let payload = try PushPayload(body, tape: &tape)
                apply(payload, tape, to: activity, priority: message.priority, nowMilliseconds: nowMilliseconds)
            } catch {
                activities[activity].effects[.malformed] += 1
                activities[activity].lastProblem = "\(error)"
            }
        }
    }

    /// Takes a phone offline. Pushes to its tokens are then dropped, although Apple's APNs would keep those with an
    /// expiration in the future. A channel with storage policy 1 keeps its newest message for the phone.
    public mutating func takeOffline(device: String, app: String) throws(Fault) {
        let installation = try installationIndex(device, appIndex: try appIndex(app))
        installations[installation].isOnline = false
        markChanged(installation: installation)
    }

    /// Brings a phone back online; does nothing if the phone is online. Each of its activities on a channel then gets
    /// the message that the channel has stored. An activity gets no message twice, and no expired message.
    public mutating func bringOnline(device: String, app: String, nowMilliseconds: Int64) throws(Fault) {
        let installation = try installationIndex(device, appIndex: try appIndex(app))
        guard !installations[installation].isOnline else { return }
        installations[installation].isOnline = true
        markChanged(installation: installation)
        var tape = JSONTape()
        for activity in installations[installation].activityIndices {
            guard let channel = activities[activity].channelIndex, let stored = channels[channel].storedMessage,
                stored.broadcastNumber > activities[activity].lastBroadcastNumber,
                stored.expiresAtMilliseconds > nowMilliseconds
            else { continue }
            deliverBroadcast(stored, to: activity, tape: &tape, nowMilliseconds: nowMilliseconds)
        }
    }

    /// Turns an app's capability for broadcasts on or off. If it is turned off, all channels of the app are
    /// deleted.
    public mutating func setBroadcastCapability(_ isEnabled: Bool, app: String, nowMilliseconds: Int64) throws(Fault) {
        let appIndex = try appIndex(app)
        apps[appIndex].mayBroadcast = isEnabled
        guard !isEnabled else { return }
        for identifier in channels.openChannelIdentifiers(appIndex: appIndex) {
            guard let index = channels.find(identifier, appIndex: appIndex) else { continue }
            channels.delete(index, nowMilliseconds: nowMilliseconds)
        }
    }

    /// Creates a channel without a request from a client, as if another program had created it. Returns the channel's
    /// id.
    public mutating func createChannel(app: String, storesNewestMessage: Bool, nowMilliseconds: Int64) throws(Fault)
        -> String
    {
        let appIndex = try appIndex(app)
        let (response, identifier) = createChannel(
            appIndex: appIndex,
            storesNewestMessage: storesNewestMessage,
            nowMilliseconds: nowMilliseconds
        )
        switch response {
        case .success: return identifier
        case .featureNotEnabled: throw .broadcastsAreOff(app)
        default: throw .tooMany("channels")
        }
    }

    public mutating func deleteChannel(_ identifier: String, app: String, nowMilliseconds: Int64) throws(Fault) {
        guard let index = channels.find(identifier, appIndex: try appIndex(app)) else {
            throw .unknownChannel(identifier)
        }
        channels.delete(index, nowMilliseconds: nowMilliseconds)
    }

    /// Creates a channel, for a request to the management service or for a test. Returns `success` and the channel's
    /// id. If APNs refuses the creation, returns the reason, and an empty id.
    mutating func createChannel(
        appIndex: Int,
        storesNewestMessage: Bool,
        nowMilliseconds: Int64
    ) -> (response: SimulatedResponse, identifier: String) {
        guard apps[appIndex].mayBroadcast else { return (.featureNotEnabled, "") }
        guard channels.openChannelCount(appIndex: appIndex) < channelRules.channelsPerAppMax,
            let index = channels.create(
                appIndex: appIndex,
                storesNewestMessage: storesNewestMessage,
                budget: channelRules.broadcastBudget,
                nowMilliseconds: nowMilliseconds
            )
        else { return (.cannotCreateChannelConfig, "") }
        return (.success, channels[index].identifier)
    }

    /// Returns the index of an app's open channel. Throws if the app has no such channel.
    func channelIndex(_ identifier: String, appIndex: Int) throws(Fault) -> Int {
        guard let index = channels.find(identifier, appIndex: appIndex) else {
            throw .unknownChannel(identifier)
        }
        return index
    }

    /// Subscribes an activity to a channel. The activity gets only broadcasts that the channel accepts from now on.
    mutating func subscribe(_ activity: Int, to channel: Int) {
        activities[activity].channelIndex = channel
        activities[activity].lastBroadcastNumber = channels[channel].broadcastCount
        channels[channel].subscriberIndices.append(activity)
    }

    /// Returns the identifiers of an app's open channels, oldest first.
    public func channelIdentifiers(app: String) throws(Fault) -> [String] {
        channels.openChannelIdentifiers(appIndex: try appIndex(app))
    }

    /// Writes all channels of an app as JSON, including deleted ones, in the order of their creation.
    public mutating func channelsJSON(app: String, nowMilliseconds: Int64) throws(Fault) -> [UInt8] {
        let appIndex = try appIndex(app)
        let ownChannels = channels.channels.filter { $0.appIndex == appIndex }
        var writer = SimulatorJSONWriter()
        writer.object { writer in
            writer.member(
                "channels",
                array: { writer in
                    for channel in ownChannels { write(channel, to: &writer, nowMilliseconds: nowMilliseconds) }
                }
            )
        }
        return writer.bytes
    }

    private func write(_ channel: BroadcastChannel, to writer: inout SimulatorJSONWriter, nowMilliseconds: Int64) {
        writer.object { writer in
            writer.member("channel", channel.identifier)
            writer.member("storage", channel.storesNewestMessage ? "newest" : "none")
            writer.member("createdAt", channel.createdAtMilliseconds)
            if let deletedAtMilliseconds = channel.deletedAtMilliseconds {
                writer.member("deletedAt", deletedAtMilliseconds)
            }
            writer.member("subscribers", channel.subscriberIndices.count { activities[$0].isActive })
            writer.member("broadcasts", channel.broadcastCount)
            writer.member("stored", (channel.storedMessage?.expiresAtMilliseconds ?? 0) > nowMilliseconds)
            if let gapMilliseconds = channel.pushStatistics.shortestGapMilliseconds {
                writer.member("leastDistanceMilliseconds", gapMilliseconds)
            }
        }
    }
}
