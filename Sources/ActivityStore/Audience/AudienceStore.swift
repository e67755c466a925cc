public import LiveActivity
public import Reactor
public import Redis

/// Receives the replies to the calls of an ``AudienceStore``, and the events of its connections. The event loop and
/// ``AudienceStore/close()`` call these functions. Each function may issue calls or close the store.
public protocol AudienceStoreHandler: AnyObject {
    /// Reports the reply to a call. The bytes of the reply are valid only during this function.
    func audienceStoreReplied(tag: UInt64, _ reply: AudienceReply<UnsafeRawBufferPointer>)
    /// Reports that a call failed. If the connection was lost, Redis may still have performed the call. Every call can
    /// be repeated safely. ``RedisError/storeFailure`` says what the error means to the caller.
    func audienceCallFailed(tag: UInt64, error: RedisError)
    /// Reports that calls can be issued. Calls that have failed can be issued again.
    func audienceStoreReady()
    /// Reports that a connection was lost, an attempt to connect failed, or a look-up of a cluster's hash slots failed.
    /// The store tries again automatically.
    func audienceStoreDisconnected(_ reason: RedisError)
}

/// How much additional work members' entries have caused since the store was made. The counts only grow.
public struct AudienceStoreCounters: Sendable {
    /// How often an entry was sent again, because the lane did not know that the page was split, full or missing.
    public var repeatedAppendCount: UInt64 = 0
    /// How often the script `arrange` ran. It makes, shortens or splits a page, or renews a page's expiry.
    public var arrangedPageCount: UInt64 = 0

    public init() {}
}

/// Reads and changes what Redis stores about audiences and their members. A lane has one audience store beside its
/// ``ActivityStore``, and uses it only on its own thread. The stores have separate connections, because the long pages
/// that a round reads would delay the replies about single commands.
///
/// The calls of an iteration are sent together at its end. A call and its reply allocate nothing, except when the lane
/// caches a directory.
public final class AudienceStore {
    let redis: RedisClient
    private let entryAppender: EntryAppender
    private let keyBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: AudienceStoreKey.bytesMax, alignment: 8)

    /// Makes a store without connections; ``connect()`` opens them.
    ///
    /// - Parameter handler: held weakly.
    public init(loop: EventLoop, configuration: RedisConfiguration, handler: any AudienceStoreHandler) {
        let entryAppender = EntryAppender(handler: handler)
        self.entryAppender = entryAppender
        redis = RedisClient(loop: loop, configuration: configuration, handler: entryAppender) {
            AudienceSession(configuration: $0, entryAppender: entryAppender)
        }
        entryAppender.redis = redis
    }

    deinit {
        keyBuffer.deallocate()
    }

    /// Connects, and connects again after each loss of a connection, until `close` is called. Call this method once.
    public func connect() { redis.connect() }

    /// Ends all connections. Outstanding calls fail before this method returns. A second call does nothing.
    public func close() { redis.close() }

    /// Whether calls can be issued. In a cluster, true if at least one server accepts calls for its keys.
    public var isReady: Bool { redis.isReady }

    /// Whether several servers share the keys. A call can then be issued only while the server that has its key is
    /// available.
    public var hasSeveralServers: Bool { redis.hasSeveralServers }

    public var counters: AudienceStoreCounters { entryAppender.counters }

    /// The number of calls that have no reply yet. The connections' own commands count too, and so do the calls that
    /// the store itself makes to read directories and to rearrange pages.
    public var outstandingCallCount: Int { redis.outstandingCallCount }

    /// Writes a call, or collects it for a Redis command that is written at the end of the iteration at the latest. If
    /// the result is not `issued`, nothing is written, and no reply or failure follows.
    ///
    /// Consecutive entries share a Redis command, and so do consecutive checkpoints of one audience. In a cluster each
    /// call is a command of its own.
    public func issue(_ call: AudienceCall<UnsafeRawBufferPointer>) -> IssueResult {
        guard call.operation.isWithinBounds else { return .outOfBounds }
        switch call.operation {
        case .append(let entry):
            return entryAppender.beginAppend(tag: call.tag, app: call.app, call.audience, entry)
        case .readDirectory(let segment), .readPage(let segment, _):
            guard var count = AudienceStoreKey.write(app: call.app, call.audience, segment: segment, to: keyBuffer)
            else {
                return .outOfBounds
            }
            if case .readPage(_, let lowerBound) = call.operation {
                let suffix = AudienceStoreKey.pageSuffix(lowerBound)
                for index in suffix.indices { keyBuffer[count + index] = suffix[index] }
                count += AudienceStoreKey.pageSuffixBytes
                return issueGet(.readPage, tag: call.tag, keyByteCount: count)
            }
            keyBuffer[count] = AudienceStoreKey.directoryLetter
            return issueGet(.readDirectory, tag: call.tag, keyByteCount: count + 1)
        default:
            guard let count = AudienceStoreKey.write(app: call.app, call.audience, to: keyBuffer) else {
                return .outOfBounds
            }
            let key = UnsafeRawBufferPointer(rebasing: keyBuffer[..<count])
            guard let (session, connection) = redis.audienceSessionAndConnection(for: key) else { return .notReady }
            guard case .checkpoint(let range, let claim, let text) = call.operation else {
                return session.issueHashCall(call, key: key, on: connection)
            }
            return session.collectCheckpoint(range, claim: claim, text: text, tag: call.tag, key: key, on: connection)
        }
    }

    private func issueGet(_ kind: AudienceCallKind, tag: UInt64, keyByteCount: Int) -> IssueResult {
        let key = UnsafeRawBufferPointer(rebasing: keyBuffer[..<keyByteCount])
        guard let (session, connection) = redis.audienceSessionAndConnection(for: key) else { return .notReady }
        return session.issueGet(key, AudienceSessionCall(tag: tag, kind: kind), on: connection)
    }
}

extension RedisClient {
    /// Returns the connection for one call with this key, and its session; nil if ``RedisClient/connection(for:)``
    /// returns nil. The client must be an audience store's, because only its sessions have the type `AudienceSession`.
    func audienceSessionAndConnection(for key: UnsafeRawBufferPointer) -> (AudienceSession, RedisConnection)? {
        guard let connection = connection(for: key) else { return nil }
        return (unsafeDowncast(connection.session, to: AudienceSession.self), connection)
    }
}

extension AudienceCall<UnsafeRawBufferPointer>.Operation {
    /// Whether all values of the call are within their limits. An append's entry is not checked here:
    /// `EntryAppendTable` checks it when it encodes the entry.
    fileprivate var isWithinBounds: Bool {
        switch self {
        case .admit(let admission):
            admission.version.isStorable && admission.body.count <= Limits.recordBytesMax
                && SegmentRange(index: 0, rangeCount: Int(admission.rangeCount)) != nil
        case .settle(let version), .finishRange(_, let version, _, _), .finishBroadcast(_, let version, _, _):
            version.isStorable
        case .checkpoint(_, _, let text): text.count <= AudienceLimits.checkpointBytesMax
        case .readNewestState, .claim, .readDirectory, .readPage, .append: true
        }
    }
}
