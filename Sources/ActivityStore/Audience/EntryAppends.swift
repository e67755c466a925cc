import LiveActivity
import Redis

/// Adds the entry of each member that joins or leaves to the member's page, in as many steps as the page needs. Such an
/// addition is called an append.
///
/// First, an entry is sent to the page that the cached directory names; if the cache does not have the directory, to
/// the only page of a small segment. A page that does not exist, was split or is full refuses the entry. Then the
/// lane reads the segment's directory from Redis. If the directory names another page, the entry is sent to that
/// page. If it names the same page or is empty, the script `arrange` makes or rearranges the page, and the entry is
/// sent again. The caller sees one call and one reply. If the page of an added entry is too long, or its expiry must
/// be renewed, the lane calls `arrange` after the caller got its reply, unless `arrange` already runs for the page.
final class EntryAppends: RedisHandler {
    /// An entry's call fails if it receives more directories than this, from look-ups and from `arrange`. Normally an
    /// entry needs fewer, even if many members join one page at the same time.
    private static let directoriesMax: UInt8 = 8

    private(set) weak var handler: (any AudienceStoreHandler)?
    /// The client. A weak reference, because the client's sessions hold this object.
    weak var redis: RedisClient?
    private(set) var table = EntryAppendTable()
    private var directories = DirectoryCache()
    private(set) var counters = AudienceStoreCounters()
    private let key = UnsafeMutableRawBufferPointer.allocate(byteCount: AudienceStoreKey.bytesMax, alignment: 8)

    init(handler: any AudienceStoreHandler) { self.handler = handler }

    deinit {
        key.deallocate()
    }

    func redisReady() { handler?.audienceStoreReady() }
    func redisLost(_ reason: RedisError) { handler?.audienceStoreLost(reason) }
    /// Ignores the warning: the activity store's connections to the same servers report it too.
    func redisWarns(_ warning: RedisWarning) {}

    // MARK: - Steps

    func begin(
        tag: UInt64,
        app: UnsafeRawBufferPointer,
        _ audience: AudienceDigest,
        _ entry: MemberEntry<UnsafeRawBufferPointer>
    ) -> IssueOutcome {
        switch table.insert(tag: tag, app: app, audience, entry) {
        case .full: return .full
        case .outOfBounds: return .outOfBounds
        case .inserted(let slot):
            let issue = append(slot)
            if issue != .issued { table.remove(slot) }
            return issue
        }
    }

    private func append(_ slot: UInt16) -> IssueOutcome {
        table[slot].stage = .appending
        table[slot].bounds = directories.page(of: table[slot].position, hashTag: table.hashTag(slot))
        guard let (session, connection) = redis?.audienceSession(for: pageKey(slot)) else { return .notReady }
        return session.collectEntry(slot, on: connection)
    }

    /// Handles the outcome of the script `append` for an entry.
    func entryAppended(_ slot: UInt16, _ outcome: AppendOutcome) {
        switch outcome {
        case .refused:
            table[slot].stage = .lookingUp
            failUnlessIssued(slot, lookUp(slot))
        case .added:
            reportAppended(slot)
        case .addedToBeArranged:
            // The handler may close the store, which fails all outstanding calls. This append has no
            // outstanding call until `arrange` is called, so it is not reported a second time.
            let isBeingArranged = table.isArranging(pageOf: slot)
            table[slot].stage = .arrangingAfterwards
            handler?.audienceReplied(tag: table[slot].tag, AudienceReply(.appended))
            if isBeingArranged || arrange(slot) != .issued { table.remove(slot) }
        }
    }

    private func lookUp(_ slot: UInt16) -> IssueOutcome {
        let key = directoryKey(slot)
        guard let (session, connection) = redis?.audienceSession(for: key) else { return .notReady }
        return session.get(key, AudienceSessionCall(tag: 0, kind: .lookUp, appendSlot: slot), on: connection)
    }

    /// Handles the directory of the append's segment, from a look-up or from `arrange`.
    func directoryReceived(_ directory: UnsafeRawBufferPointer, _ slot: UInt16) {
        let hashTag = table.hashTag(slot)
        guard directories.store(directory, hashTag: hashTag) else {
            return appendFailed(slot, RedisError(.foreignValue, "the value is not a directory of Causeway"))
        }
        let slotContent = table[slot]
        if slotContent.stage != .lookingUp { counters.pagesArranged &+= 1 }
        if slotContent.stage == .arrangingAfterwards { return table.remove(slot) }
        table[slot].directoryCount += 1
        guard slotContent.directoryCount < Self.directoriesMax else {
            return appendFailed(slot, RedisError(.busy, "the directory of the member's page has changed too often"))
        }
        let bounds = directories.page(of: slotContent.position, hashTag: hashTag)
        if slotContent.stage == .lookingUp && (bounds == slotContent.bounds || directory.isEmpty) {
            table[slot].stage = .arranging
            table[slot].bounds = bounds
            failUnlessIssued(slot, arrange(slot))
        } else {
            counters.appendsRepeated &+= 1
            failUnlessIssued(slot, append(slot))
        }
    }

    private func arrange(_ slot: UInt16) -> IssueOutcome {
        guard let (session, connection) = redis?.audienceSession(for: directoryKey(slot)) else { return .notReady }
        return session.arrange(slot, on: connection)
    }

    /// Fails the append if its next step could not be issued. The caller repeats the append.
    private func failUnlessIssued(_ slot: UInt16, _ issue: IssueOutcome) {
        if issue != .issued {
            appendFailed(slot, RedisError(.busy, "the connection takes no call for an append's next step"))
        }
    }

    func appendFailed(_ slot: UInt16, _ error: RedisError) {
        let slotContent = table[slot]
        table.remove(slot)
        if slotContent.stage != .arrangingAfterwards { handler?.audienceFailed(tag: slotContent.tag, error: error) }
    }

    private func reportAppended(_ slot: UInt16) {
        let tag = table[slot].tag
        table.remove(slot)
        handler?.audienceReplied(tag: tag, AudienceReply(.appended))
    }

    // MARK: - Keys

    private func directoryKey(_ slot: UInt16) -> UnsafeRawBufferPointer {
        let hashTag = table.hashTag(slot)
        key.copyMemory(from: hashTag)
        key[hashTag.count] = AudienceStoreKey.directoryLetter
        return UnsafeRawBufferPointer(rebasing: key[...hashTag.count])
    }

    private func pageKey(_ slot: UInt16) -> UnsafeRawBufferPointer {
        let hashTag = table.hashTag(slot)
        key.copyMemory(from: hashTag)
        let suffix = AudienceStoreKey.pageSuffix(table[slot].bounds.lower)
        for index in suffix.indices { key[hashTag.count + index] = suffix[index] }
        return UnsafeRawBufferPointer(rebasing: key[..<(hashTag.count + AudienceStoreKey.pageSuffixBytes)])
    }
}

/// The outcome of the script `append` for one entry. The raw values are the script's replies.
enum AppendOutcome: Int64 {
    case refused
    case added
    case addedToBeArranged
}
