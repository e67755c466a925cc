/// The store's decision about an audience.
public enum AudienceVerdict: UInt8, Sendable, CaseIterable {
    /// In reply to an admission: fan the command out as ``AudienceReply/grant`` says. In reply to
    /// ``AudienceCall/Operation/newest``: send this state to the member that joins.
    case send
    /// Make the call again after ``AudienceReply/waitMilliseconds``.
    case wait
    /// A newer version was admitted.
    case superseded
    /// This version has been settled.
    case duplicate
    /// The members show this state already, or this state is being sent to them.
    case unchanged
    /// The audience has ended.
    case ended
    /// There is no state to send to a member that joins.
    case unknown
    /// A settlement or a checkpoint was recorded.
    case settled
    /// Another owner has claimed the range.
    case claimedByAnother
    /// The range has no claim, because Redis has lost its data about the audience and its members.
    case lost
    case progress
    case finished
    case pages
    case page
    case joined
}

/// A reply of the store about an audience. Borrowed bytes are valid only until the function that gets the reply
/// returns.
public struct AudienceReply<Bytes> {
    public var verdict: AudienceVerdict
    /// With ``AudienceVerdict/wait``: how many milliseconds to wait, at least 1.
    public var waitMilliseconds: Int64 = 0
    /// How to send the admitted command. Set in a ``AudienceVerdict/send`` that replies to an admission.
    public var grant: AudienceGrant?
    /// The audience's channels. Set together with ``grant``.
    public var channels = AudienceChannels()
    /// The newest admitted version that is not a start. Set in `progress`, `claimedByAnother` and `lost`, in the
    /// `settled` that replies to a checkpoint, and in the `send` that replies to `newest`.
    public var newest: Version?
    /// The `aps.timestamp` to send and the expiration, UNIX seconds. Set in the `send` that replies to
    /// `newest`. The caller chooses the priority.
    public var timestamp: Int64 = 0
    public var expiration: Int64 = 0
    public var isEnd = false
    /// With `finished`: how many ranges and broadcasts of the version are not finished yet.
    public var partsLeft = 0
    /// The counts and times of all ranges. Set in the `finished` of the last range or broadcast.
    public var totals: MemberCounts?
    public var times = RoundTimes()
    /// The number of broadcasts for each outcome. Set together with ``totals``.
    public var broadcasts = MemberCounts()
    /// The body of `newest`, the text of `progress`, the bounds of `pages`, or the bytes of `page`.
    public var bytes: Bytes?

    public init(_ verdict: AudienceVerdict) { self.verdict = verdict }
}

extension AudienceReply: Equatable where Bytes: Equatable {}
