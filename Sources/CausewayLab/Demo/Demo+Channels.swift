import CausewayCommandLine

/// Broadcast channels in a demo. Each match's audience has a channel. A phone subscribes to the channel if a push
/// started the phone's activity.
extension Demo {
    /// How long a channel is kept after its match: a short time, because the demo waits for the deletions.
    static let channelKeepSeconds = 5
    /// How long to wait until the worker has deleted all channels. The worker looks for channels to delete only once a
    /// minute.
    static let channelDeletionMillisecondsMax: Int64 = 150_000

    var channelSettings: WorkerConfigurationText.Channels? {
        guard feed.hasChannels else { return nil }
        return .init(audiences: MatchCommands.audience(ofMatch: "*"), keepSeconds: Self.channelKeepSeconds)
    }

    /// Waits until every phone has its activity. Then throws an error if a phone that must be on a channel has not
    /// subscribed: such a phone would miss broadcasts. Asks the simulator about subscriptions, because a phone that
    /// subscribes sends nothing to the app's server.
    func awaitSubscriptions(_ phones: SimulatedPhones, _ reader: ResultsReader, _ commandProducer: CommandProducer)
        throws(LabError)
    {
        try wait(until: "every phone has its activity", reader, commandProducer) { () throws(LabError) in
            try phones.readSummary().activeActivityCount == feed.phoneCount
        }
        let subscribedCount = try phones.readSummary().subscribedActivityCount
        guard subscribedCount == feed.subscribedPhoneCount else {
            throw LabError("\(subscribedCount) of \(feed.subscribedPhoneCount) activities have begun on a channel")
        }
    }

    /// Waits until the worker has deleted the channels of all matches, at most `channelDeletionMillisecondsMax`.
    /// Returns the figures of the channels.
    func awaitChannelDeletions(_ phones: SimulatedPhones) throws(LabError) -> DemoFigures.Channels {
        progressDisplay.printLine("The matches are over. Within a minute the worker deletes their channels.")
        let deadlineMilliseconds = Clock.monotonicMilliseconds + Self.channelDeletionMillisecondsMax
        while try phones.readChannelCounts().left > 0, Clock.monotonicMilliseconds < deadlineMilliseconds {
            try checkInterruptionAndProcesses()
            Self.pause(milliseconds: Self.checkIntervalMilliseconds)
        }
        let (channels, summary) = (try phones.readChannelCounts(), try phones.readSummary())
        return DemoFigures.Channels(
            phones: feed.subscribedPhoneCount,
            phonesReached: summary.reachedActivityCount,
            strayTokens: summary.registrationCount - (2 * feed.phoneCount - feed.subscribedPhoneCount),
            broadcasts: try phones.readAcceptedCounts().broadcastCount,
            broadcastsReceived: summary.receivedBroadcastCount,
            created: channels.created,
            left: channels.left
        )
    }
}
