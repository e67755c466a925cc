import APNs
import Redis

/// How the keeper uses APNs' list of an app's channels. It counts the channels. Before it creates a channel, it also
/// records which listed channels other programs created, so that no comparison takes them for ours.
extension ChannelKeeper {
    /// For this long after a worker has recorded the channels of other programs (``recordForeignChannelsIfDue(at:)``),
    /// no creation requests APNs' list again. With a list before each creation, the last of many audiences that start
    /// together would wait twice as long for its channel.
    ///
    /// A channel that another program creates within this time is not recorded. If a creation then fails, a comparison
    /// may take this channel for ours (K14).
    static let recordedListMillisecondsMax: Int64 = 10_000

    /// Requests APNs' list of channels, and reports how many there are. Also notes the number in Redis, so that all
    /// workers show it.
    func listChannels(at managedEnvironment: ManagedEnvironment) async throws(ChannelFailure) -> [String] {
        let appEnvironment = managedEnvironment.appEnvironment
        let channels: [String]
        do throws(ChannelError) {
            channels = try await managedEnvironment.channelManagement.list()
        } catch {
            throw makeFailure(error)
        }
        report(
            .channelsCounted(
                app: appEnvironment.app,
                environment: appEnvironment.environment,
                channelCount: channels.count
            )
        )
        try convertRedisErrors { () throws(RedisError) in
            try registry.writeListedChannelCount(appEnvironment, channels.count)
        }
        return channels
    }

    /// Requests APNs' list before a creation, and records the channels of other programs. Does nothing if a worker has
    /// done so less than ``recordedListMillisecondsMax`` ago. If several creations call this together, one of them
    /// requests the list, and all of them succeed or fail with it.
    ///
    /// If Redis loses the recorded channels, it also loses the time of the last list, so the next creation requests a
    /// list.
    func recordForeignChannelsIfDue(at managedEnvironment: ManagedEnvironment) async throws(ChannelFailure) {
        let appEnvironment = managedEnvironment.appEnvironment
        let beganAtMilliseconds = monotonicMilliseconds
        await listTurns.waitForTurn(appEnvironment)
        defer { listTurns.release(appEnvironment) }
        if let last = listFailures[appEnvironment], last.atMilliseconds > beganAtMilliseconds { throw last.failure }
        do throws(ChannelFailure) {
            let recordedAtWallMilliseconds = try convertRedisErrors { () throws(RedisError) in
                try registry.readListRecordingTime(appEnvironment)
            }
            let listedAtWallMilliseconds = wallMilliseconds
            // The time from Redis may be any number, so the subtraction must not trap on overflow.
            let ageMilliseconds = recordedAtWallMilliseconds.map { listedAtWallMilliseconds &- $0 }
            if let ageMilliseconds, (0..<Self.recordedListMillisecondsMax).contains(ageMilliseconds) { return }
            try addForeignChannels(try await listChannels(at: managedEnvironment), at: managedEnvironment)
            try convertRedisErrors { () throws(RedisError) in
                try registry.writeListRecordingTime(appEnvironment, atWallMilliseconds: listedAtWallMilliseconds)
            }
        } catch {
            listFailures[appEnvironment] = (monotonicMilliseconds, error)
            throw error
        }
    }

    /// Records as foreign the listed channels that no entry names: other programs created them. Records nothing while
    /// there is an intent, because its attempt may have created one of these channels.
    ///
    /// Our own channel is recorded too if its id in the registry cannot be read. This does no harm: no comparison
    /// deletes unknown channels until the id can be read again, and the next one then removes the channel from the
    /// foreign ones.
    private func addForeignChannels(_ listedChannels: [String], at managedEnvironment: ManagedEnvironment)
        throws(ChannelFailure)
    {
        let content = try readCompleteRegistry(managedEnvironment)
        guard content.intents.isEmpty, content.unreadableIntents.isEmpty else { return }
        let ownChannels = content.ownChannels
        try convertRedisErrors { () throws(RedisError) in
            try registry.addForeignChannels(
                listedChannels.filter { !ownChannels.contains($0) && !content.foreignChannels.contains($0) },
                managedEnvironment.appEnvironment
            )
        }
    }
}
