public import LiveActivity

/// A model of the audience store that keeps everything in dictionaries. It gives the same replies, and stores the same
/// pages, as a Redis server. The simulation uses it instead of Redis, and a differential test compares the two.
///
/// The model rearranges a page that is too long at once; ``AudienceStore`` makes a further call for this.
public struct AudienceStoreModel: Sendable {
    struct AudienceKey: Hashable {
        var app: [UInt8]
        var audience: AudienceDigest
    }

    struct SegmentKey: Hashable {
        var audience: AudienceKey
        var segment: UInt8
    }

    /// The server's clock, UNIX milliseconds. The owner of the model advances it.
    public var nowMilliseconds: Int64
    private(set) var audiences: [AudienceKey: AudienceState] = [:]
    private(set) var segments: [SegmentKey: SegmentState] = [:]

    private let unarrangedPageBytesMax: Int

    /// - Parameter unarrangedPageBytesMax: the length in bytes above which a page is rearranged; nil: the same as on a
    ///   server. With a low number, a test needs only a few members to fill many pages.
    public init(nowMilliseconds: Int64, unarrangedPageBytesMax: Int? = nil) {
        self.nowMilliseconds = nowMilliseconds
        self.unarrangedPageBytesMax = unarrangedPageBytesMax ?? PageLimits.unarrangedPageBytesMax
    }

    public mutating func perform(_ call: AudienceCall<[UInt8]>) -> AudienceReply<[UInt8]> {
        let key = AudienceKey(app: call.app, audience: call.audience)
        switch call.operation {
        case .readDirectory(let segment):
            return readDirectory(SegmentKey(audience: key, segment: segment))
        case .readPage(let segment, let lowerBound):
            return readPage(SegmentKey(audience: key, segment: segment), lowerBound)
        case .append(let entry):
            let segment = SegmentKey(audience: key, segment: entry.location.segment)
            segments[segment, default: SegmentState(unarrangedPageBytesMax: unarrangedPageBytesMax)]
                .append(entry, nowMilliseconds: nowMilliseconds)
            return AudienceReply(.appended)
        default:
            var audience = audiences[key] ?? AudienceState()
            audience.removeExpired(nowMilliseconds: nowMilliseconds)
            let reply = audience.perform(call.operation, nowMilliseconds: nowMilliseconds)
            audiences[key] = audience.expiresAtMilliseconds == nil ? nil : audience
            return reply
        }
    }

    /// Sets or removes a channel in an audience's hash, as `ChannelKeeper` does.
    public mutating func setChannel(
        _ channel: AudienceChannel?,
        in environment: APNsEnvironment,
        of audience: AudienceDigest,
        app: [UInt8]
    ) {
        let key = AudienceKey(app: app, audience: audience)
        var audienceState = audiences[key] ?? AudienceState()
        audienceState.setChannel(channel, in: environment, nowMilliseconds: nowMilliseconds)
        audiences[key] = audienceState.expiresAtMilliseconds == nil ? nil : audienceState
    }

    /// Deletes everything, as `FLUSHALL` does.
    public mutating func flushAll() {
        audiences.removeAll()
        segments.removeAll()
    }

    /// Deletes the segments of all audiences, as if the servers of a cluster that have them had come back empty.
    package mutating func removeSegments() { segments.removeAll() }

    private mutating func readDirectory(_ key: SegmentKey) -> AudienceReply<[UInt8]> {
        segments[key]?.removeExpired(nowMilliseconds: nowMilliseconds)
        var reply = AudienceReply<[UInt8]>(.directory)
        reply.bytes = (segments[key]?.lowerBounds ?? [])
            .flatMap { bound in
                withUnsafeBytes(of: bound.littleEndian) { Array($0) }
            }
        return reply
    }

    private mutating func readPage(_ key: SegmentKey, _ lowerBound: UInt32) -> AudienceReply<[UInt8]> {
        segments[key]?.removeExpired(nowMilliseconds: nowMilliseconds)
        var reply = AudienceReply<[UInt8]>(.page)
        reply.bytes = segments[key]?.pages[lowerBound]?.bytes ?? []
        return reply
    }
}
