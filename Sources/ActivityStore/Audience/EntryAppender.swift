import LiveActivity
import Redis

/// Adds the entry of a member that joins or leaves to the member's page. This work is called an append. Its caller
/// makes one call and gets one reply, but an append may need several steps:
///
/// 1. The lane sends the entry to the page that its cached directory names. (A directory lists the pages of one
///    segment.) Without a cached directory, the lane sends the entry to the segment's first page; a small segment has
///    no other.
/// 2. The page refuses the entry if the page is missing or full, or does not have the member's position. Then the lane
///    reads the segment's directory from Redis.
/// 3. If the directory names another page, the lane sends the entry to that page. Otherwise the script `arrange` makes
///    or rearranges the page, and then the lane sends the entry again.
/// 4. After the entry was added, the page may be too long, or its expiry may have to be renewed. The caller gets its
///    reply first. Then the lane calls `arrange`, unless this script is already running for the page.
final class EntryAppender: RedisHandler {
    /// How many directories an append may receive before it fails. Normally it receives fewer, even if many members
    /// join one page at the same time. The limit ends an append whose entry is refused again and again, although
    /// `arrange` has run.
    private static let receivedDirectoriesMax: UInt8 = 8

    private(set) weak var handler: (any AudienceStoreHandler)?
    /// The client of the audience store. The reference is weak, because the client's sessions refer to this object.
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
    func redisDisconnected(_ reason: RedisError) { handler?.audienceStoreDisconnected(reason) }
    /// Ignores the warning, because the activity store's connections to the same servers report it too.
    func redisWarned(_ warning: RedisWarning) {}

    // MARK: - Steps

    /// Begins to add an entry to the member's page. If the result is `issued`, the handler later gets exactly one reply
    /// or failure with this tag.
    func beginAppend(
        tag: UInt64,
        app: UnsafeRawBufferPointer,
        _ audience: AudienceDigest,
        _ entry: MemberEntry<UnsafeRawBufferPointer>
    ) -> IssueResult {
        switch appendTable.insert(tag: tag, app: app, audience, entry) {
        case .full: return .full
        case .outOfBounds: return .outOfBounds
        case .inserted(let appendIndex):
            let issueResult = issueAppend(appendIndex)
            if issueResult != .issued { appendTable.free(appendIndex) }
            return issueResult
        }
    }

    private func issueAppend(_ appendIndex: UInt16) -> IssueResult {
        appendTable[appendIndex].phase = .appending
        appendTable[appendIndex].bounds = directoryCache.pageBounds(
            of: appendTable[appendIndex].position,
            hashTag: appendTable.hashTag(appendIndex)
        )
        guard let (session, connection) = redis?.audienceSessionAndConnection(for: pageKey(appendIndex)) else {
            return .notReady
        }
        return session.collectEntry(appendIndex, on: connection)
    }

    /// Continues an append after the reply of the script `append`: reports an added entry to the handler, and makes the
    /// call of the next step if there is one.
    func continueAppend(_ appendIndex: UInt16, after result: EntryAppendResult) {
        switch result {
        case .refused:
            appendTable[appendIndex].phase = .readingDirectory
            failAppendUnlessIssued(appendIndex, issueDirectoryRead(appendIndex))
        case .added:
            reportAppended(appendIndex)
        case .addedNeedsArranging:
            // The handler gets the reply first, and `arrange` is called after it: the handler may close the store,
            // which fails all calls under way, but this append must not fail once it has its reply. In the phase
            // `arrangingAfterReply`, `failAppend` does not tell the handler.
            let isBeingArranged = appendTable.isArranging(pageOf: appendIndex)
            appendTable[appendIndex].phase = .arrangingAfterReply
            handler?.audienceStoreReplied(tag: appendTable[appendIndex].tag, AudienceReply(.appended))
            if isBeingArranged || issuePageArrangement(appendIndex) != .issued { appendTable.free(appendIndex) }
        }
    }

    private func issueDirectoryRead(_ appendIndex: UInt16) -> IssueResult {
        let key = directoryKey(appendIndex)
        guard let (session, connection) = redis?.audienceSessionAndConnection(for: key) else { return .notReady }
        let call = AudienceSessionCall(tag: 0, kind: .readDirectoryForAppend, appendIndex: appendIndex)
        return session.issueGet(key, call, on: connection)
    }

    /// Receives the directory of the member's segment, from the call that reads it or from the script `arrange`, and
    /// caches it. Then does one of these:
    /// - Fails the append if the value is no directory, or if the append has received too many directories.
    /// - Ends the append if its caller already has the reply (`arrangingAfterReply`).
    /// - Otherwise makes the call of the append's next step.
    func receiveDirectory(_ directory: UnsafeRawBufferPointer, _ appendIndex: UInt16) {
        let hashTag = appendTable.hashTag(appendIndex)
        guard directoryCache.cacheDirectory(directory, hashTag: hashTag) else {
            return failAppend(appendIndex, RedisError(.foreignValue, "the value is not a directory of Causeway"))
        }
        let entryAppend = appendTable[appendIndex]
        if entryAppend.phase != .readingDirectory { counters.arrangedPageCount &+= 1 }
        if entryAppend.phase == .arrangingAfterReply { return appendTable.free(appendIndex) }
        appendTable[appendIndex].receivedDirectoryCount += 1
        guard entryAppend.receivedDirectoryCount < Self.receivedDirectoriesMax else {
            return failAppend(
                appendIndex,
                RedisError(.busy, "the directory of the member's page has changed too often")
            )
        }
        let bounds = directoryCache.pageBounds(of: entryAppend.position, hashTag: hashTag)
        let isSamePageOrNone = bounds == entryAppend.bounds || directory.isEmpty
        if entryAppend.phase == .readingDirectory && isSamePageOrNone {
            appendTable[appendIndex].phase = .arranging
            appendTable[appendIndex].bounds = bounds
            failAppendUnlessIssued(appendIndex, issuePageArrangement(appendIndex))
        } else {
            counters.repeatedAppendCount &+= 1
            failAppendUnlessIssued(appendIndex, issueAppend(appendIndex))
        }
    }

    private func issuePageArrangement(_ appendIndex: UInt16) -> IssueResult {
        guard let (session, connection) = redis?.audienceSessionAndConnection(for: directoryKey(appendIndex)) else {
            return .notReady
        }
        return session.arrangePage(ofAppend: appendIndex, on: connection)
    }

    /// Fails the whole append if the connection did not accept the call of the next step, because there is no queue in
    /// which this call could wait. The core then begins the append again.
    private func failAppendUnlessIssued(_ appendIndex: UInt16, _ issueResult: IssueResult) {
        if issueResult != .issued {
            failAppend(appendIndex, RedisError(.busy, "the connection takes no call for an append's next step"))
        }
    }

    /// Ends an append, because one of its steps has failed. Reports the failure, unless the append's caller already has
    /// a reply (`arrangingAfterReply`).
    func failAppend(_ appendIndex: UInt16, _ error: RedisError) {
        let entryAppend = appendTable[appendIndex]
        appendTable.free(appendIndex)
        if entryAppend.phase != .arrangingAfterReply { handler?.audienceCallFailed(tag: entryAppend.tag, error: error) }
    }

    private func reportAppended(_ appendIndex: UInt16) {
        let tag = appendTable[appendIndex].tag
        appendTable.free(appendIndex)
        handler?.audienceStoreReplied(tag: tag, AudienceReply(.appended))
    }

    // MARK: - Keys

    /// Returns the key of the directory of the entry's segment. The bytes are valid until the next key is made.
    private func directoryKey(_ appendIndex: UInt16) -> UnsafeRawBufferPointer {
        let hashTag = appendTable.hashTag(appendIndex)
        keyBuffer.copyMemory(from: hashTag)
        keyBuffer[hashTag.count] = AudienceStoreKey.directoryLetter
        return UnsafeRawBufferPointer(rebasing: keyBuffer[...hashTag.count])
    }

    /// Returns the key of the entry's page. The bytes are valid until the next key is made.
    private func pageKey(_ appendIndex: UInt16) -> UnsafeRawBufferPointer {
        let hashTag = appendTable.hashTag(appendIndex)
        keyBuffer.copyMemory(from: hashTag)
        let suffix = AudienceStoreKey.pageSuffix(appendTable[appendIndex].bounds.lowerBound)
        for index in suffix.indices { keyBuffer[hashTag.count + index] = suffix[index] }
        return UnsafeRawBufferPointer(rebasing: keyBuffer[..<(hashTag.count + AudienceStoreKey.pageSuffixBytes)])
    }
}

/// What the script `append` did with one entry. The raw values are the numbers in the script's reply.
enum EntryAppendResult: Int64 {
    case refused
    case added
    /// The entry was added, and its page must be arranged: it is too long, its expiry must be renewed, or it has its
    /// first device.
    case addedNeedsArranging
}
