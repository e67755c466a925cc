/// The store's decision about an audience.
public enum AudienceVerdict: UInt8, Sendable, CaseIterable {
    /// After an admission: fan the command out as ``AudienceReply/grant`` says. After
    /// ``AudienceCall/Operation/readNewestState``: send this state to the member that joins.
    case send
    /// Make the call again after ``AudienceReply/waitMilliseconds``.
    case wait
    /// Redis knows a newer version, or has admitted this version for another event (start, update or end).
    case superseded
    /// This version has been settled.
    case duplicate
    /// The members show this state already, or this state is being sent to them.
    case unchanged
    /// Redis has admitted an end to the audience. Only a start can follow.
    case ended
    /// There is no state to send to a member that joins.
    case unknown
    /// The checkpoint is recorded, or the settlement is processed.
    case settled
    /// The checkpoint was not recorded, because another claim is valid. The caller claims the range again if it still
    /// has the range's partition.
    case claimedByAnother
    /// The range has no claim, because Redis has lost data about the audience: members may be missing too.
    case claimLost
    /// The range is claimed. ``AudienceReply/bytes`` has the last checkpoint.
    case claimed
    /// The counts of a range or broadcast are in the version's totals, or Redis has no room for the version (K27).
    case finished
    /// ``AudienceReply/bytes`` has the list of a segment's pages.
    case directory
    /// ``AudienceReply/bytes`` has a page.
    case page
    /// An entry was added to the member's page.
    case appended
}

/// The verdicts on a command to an audience. Each has the meaning of the ``AudienceVerdict`` with its name.
public enum AudienceAdmissionVerdict: Sendable {
    case send, wait, superseded, duplicate, unchanged, ended

    /// Nil for a verdict that no admission to an audience can get.
    public init?(_ verdict: AudienceVerdict) {
        switch verdict {
        case .send: self = .send
        case .wait: self = .wait
        case .superseded: self = .superseded
        case .duplicate: self = .duplicate
        case .unchanged: self = .unchanged
        case .ended: self = .ended
        case .unknown, .settled, .claimedByAnother, .claimLost, .claimed, .finished, .directory, .page, .appended:
            return nil
        }
    }
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
    /// The newest admitted version; nil if no version was admitted, or if the newest one is a start. Set in the replies
    /// to a claim and to a checkpoint, and in the `send` that replies to `readNewestState`.
    public var newestVersion: Version?
    /// The `aps.timestamp` to send with the newest state, UNIX seconds. Only the `send` that replies to
    /// `readNewestState` sets this property, ``expirationSeconds`` and ``isEnd``.
    public var timestamp: Int64 = 0
    /// When the newest state expires, UNIX seconds.
    public var expirationSeconds: Int64 = 0
    /// Whether the newest state came with an end.
    public var isEnd = false
    /// With `finished`: how many ranges and broadcasts of the version are not finished yet.
    public var unfinishedPartCount = 0
    /// The counts of all ranges. Set in `finished` once all ranges and broadcasts of the version are finished.
    public var totals: MemberOutcomeCounts?
    /// When APNs responded to the first and the last push of all ranges and broadcasts. Set together with ``totals``.
    public var responseTimes = ResponseTimes()
    /// The number of broadcasts for each outcome. Set together with ``totals``.
    public var broadcastCounts = MemberOutcomeCounts()
    /// What the bytes are depends on the verdict; nil with any verdict that is not listed:
    /// - `send` in reply to `readNewestState`: the body
    /// - `claimed`: the checkpoint's text
    /// - `directory`: the lower bounds of the pages
    /// - `page`: the page
    public var bytes: Bytes?

    public init(_ verdict: AudienceVerdict) { self.verdict = verdict }
}

extension AudienceReply: Equatable where Bytes: Equatable {}
