/// What the store decided about an audience.
public enum AudienceVerdict: UInt8, Sendable, CaseIterable {
    /// Fan the command out, as ``AudienceReply/grant`` says; of ``AudienceCall/Operation/newest``: send this to who joins.
    case send
    /// Not before ``AudienceReply/waitMilliseconds`` from now; then ask again.
    case wait
    /// A newer version was admitted.
    case superseded
    /// This version has been settled.
    case duplicate
    /// The members show, or are being sent, this state already.
    case unchanged
    /// The audience has ended.
    case ended
    /// Nothing is known that a member could be sent.
    case unknown
    /// A settlement or a checkpoint was recorded.
    case settled
    /// Another has claimed the range.
    case foreign
    /// Nobody has claimed the range: the store has lost what it knew of the audience, and its members.
    case lost
    case progress
    case finished
    case pages
    case page
    case joined
}

/// A reply of the store about an audience. Borrowed bytes are valid during the call that brings the reply.
public struct AudienceReply<Bytes> {
    public var verdict: AudienceVerdict
    /// With ``AudienceVerdict/wait``: how long, at least 1.
    public var waitMilliseconds: Int64 = 0
    /// With ``AudienceVerdict/send`` of an admission.
    public var grant: AudienceGrant?
    /// With `grant`: the channels that the audience has.
    public var channels = AudienceChannels()
    /// The newest admitted version, with `progress`, `settled` of a checkpoint, `foreign`, `lost`, and `send` of `newest`. A start
    /// does not count.
    public var newest: Version?
    /// With `send` of `newest`: the timestamp, the priorities are a lone member's to choose; and until when it is to be sent, UNIX seconds.
    public var timestamp: Int64 = 0
    public var expiration: Int64 = 0
    public var isEnd = false
    /// With `finished`: ranges and broadcasts of the version that are not finished.
    public var rangesLeft = 0
    /// With `finished` of the last range or broadcast: of all ranges.
    public var totals: MemberCounts?
    public var times = RoundTimes()
    /// With `totals`: what became of the broadcasts.
    public var broadcasts = MemberCounts()
    /// The body of `newest`, the text of `progress`, the bounds of `pages`, the bytes of `page`.
    public var bytes: Bytes?

    public init(_ verdict: AudienceVerdict) { self.verdict = verdict }
}

extension AudienceReply: Equatable where Bytes: Equatable {}
