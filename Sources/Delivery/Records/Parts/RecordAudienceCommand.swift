import LiveActivity

/// What only a command to an audience or channel has (`RecordKind.audienceCommand`), from its handover on. The id of
/// the audience or channel is `RecordTexts.subject`.
struct RecordAudienceCommand: BitwiseCopyable {
    /// The ``ActivityIdentifierTemplate`` of a start; empty for other commands.
    var activityTemplate = BlockRange()
    /// Whether the command requests a broadcast channel for its audience, even if the configuration does not.
    var requestsChannel = false
    /// The environment of the channel that the command names; nil: the command names an audience.
    var channelEnvironment: APNsEnvironment?
}
