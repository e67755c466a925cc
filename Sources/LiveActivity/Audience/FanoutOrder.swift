/// What a record of the fan-out topic says beside its command. It names the range of the audience whose members are sent the
/// command, and how they are sent it, or the audience's channel that the command is broadcast to.
public struct FanoutOrder: Sendable, Equatable, BitwiseCopyable {
    /// For a broadcast: the first of the audience's ranges.
    public var range: SegmentRange
    /// Nil: the record is for the members of the range.
    public var channel: AudienceChannel?
    /// What the admission decided. Its number of ranges is the range's `count`.
    public var grant: AudienceGrant
    /// The place of the command's record in the commands topic. Results name it as their source.
    public var partition: Int32
    public var offset: Int64
    /// UNIX milliseconds: the record's time (-1 if it had none), its receipt, and its admission.
    public var recordMilliseconds: Int64
    public var receivedMilliseconds: Int64
    public var admittedMilliseconds: Int64
    /// The version of the command whose alert this one carries; nil: its alert is its own, or it has none.
    public var alertVersion: Version?
    /// An alert was removed because it was too old. The result says so.
    public var isAlertExpired: Bool
    /// For a start: the audience's channels, on which activities may begin.
    public var startChannels: AudienceChannels
    /// Why the audience had no channel although it should have one. Results say so.
    public var channelAbsence: ChannelAbsence?

    public init(
        range: SegmentRange,
        channel: AudienceChannel? = nil,
        grant: AudienceGrant,
        partition: Int32,
        offset: Int64,
        recordMilliseconds: Int64 = -1,
        receivedMilliseconds: Int64 = -1,
        admittedMilliseconds: Int64 = -1,
        alertVersion: Version? = nil,
        isAlertExpired: Bool = false,
        startChannels: AudienceChannels = AudienceChannels(),
        channelAbsence: ChannelAbsence? = nil
    ) {
        self.range = range
        self.channel = channel
        self.grant = grant
        self.partition = partition
        self.offset = offset
        self.recordMilliseconds = recordMilliseconds
        self.receivedMilliseconds = receivedMilliseconds
        self.admittedMilliseconds = admittedMilliseconds
        self.alertVersion = alertVersion
        self.isAlertExpired = isAlertExpired
        self.startChannels = startChannels
        self.channelAbsence = channelAbsence
    }
}
