/// Where and how the command of a fan-out record is sent: to the members of one range of an audience, or as a broadcast
/// to one channel. The channel belongs to the audience, or the command itself names the channel.
public struct FanoutInstruction: Sendable, Equatable, BitwiseCopyable {
    /// The range whose members get the command. For a broadcast, only `rangeCount` is used.
    public var range: SegmentRange
    /// The channel to broadcast to; nil if the members of the range get the command.
    public var channel: AudienceChannel?
    /// How to send the command, as Redis decided at its admission. `grant.rangeCount` equals `range.rangeCount`.
    public var grant: AudienceGrant
    /// The place of the command's record in the commands topic. Results name it as their source.
    public var partition: Int32
    public var offset: Int64
    /// The timestamp of the command's record in Kafka, UNIX milliseconds; -1 if it has none.
    public var recordTimestampMilliseconds: Int64
    /// When a worker received the command's record, UNIX milliseconds; -1 if this is unknown.
    public var receivedAtMilliseconds: Int64
    /// When Redis admitted the command, UNIX milliseconds; -1 if this is unknown.
    public var admittedAtMilliseconds: Int64
    /// The version of the older command whose alert this command carries (R14); nil if the alert is the command's own,
    /// or absent.
    public var carriedAlertVersion: Version?
    /// Whether the command's alert was removed because it was too old. The result reports the removal.
    public var wasAlertRemovedByAge: Bool
    /// For a start: the audience's channels, on which activities may begin.
    public var channelsForStarts: AudienceChannels
    /// Why a channel of the audience was missing, in one environment or in both; nil if no channel was missing. Results
    /// report the reason.
    public var channelAbsence: ChannelAbsence?

    public init(
        range: SegmentRange,
        channel: AudienceChannel? = nil,
        grant: AudienceGrant,
        partition: Int32,
        offset: Int64,
        recordTimestampMilliseconds: Int64 = -1,
        receivedAtMilliseconds: Int64 = -1,
        admittedAtMilliseconds: Int64 = -1,
        carriedAlertVersion: Version? = nil,
        wasAlertRemovedByAge: Bool = false,
        channelsForStarts: AudienceChannels = AudienceChannels(),
        channelAbsence: ChannelAbsence? = nil
    ) {
        self.range = range
        self.channel = channel
        self.grant = grant
        self.partition = partition
        self.offset = offset
        self.recordTimestampMilliseconds = recordTimestampMilliseconds
        self.receivedAtMilliseconds = receivedAtMilliseconds
        self.admittedAtMilliseconds = admittedAtMilliseconds
        self.carriedAlertVersion = carriedAlertVersion
        self.wasAlertRemovedByAge = wasAlertRemovedByAge
        self.channelsForStarts = channelsForStarts
        self.channelAbsence = channelAbsence
    }
}
