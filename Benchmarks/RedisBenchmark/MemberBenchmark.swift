import ActivityStore
import Glibc
import LiveActivity
import Reactor
import Redis

/// Adds members to an audience and reads all of them, with one store, as a lane does.
final class MemberBenchmark: AudienceStoreHandler {
    /// The maximum number of requested pages whose replies are still missing.
    private static let pagesInProgressMax = 8

    /// What an audience costs. The times are CPU time for each member: Redis' time for a join and for reading, and
    /// this process's own time for reading (`clientReadMicroseconds`). The read times include the directories of pages.
    /// This process's time also includes the search for members on their pages.
    struct Figures {
        var joinMicroseconds: Double
        var readMicroseconds: Double
        var clientReadMicroseconds: Double
        var bytesPerMember: Double
        var pageCount: Int
        var readMemberCount: Int
    }

    private let server: RedisServerProcess
    private let loop: EventLoop
    private var store: AudienceStore?
    private var audience = AudienceDigest(value: 0)
    private var joinedCount = 0
    private var failure: RedisError?
    /// For each segment of the audience, the lower bounds of its pages. The segment's directory in Redis lists them.
    private var directories: [[UInt32]] = []
    private var readPageCount = 0
    private var readMemberCount = 0
    private let scratch = UnsafeMutableBufferPointer<MemberReference>.allocate(capacity: MemberPage.membersMax)

    /// Connects a store to the server.
    ///
    /// - Parameter callsPerCommandMax: the maximum number of calls in one Redis command; in a cluster it is 1.
    init(
        server: RedisServerProcess,
        over transport: RedisServerProcess.Transport,
        callsPerCommandMax: Int = RedisConnection.callsPerCommandMax
    ) throws {
        self.server = server
        loop = try EventLoop()
        var configuration = try RedisConfiguration(url: RedisURL(server.url(transport)))
        configuration.callsPerCommandMax = callsPerCommandMax
        // Longer than a worker would wait, because the machine may be busy with other work.
        configuration.replyDeadlineMilliseconds = 120_000
        let store = AudienceStore(loop: loop, configuration: configuration, handler: self)
        self.store = store
        store.connect()
        while !store.isReady && failure == nil { loop.runIteration(waitMilliseconds: 100) }
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
        let memoryBytesBefore = server.usedMemoryBytes
        var processorSecondsBefore = server.processorSeconds
        try join(members)
        let joinSeconds = server.processorSeconds - processorSecondsBefore
        let bytesPerMember = Double(server.usedMemoryBytes - memoryBytesBefore) / Double(members)
        processorSecondsBefore = server.processorSeconds
        let clientProcessorSecondsBefore = Self.clientProcessorSeconds
        try readDirectories()
        try readPages()
        let microsecondsPerMember = 1_000_000 / Double(members)
        return Figures(
            joinMicroseconds: joinSeconds * microsecondsPerMember,
            readMicroseconds: (server.processorSeconds - processorSecondsBefore) * microsecondsPerMember,
            clientReadMicroseconds: (Self.clientProcessorSeconds - clientProcessorSecondsBefore)
                * microsecondsPerMember,
            bytesPerMember: bytesPerMember,
            pageCount: readPageCount,
            readMemberCount: readMemberCount
        )
    }

    private static var clientProcessorSeconds: Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    // MARK: - Joining

    private func join(_ members: Int) throws {
        joinedCount = 0
        var issuedCount = 0
        while joinedCount < members {
            var isFull = false
            while issuedCount < members && !isFull {
                isFull = try !issue(
                    .append(Crowd.entry(issuedCount, atMilliseconds: loop.wallMilliseconds)),
                    &issuedCount
                )
            }
            try runIteration()
        }
        // The store itself compacts and splits pages. That work is part of the cost of joining.
        while let store, store.outstandingCallCount > 0 { try runIteration() }
    }

    private func issue(_ operation: AudienceCall<[UInt8]>.Operation, _ issuedCount: inout Int) throws -> Bool {
        let call = AudienceCall(tag: UInt64(issuedCount), app: Crowd.app, audience: audience, operation: operation)
        switch call.withBorrowedBytes({ store?.issue($0) }) {
        case .issued?:
            issuedCount += 1
            return true
        case .full?:
            return false
        case let issue:
            throw RedisServerProcess.Failure(description: "a call cannot be made: \(String(describing: issue))")
        }
    }

    private func runIteration() throws {
        loop.runIteration(waitMilliseconds: 100)
        if let failure { throw failure }
    }

    // MARK: - Reading

    private func readDirectories() throws {
        directories = []
        var issuedCount = 0
        while directories.count < MemberLocation.segmentCount {
            while issuedCount < MemberLocation.segmentCount,
                try issue(.readDirectory(segment: UInt8(issuedCount)), &issuedCount)
            {}
            try runIteration()
        }
    }

    private func readPages() throws {
        readPageCount = 0
        readMemberCount = 0
        let pages = directories.enumerated().flatMap { segment, bounds in bounds.map { (UInt8(segment), $0) } }
        var issuedCount = 0
        while readPageCount < pages.count {
            while issuedCount < pages.count, issuedCount - readPageCount < Self.pagesInProgressMax {
                let (segment, bound) = pages[issuedCount]
                guard try issue(.readPage(segment: segment, lowerBound: bound), &issuedCount) else { break }
            }
            try runIteration()
        }
    }

    // MARK: - Replies of Redis

    func audienceStoreReady() {}
    func audienceStoreDisconnected(_ reason: RedisError) { failure = reason }
    func audienceCallFailed(tag: UInt64, error: RedisError) { failure = failure ?? error }

    func audienceStoreReplied(tag: UInt64, _ reply: AudienceReply<UnsafeRawBufferPointer>) {
        guard let bytes = reply.bytes else {
            joinedCount += 1
            return
        }
        if reply.verdict == .directory {
            directories.append(
                stride(from: 0, to: bytes.count, by: 4).map { bytes.loadUnaligned(fromByteOffset: $0, as: UInt32.self) }
            )
        } else {
            readPageCount += 1
            readMemberCount +=
                MemberPage(bytes)?.members(into: scratch, nowMilliseconds: loop.wallMilliseconds).count ?? 0
        }
    }
}
