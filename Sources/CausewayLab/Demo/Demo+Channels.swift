import CausewayCommandLine

/// Broadcast channels in a season: each match's audience has one, and the phones whose activity is started by push are on it.
extension Demo {
    /// Short, so that the deletions can be waited for.
    static let channelKeepSeconds = 5
    /// The worker checks once a minute which channels are due.
    static let deletionMilliseconds: Int64 = 150_000

    var declaredChannels: WorkerConfigurationText.Channels? {
        guard feed.hasChannels else { return nil }
        return .init(audiences: MatchRecords.audience(ofMatch: "*"), keepSeconds: Self.channelKeepSeconds)
    }

    /// A phone that begins on a channel tells the server nothing, so the phones are asked. Who subscribes after a broadcast does not get
    /// that one: the season waits for all.
    func awaitChannels(_ phones: SimulatedPhones, _ reader: ResultsReader, _ commandProducer: CommandProducer)
        throws(LabError)
    {
        try wait(until: "every phone has its activity", reader, commandProducer) { () throws(LabError) in
            try phones.summary().activitiesActive == feed.phones
        }
        let onChannels = try phones.summary().activitiesOnChannels
        guard onChannels == feed.phonesOnChannels else {
            throw LabError("\(onChannels) of \(feed.phonesOnChannels) activities have begun on a channel")
        }
    }

    /// Waits until the channels of the matches, all of which have ended, are deleted at APNs.
    func channels(_ phones: SimulatedPhones) throws(LabError) -> DemoFigures.Channels {
        display.note("The matches are over. Within a minute the worker deletes their channels.")
        let deadline = Clock.milliseconds + Self.deletionMilliseconds
        while try phones.channels().left > 0, Clock.milliseconds < deadline {
            try checkParts()
            Self.pause(milliseconds: Self.checkMilliseconds)
        }
        let (channels, summary) = (try phones.channels(), try phones.summary())
        return DemoFigures.Channels(
            phones: feed.phonesOnChannels,
            phonesReached: summary.activitiesReachedByBroadcasts,
            strayTokens: summary.registrations - (2 * feed.phones - feed.phonesOnChannels),
            broadcasts: try phones.accepted().broadcasts,
            broadcastsReceived: summary.broadcastsReceived,
            created: channels.created,
            left: channels.left
        )
    }
}
