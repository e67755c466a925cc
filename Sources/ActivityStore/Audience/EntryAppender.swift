import LiveActivity
import Redis

/// Adds the entry of each member that joins or leaves to the member's page, in as many steps as the page needs. Such an
/// addition is called an append.
///
/// First, an entry is sent to the page that the cached directory names; if the cache does not have the directory, to
/// the only page of a small segment. A page that does not exist, was split or is full refuses the entry. Then the
/// lane reads the segment's directory from Redis. If the directory names another page, the entry is sent to that
/// page. If it names the same page or is empty, the script `arrange` makes or rearranges the page, and the entry is
/// sent again. The caller sees one call and one reply. The page of an added entry may be too long, or its expiry may
/// have to be renewed. Then the lane calls `arrange` after the caller's reply, unless `arrange` already runs for the
/// page.
final class EntryAppender: RedisHandler {
    /// An entry's call fails if it receives more directories than this, from look-ups and from `arrange`. Normally an
    /// entry needs fewer, even if many members join one page at the same time. Without the limit, the entry would be
    /// sent again forever if a directory and its page contradict each other.
    private static let directoriesMax: UInt8 = 8

    private(set) weak var handler: (any AudienceStoreHandler)?
    /// The client. A weak reference, because the client's sessions hold this object.
    weak var redis: RedisClient?
    private(set) var appendTable = EntryAppendTable()
    private var directoryCache = PageDirectoryCache()
    private(set) var counters = AudienceStoreCounters()
    private let keyBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: AudienceStoreKey.bytesMax, alignment: 8)

    init(handler: any AudienceStoreHandler) { self.handler = handler }

    deinit {
        keyBuffer.deallocate()
    }

    func redisReady() { handler?.audienceStoreReady() }
    func redisLost(_ reason: RedisError) { handler?.audienceStoreLost(reason) }
    /// Ignores the warning: the activity store's connections to the same servers report it too.
    func redisWarns(_ warning: RedisWarning) {}

    // MARK: - Steps

    func beginAppend(
        tag: UInt64,
        app: UnsafeRawBufferPointer,
        _ audience: AudienceDigest,
        _ entry: MemberEntry<UnsafeRawBufferPointer>
    ) -> IssueOutcome {
        switch appendTable.insert(tag: tag, app: app, audience, entry) {
        case .full: return .full
        case .outOfBounds: return .outOfBounds
        case .inserted(let slot):
            let outcome = issueAppend(slot)
            if outcome != .issued { appendTable.remove(slot) }
            return outcome
        }
    }

    private func issueAppend(_ slot: UInt16) -> IssueOutcome {
        appendTable[slot].phase = .appending
        appendTable[slot].bounds = directoryCache.pageBounds(
            of: appendTable[slot].position,
            hashTag: appendTable.hashTag(slot)
        )
        guard let (session, connection) = redis?.audienceSession(for: pageKey(slot)) else { return .notReady }
        return session.collectEntry(slot, on: connection)
    }

    func handleAppendOutcome(_ slot: UInt16, _ outcome: AppendOutcome) {
        switch outcome {
        case .refused:
            appendTable[slot].phase = .lookingUp
            failUnlessIssued(slot, issueLookUp(slot))
        case .added:
            reportAppended(slot)
        case .addedNeedsArranging:
            // The handler may close the store, which fails all outstanding calls. This append has no
            // outstanding call until `arrange` is called, so it is not reported a second time.
            let isBeingArranged = appendTable.isArranging(pageOf: slot)
            appendTable[slot].phase = .arrangingAfterReply
            handler?.audienceStoreReplied(tag: appendTable[slot].tag, AudienceReply(.appended))
            if isBeingArranged || issuePageArrangement(slot) != .issued { appendTable.remove(slot) }
        }
    }

    private func issueLookUp(_ slot: UInt16) -> IssueOutcome {
        let key = directoryKey(slot)
        guard let (session, connection) = redis?.audienceSession(for: key) else { return .notReady }
        return session.get(key, AudienceSessionCall(tag: 0, kind: .lookUp, appendSlot: slot), on: connection)
    }

    /// Handles the directory of the append's segment, from a look-up or from `arrange`.
    func handleDirectory(_ directory: UnsafeRawBufferPointer, _ slot: UInt16) {
        let hashTag = appendTable.hashTag(slot)
        guard directoryCache.store(directory, hashTag: hashTag) else {
            return failAppend(slot, RedisError(.foreignValue, "the value is not a directory of Causeway"))
        }
        let entryAppend = appendTable[slot]
        if entryAppend.phase != .lookingUp { counters.arrangedPageCount &+= 1 }
        if entryAppend.phase == .arrangingAfterReply { return appendTable.remove(slot) }
        appendTable[slot].directoryCount += 1
        guard entryAppend.directoryCount < Self.directoriesMax else {
            return failAppend(slot, RedisError(.busy, "the directory of the member's page has changed too often"))
        }
        let bounds = directoryCache.pageBounds(of: entryAppend.position, hashTag: hashTag)
        if entryAppend.phase == .lookingUp && (bounds == entryAppend.bounds || directory.isEmpty) {
            appendTable[slot].phase = .arranging
            appendTable[slot].bounds = bounds
            failUnlessIssued(slot, issuePageArrangement(slot))
        } else {
            counters.repeatedAppendCount &+= 1
            failUnlessIssued(slot, issueAppend(slot))
        }
    }

    private func issuePageArrangement(_ slot: UInt16) -> IssueOutcome {
        guard let (session, connection) = redis?.audienceSession(for: directoryKey(slot)) else { return .notReady }
        return session.arrangePage(ofAppend: slot, on: connection)
    }

    /// Fails the append if its next step could not be issued. The caller repeats the whole append, because an append
    /// has no queue for steps that wait.
    private func failUnlessIssued(_ slot: UInt16, _ outcome: IssueOutcome) {
        if outcome != .issued {
            failAppend(slot, RedisError(.busy, "the connection takes no call for an append's next step"))
        }
    }

    func failAppend(_ slot: UInt16, _ error: RedisError) {
        let entryAppend = appendTable[slot]
        appendTable.remove(slot)
        if entryAppend.phase != .arrangingAfterReply { handler?.audienceCallFailed(tag: entryAppend.tag, error: error) }
    }

    private func reportAppended(_ slot: UInt16) {
        let tag = appendTable[slot].tag
        appendTable.remove(slot)
        handler?.audienceStoreReplied(tag: tag, AudienceReply(.appended))
    }

    // MARK: - Keys

    private func directoryKey(_ slot: UInt16) -> UnsafeRawBufferPointer {
        let hashTag = appendTable.hashTag(slot)
        keyBuffer.copyMemory(from: hashTag)
        keyBuffer[hashTag.count] = AudienceStoreKey.directoryLetter
        return UnsafeRawBufferPointer(rebasing: keyBuffer[...hashTag.count])
    }

    private func pageKey(_ slot: UInt16) -> UnsafeRawBufferPointer {
        let hashTag = appendTable.hashTag(slot)
        keyBuffer.copyMemory(from: hashTag)
        let suffix = AudienceStoreKey.pageSuffix(appendTable[slot].bounds.lower)
        for index in suffix.indices { keyBuffer[hashTag.count + index] = suffix[index] }
        return UnsafeRawBufferPointer(rebasing: keyBuffer[..<(hashTag.count + AudienceStoreKey.pageSuffixBytes)])
    }
}

/// The outcome of the script `append` for one entry. The raw values are the script's replies.
enum AppendOutcome: Int64 {
    case refused
    case added
    case addedNeedsArranging
}
