/// What a record of the fan-out topic says beside the command that it holds: which range of the audience it is for, and how its members are
/// to be sent the command; or which channel of the audience it is to be broadcast to.
public struct FanoutOrder: Sendable, Equatable, BitwiseCopyable {
    /// Of a broadcast the first of as many ranges as the audience has.
    public var range: SegmentRange
    /// Nil: the record is for the members of the range.
    public var channel: AudienceChannel?
    /// What the admission decided. Its number of ranges is the range's.
    public var grant: AudienceGrant
    /// The record of the commands topic that the command came in. Results name it as their source.
    public var partition: Int32
    public var offset: Int64
    /// UNIX milliseconds: of that record, -1 if it had no time; of its receipt; of its admission.
    public var recordMilliseconds: Int64
    public var receivedMilliseconds: Int64
    public var admittedMilliseconds: Int64
    /// The version of the command whose alert this one carries; nil: the alert is its own, if there is one.
    public var alertVersion: Version?
    /// An alert was removed since it was too old, which the result says.
    public var isAlertExpired: Bool
    /// Of a start: the audience's channels, on which activities may begin.
    public var startChannels: AudienceChannels
    /// The audience is to have a channel and had none: why. Results say so.
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
