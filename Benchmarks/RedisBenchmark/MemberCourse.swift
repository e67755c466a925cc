import ActivityStore
import Glibc
import LiveActivity
import Reactor
import Redis

/// Adds members to an audience and reads all of them, with one store, as a lane does.
final class MemberCourse: AudienceStoreHandler {
    /// The most pages that are requested at one time.
    private static let pagesUnderWay = 8

    /// The CPU time for each member: Redis' time for a join and for reading, and this process's own time for
    /// reading. Reading includes the directories, and in this process the search for members on their pages.
    struct Figures {
        var joinMicroseconds: Double
        var readMicroseconds: Double
        var ownReadMicroseconds: Double
        var bytes: Double
        var pages: Int
        var membersRead: Int
    }

    private let server: RedisServerProcess
    private let loop: EventLoop
    private var store: AudienceStore?
    private var audience = AudienceDigest(value: 0)
    private var joined = 0
    private var failure: RedisError?
    /// The page numbers of each segment, from its directory.
    private var directories: [[UInt32]] = []
    private var pagesRead = 0
    private var membersRead = 0
    private let scratch = UnsafeMutableBufferPointer<MemberReference>.allocate(capacity: MemberPage.membersMax)

    /// Connects a store to the server.
    ///
    /// - Parameter callsPerCommandMax: the most calls in one Redis command; in a cluster it is 1.
    init(
        server: RedisServerProcess,
        over transport: RedisServerProcess.Transport,
        callsPerCommandMax: Int = StoreLimits.callsPerCommandMax
    ) throws {
        self.server = server
        loop = try EventLoop()
        var configuration = try RedisConfiguration(url: RedisURL(server.url(transport)))
        configuration.callsPerCommandMax = callsPerCommandMax
        // Longer than a worker would wait, because the machine may be busy with other work.
        configuration.responseDeadlineMilliseconds = 120_000
        let store = AudienceStore(loop: loop, configuration: configuration, handler: self)
        self.store = store
        store.connect()
        while !store.isReady && failure == nil { loop.turn(waitMilliseconds: 100) }
        if let failure { throw failure }
    }

    deinit {
        scratch.deallocate()
    }

    func close() { store?.close() }

    /// Measures an audience: its members join, and then all of them are read.
    ///
    /// - Parameter number: a number that makes the audience different from others.
    func measure(members: Int, audience number: Int) throws -> Figures {
        audience = AudienceDigest(value: UInt64(number) &* 0x9E37_79B9_7F4A_7C15)
        let memoryBefore = server.usedMemoryBytes
        var before = server.processorSeconds
        try join(members)
        let joinSeconds = server.processorSeconds - before
        let bytes = Double(server.usedMemoryBytes - memoryBefore) / Double(members)
        before = server.processorSeconds
        let ownBefore = Self.ownSeconds
        try readDirectories()
        try readPages()
        let perMember = 1_000_000 / Double(members)
        return Figures(
            joinMicroseconds: joinSeconds * perMember,
            readMicroseconds: (server.processorSeconds - before) * perMember,
            ownReadMicroseconds: (Self.ownSeconds - ownBefore) * perMember,
            bytes: bytes,
            pages: pagesRead,
            membersRead: membersRead
        )
    }

    private static var ownSeconds: Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    // MARK: - Joining

    private func join(_ members: Int) throws {
        joined = 0
        var issued = 0
        while joined < members {
            var isFull = false
            while issued < members && !isFull {
                isFull = try !issue(.append(Crowd.entry(issued, atMilliseconds: loop.wallMilliseconds)), &issued)
            }
            try turn()
        }
        // The store itself compacts and splits pages. That work is part of the cost of joining.
        while let store, store.outstandingCount > 0 { try turn() }
    }

    private func issue(_ operation: AudienceCall<[UInt8]>.Operation, _ issued: inout Int) throws -> Bool {
        let call = AudienceCall(tag: UInt64(issued), app: Crowd.app, audience: audience, operation: operation)
        switch call.withBorrowedBytes({ store?.issue($0) }) {
        case .issued?:
            issued += 1
            return true
        case .full?:
            return false
        case let issue:
            throw RedisServerProcess.Failure(description: "a call cannot be made: \(String(describing: issue))")
        }
    }

    private func turn() throws {
        loop.turn(waitMilliseconds: 100)
        if let failure { throw failure }
    }

    // MARK: - Reading

    private func readDirectories() throws {
        directories = []
        var issued = 0
        while directories.count < MemberLocation.segmentCount {
            while issued < MemberLocation.segmentCount, try issue(.directory(segment: UInt8(issued)), &issued) {}
            try turn()
        }
    }

    private func readPages() throws {
        pagesRead = 0
        membersRead = 0
        let pages = directories.enumerated().flatMap { segment, bounds in bounds.map { (UInt8(segment), $0) } }
        var issued = 0
        while pagesRead < pages.count {
            while issued < pages.count, issued - pagesRead < Self.pagesUnderWay {
                let (segment, bound) = pages[issued]
                guard try issue(.page(segment: segment, lowerBound: bound), &issued) else { break }
            }
            try turn()
        }
    }

    // MARK: - Replies of Redis

    func audienceStoreReady() {}
    func audienceStoreLost(_ reason: RedisError) { failure = reason }
    func audienceFailed(tag: UInt64, error: RedisError) { failure = failure ?? error }

    func audienceReplied(tag: UInt64, _ reply: AudienceReply<UnsafeRawBufferPointer>) {
        guard let bytes = reply.bytes else {
            joined += 1
            return
        }
        if reply.verdict == .pages {
            directories.append(
                stride(from: 0, to: bytes.count, by: 4).map { bytes.loadUnaligned(fromByteOffset: $0, as: UInt32.self) }
            )
        } else {
            pagesRead += 1
            membersRead += MemberPage(bytes)?.members(into: scratch).count ?? 0
        }
    }
}
