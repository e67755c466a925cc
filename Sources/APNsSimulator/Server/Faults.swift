/// Trouble on demand. All shares are of requests that are in order otherwise, from 0 to 1, and together at most 1.
public struct Faults: Sendable, Equatable {
    /// How long an answer takes; drawn evenly between the two.
    public var latencyMilliseconds: ClosedRange<Int> = 0...0
    /// Answered 500 `InternalServerError`; the push reaches no phone.
    public var internalServerErrorShare = 0.0
    /// Answered 503 `ServiceUnavailable`; the push reaches no phone.
    public var serviceUnavailableShare = 0.0
    /// Answered 429 `TooManyRequests`; the push reaches no phone.
    public var tooManyRequestsShare = 0.0
    /// Refused (RST_STREAM with REFUSED_STREAM): certainly not processed.
    public var refusedShare = 0.0
    /// Reset (RST_STREAM with INTERNAL_ERROR): processed or not, the client cannot know.
    public var resetShare = 0.0
    /// Never answered.
    public var unansweredShare = 0.0
    /// Whether a push that is reset or never answered has reached its phone.
    public var lostAnswersAreApplied = true
    /// A connection gets GOAWAY, reason `Shutdown`, after this many requests; 0: never.
    public var goAwayAfterRequests = 0
    /// SETTINGS_MAX_CONCURRENT_STREAMS of authenticated connections, told them at once; nil: as configured.
    public var concurrentStreams: UInt32?
    /// The bodies' bytes that a new connection takes before it has read them (RFC 9113, section 6.9.2); nil: HTTP/2's own 65,535. What
    /// APNs gives is not known; at a distance it bounds what one connection carries.
    public var connectionWindowBytes: Int?

    public init() {}

    /// What is wrong with the values; nil if nothing is.
    var problem: String? {
        let shares = [
            internalServerErrorShare, serviceUnavailableShare, tooManyRequestsShare, refusedShare, resetShare,
            unansweredShare,
        ]
        if shares.contains(where: { !(0...1).contains($0) }) { return "a share is a number from 0 to 1" }
        if shares.reduce(0, +) > 1 + 1e-9 { return "the shares together are more than 1" }
        if latencyMilliseconds.lowerBound < 0 || latencyMilliseconds.upperBound > Self.latencyMillisecondsMax {
            return "a latency is from 0 to \(Self.latencyMillisecondsMax) ms"
        }
        if goAwayAfterRequests < 0 { return "goAwayAfterRequests is negative" }
        if let bytes = connectionWindowBytes, !(1...Self.connectionWindowBytesMax).contains(bytes) {
            return "a connection's window is from 1 to \(Self.connectionWindowBytesMax) bytes"
        }
        return nil
    }

    public static let latencyMillisecondsMax = 600_000
    public static let connectionWindowBytesMax = 1 << 24
}

/// What becomes of a request that is in order.
enum Fate {
    case processed
    case rejected(Reason)
    case refused
    case reset
    case unanswered
}

/// The shares as bands of 32 random bits, so that a request costs one draw, and none if there are no faults.
struct FaultPlan {
    let faults: Faults
    private let bands: [(upTo: UInt64, fate: Fate)]

    init(_ faults: Faults) {
        self.faults = faults
        let shares: [(Double, Fate)] = [
            (faults.internalServerErrorShare, .rejected(.internalServerError)),
            (faults.serviceUnavailableShare, .rejected(.serviceUnavailable)),
            (faults.tooManyRequestsShare, .rejected(.tooManyRequests)),
            (faults.refusedShare, .refused), (faults.resetShare, .reset), (faults.unansweredShare, .unanswered),
        ]
        var bands: [(upTo: UInt64, fate: Fate)] = []
        var sum = 0.0
        for (share, fate) in shares where share > 0 {
            sum += share
            bands.append((UInt64(min(sum, 1) * 4_294_967_296), fate))
        }
        self.bands = bands
    }

    func fate(_ random: inout RandomSource) -> Fate {
        if bands.isEmpty { return .processed }
        let draw = random.next() >> 32
        for band in bands where draw < band.upTo { return band.fate }
        return .processed
    }

    func latencyMilliseconds(_ random: inout RandomSource) -> Int64 {
        let range = faults.latencyMilliseconds
        if range.upperBound == 0 { return 0 }
        let width = UInt64(range.upperBound - range.lowerBound) + 1
        return Int64(range.lowerBound) + Int64(random.next() % width)
    }
}
