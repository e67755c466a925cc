import CausewayCommandLine

/// Broadcast channels in a season. Each match's audience has a channel, and the phones whose activity a push
/// starts subscribe to it.
extension Demo {
    /// How long a channel is kept after its match. The time is short, so that the demo can wait for the
    /// deletions.
    static let channelKeepSeconds = 5
    /// How long to wait until the worker has deleted all channels. It checks only once a minute which channels it must
    /// delete.
    static let channelDeletionMillisecondsMax: Int64 = 150_000

    var channelSettings: WorkerConfigurationText.Channels? {
        guard feed.hasChannels else { return nil }
        return .init(audiences: MatchCommands.audience(ofMatch: "*"), keepSeconds: Self.channelKeepSeconds)
    }

    /// Waits until every phone has its activity. Then throws an error if a phone that must be on a channel has not
    /// subscribed, because the phone would miss broadcasts. The run asks the simulator: a phone that subscribes sends
    /// nothing to the server.
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
