public import LiveActivity
public import Reactor
public import Redis

/// Told what the store replies about audiences, and what happens to its connections. All calls come from the loop, or from inside
/// ``AudienceStore/close()``; each may issue calls or close the store.
public protocol AudienceStoreHandler: AnyObject {
    /// - Parameter reply: its bytes are valid during this call only.
    func audienceReplied(tag: UInt64, _ reply: AudienceReply<UnsafeRawBufferPointer>)
    /// The call may have been performed if the error is the connection's: repeating it is safe. ``RedisError/storeFailure`` says what the
    /// error means to the caller.
    func audienceFailed(tag: UInt64, error: RedisError)
    /// Calls are taken. Calls that have failed can be issued again.
    func audienceStoreReady()
    /// A connection was lost, or an attempt to make one failed; another attempt follows by itself.
    func audienceStoreLost(_ reason: RedisError)
}

/// What an audience store does beside the calls that are made to it; each only grows.
public struct AudienceStoreCounters: Sendable {
    /// Entries that went to a page a second time: the lane did not know that the page had been split, was full, or was not there.
    public var appendsRepeated: UInt64 = 0
    /// Pages made, compacted, split, or renewed.
    public var pagesArranged: UInt64 = 0

    public init() {}
}

/// Audiences and their members, in Redis.
///
/// A lane has one beside its ``ActivityStore``, with connections of its own: the pages of a round, some kilobytes each, must not delay the
/// replies that single commands wait for. Everything happens on the lane's thread; a call and its reply allocate nothing, except that the
/// pages of a segment are noted when they were looked up. Calls that are issued in one turn leave with one write.
public final class AudienceStore {
    let redis: RedisClient
    private let joins: AudienceJoins
    private let key = UnsafeMutableRawBufferPointer.allocate(byteCount: AudienceKey.bytesMax, alignment: 8)

    /// Connects to nothing yet.
    ///
    /// - Parameter handler: held weakly.
    public init(loop: EventLoop, configuration: RedisConfiguration, handler: any AudienceStoreHandler) {
        let joins = AudienceJoins(handler: handler)
        self.joins = joins
        redis = RedisClient(loop: loop, configuration: configuration, handler: joins) {
            AudienceSession(configuration: $0, joins: joins)
        }
        joins.redis = redis
    }

    deinit {
        key.deallocate()
    }

    /// Connects, and stays connected until `close`. Once.
    public func connect() { redis.connect() }

    /// Ends all connections; outstanding calls fail, from inside this call. Idempotent.
    public func close() { redis.close() }

    /// Some calls are taken; of a cluster, those for the keys of at least one server.
    public var isReady: Bool { redis.isReady }

    /// Keys are on several servers, so that the server of one key may be away while others are there.
    public var hasSeveralServers: Bool { redis.hasSeveralServers }

    /// What the store has done by itself since it was made.
    public var counters: AudienceStoreCounters { joins.counters }

    /// Calls that have no reply yet, those among them that the store makes by itself to rearrange pages.
    public var outstandingCount: Int { redis.outstandingCount }

    /// Writes a call, or collects it for the command that leaves at the end of the turn.
    ///
    /// Entries that are appended leave as one command where the topology allows it.
    public func issue(_ call: AudienceCall<UnsafeRawBufferPointer>) -> CallIssue {
        guard call.operation.isWithinBounds else { return .outOfBounds }
        switch call.operation {
        case .append(let entry):
            return joins.begin(tag: call.tag, app: call.app, call.audience, entry)
        case .directory(let segment), .page(let segment, _):
            guard var count = AudienceKey.write(app: call.app, call.audience, segment: segment, to: key) else {
                return .outOfBounds
            }
            if case .page(_, let lowerBound) = call.operation {
                let suffix = AudienceKey.pageSuffix(lowerBound)
                for index in suffix.indices { key[count + index] = suffix[index] }
                count += AudienceKey.pageSuffixBytes
                return get(.page, tag: call.tag, keyBytes: count)
            }
            key[count] = AudienceKey.directory
            return get(.directory, tag: call.tag, keyBytes: count + 1)
        default:
            guard let count = AudienceKey.write(app: call.app, call.audience, to: key) else { return .outOfBounds }
            let key = UnsafeRawBufferPointer(rebasing: key[..<count])
            guard let (session, connection) = redis.audienceSession(for: key) else { return .notReady }
            guard case .checkpoint(let range, let claim, let text) = call.operation else {
                return session.perform(call, key: key, on: connection)
            }
            return session.record(range, claim: claim, text: text, tag: call.tag, key: key, on: connection)
        }
    }

    private func get(_ kind: AudienceCallKind, tag: UInt64, keyBytes: Int) -> CallIssue {
        let key = UnsafeRawBufferPointer(rebasing: key[..<keyBytes])
        guard let (session, connection) = redis.audienceSession(for: key) else { return .notReady }
        return session.get(key, AudienceSessionCall(tag: tag, kind: kind), on: connection)
    }
}

extension RedisClient {
    /// The connection for one call with this key, and its session. Only of a client whose sessions are an audience store's.
    func audienceSession(for key: UnsafeRawBufferPointer) -> (AudienceSession, RedisConnection)? {
        guard let connection = connection(for: key) else { return nil }
        return (unsafeDowncast(connection.session, to: AudienceSession.self), connection)
    }
}

extension AudienceCall<UnsafeRawBufferPointer>.Operation {
    /// Whether all parts are within their limits. An entry's are looked at when it is written.
    fileprivate var isWithinBounds: Bool {
        switch self {
        case .admit(let admission):
            admission.version.isStorable && admission.body.count <= Limits.recordBytes
                && SegmentRange(index: 0, count: Int(admission.rangeCount)) != nil
        case .settle(let version), .finish(_, let version, _, _), .finishBroadcast(_, let version, _, _):
            version.isStorable
        case .checkpoint(_, _, let text): text.count <= AudienceLimits.progressBytes
        case .newest, .claim, .directory, .page, .append: true
        }
    }
}
