import LiveActivity
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// Audiences in real clusters: where their keys are, while slots move, and after a failover.
@Suite(.serialized, .ownThread) struct AudienceClusterTests {
    @Test func `The keys of a segment are in one hash slot, and segments are spread, for every digest`() {
        let app = Array("com.example.match".utf8)
        var buffer = [UInt8](repeating: 0, count: AudienceStoreKey.bytesMax)
        // Some digests have the bytes of `{` and `}`, which begin and end a hash tag.
        for digest: UInt64 in [0, .max, 0x7B7B_7B7B_7B7B_7B7B, 0x7D7D_7D7D_7D7D_7D7D, 0x007B_7D00_7D7B_0102] {
            var slots: Set<Int> = []
            for segment in 0..<MemberLocation.segmentCount {
                let count = app.withUnsafeBytes { app in
                    buffer.withUnsafeMutableBytes {
                        AudienceStoreKey.write(app: app, AudienceDigest(value: digest), segment: UInt8(segment), to: $0)
                    }
                }
                let tag = Array(buffer[..<(count ?? 0)])
                let bounds: [UInt32] = [0, 1, 0x7B7D_7B7D, .max]
                let keys =
                    [tag + [AudienceStoreKey.directoryLetter]]
                    + bounds.map { bound in
                        let suffix = AudienceStoreKey.pageSuffix(bound)
                        return tag + suffix.indices.map { suffix[$0] }
                    }
                let segmentSlots = Set(keys.map { key in key.withUnsafeBytes { KeyHashSlot.hashSlot(of: $0) } })
                #expect(segmentSlots.count == 1)
                slots.formUnion(segmentSlots)
            }
            // Some segments share a slot by chance, so there are fewer slots than segments.
            #expect(slots.count > 200)
        }
    }

    @Test func `Members join while every slot moves, and none is lost`() throws {
        let cluster = try ClusterProcesses(primaryCount: 3, hasReplicas: false)
        var configuration = RedisConfiguration(url: try RedisURL(cluster.url), topology: .cluster)
        configuration.replyDeadlineMilliseconds = 20_000
        let caller = try AudienceCaller(configuration)
        #expect(caller.runLoop { caller.store.isReady })
        caller.joinMore(2_000)
        #expect(caller.runLoop { caller.waitingCallCount == 0 })

        var resharding = try Resharding(cluster)
        while resharding.step() {
            if caller.waitingCallCount < 500 { caller.joinMore(100) }
            caller.step(waitMilliseconds: 0)
        }
        #expect(caller.runLoop { caller.waitingCallCount == 0 })
        #expect(caller.joinedMembers.count > 6_000)
        #expect(caller.repeatedFailureCounts[.moved] ?? 0 > 0 && caller.repeatedFailureCounts[.ask] ?? 0 > 0)
        #expect(
            Set(caller.repeatedFailureCounts.keys).isSubset(of: [.moved, .ask, .tryAgain, .busy]),
            "\(caller.repeatedFailureCounts)"
        )
        #expect(try caller.members() == caller.joinedMembers)
    }

    @Test func `A failover loses the last writes: members join again, and a range is claimed again`() throws {
        let cluster = try ClusterProcesses(primaryCount: 3, hasReplicas: true)
        var configuration = RedisConfiguration(url: try RedisURL(cluster.url), topology: .cluster)
        configuration.replyDeadlineMilliseconds = 20_000
        let caller = try AudienceCaller(configuration)
        let range = try #require(SegmentRange(index: 0, rangeCount: 1))
        #expect(caller.runLoop { caller.store.isReady })
        caller.joinMore(1_500)
        #expect(caller.runLoop { caller.waitingCallCount == 0 })
        #expect(try caller.ask(.claim(range, claim: 1)).verdict == .claimed)
        #expect(try caller.ask(.checkpoint(range, claim: 1, text: [1])).verdict == .settled)
        try cluster.finishReplication()

        let index = try #require(
            (0..<3).first { ClusterProcesses.slots(of: $0, among: 3).contains(AudienceCaller.slot(ofSegment: nil)) }
        )
        // The writes that follow do not reach the replica.
        cluster.replicas[index].suspend()
        cluster.primaries[index].command("CLIENT", "KILL", "TYPE", "replica")
        caller.joinMore(1_500)
        #expect(caller.runLoop { caller.waitingCallCount == 0 })
        #expect(try caller.ask(.claim(range, claim: 2)).bytes == [1])
        #expect(try caller.ask(.checkpoint(range, claim: 2, text: [2])).verdict == .settled)
        let membersBeforeFailover = try caller.members()
        #expect(membersBeforeFailover == caller.joinedMembers)
        cluster.primaries[index].kill()
        cluster.replicas[index].resume()

        let remainingMembers = try caller.members()
        let lostMembers = membersBeforeFailover.subtracting(remainingMembers)
        #expect(remainingMembers.isSubset(of: membersBeforeFailover) && (1..<1_500).contains(lostMembers.count))
        let slots = ClusterProcesses.slots(of: index, among: 3)
        #expect(lostMembers.allSatisfy { slots.contains(AudienceCaller.slot(ofMember: $0)) })
        // The new primary has lost the second claim and still has the first one. So it refuses the checkpoint of the
        // second claim.
        #expect(try caller.ask(.checkpoint(range, claim: 2, text: [3])).verdict == .claimedByAnother)
        #expect(try caller.ask(.claim(range, claim: 2)).bytes == [1])
        #expect(try caller.ask(.checkpoint(range, claim: 2, text: [3])).verdict == .settled)
        #expect(try caller.ask(.checkpoint(range, claim: 1, text: [4])).verdict == .claimedByAnother)
        // Joins the lost members again, as when their registrations are read again.
        caller.join(lostMembers)
        #expect(caller.runLoop { caller.waitingCallCount == 0 })
        #expect(try caller.members() == membersBeforeFailover)
    }

    @Test func `Every slot moves between two calls: pages, claims and counts are unchanged`() throws {
        let cluster = try ClusterProcesses(primaryCount: 3, hasReplicas: false)
        var configuration = RedisConfiguration(url: try RedisURL(cluster.url), topology: .cluster)
        configuration.replyDeadlineMilliseconds = 20_000
        let caller = try AudienceCaller(configuration)
        let ranges = try (0..<2).map { try #require(SegmentRange(index: $0, rangeCount: 2)) }
        let version = Version(timestamp: 1_790_000_000, sequence: 0)
        var counts = MemberOutcomeCounts()
        counts[.delivered] = 7
        #expect(caller.runLoop { caller.store.isReady })
        caller.joinMore(2_000)
        #expect(caller.runLoop { caller.waitingCallCount == 0 })
        _ = try caller.ask(.claim(ranges[0], claim: 1))
        #expect(
            try caller.ask(.finishRange(ranges[1], version: version, counts, ResponseTimes())).unfinishedPartCount == 1
        )
        let directory = try caller.ask(.readDirectory(segment: 3)).bytes
        let page = try caller.ask(.readPage(segment: 3, lowerBound: 0)).bytes
        #expect(page?.isEmpty == false)

        var resharding = try Resharding(cluster)
        while resharding.step() {}
        #expect(try caller.ask(.readPage(segment: 3, lowerBound: 0)).bytes == page)
        #expect(try caller.ask(.readDirectory(segment: 3)).bytes == directory)
        #expect(try caller.ask(.checkpoint(ranges[0], claim: 1, text: [5])).verdict == .settled)
        #expect(try caller.ask(.claim(ranges[0], claim: 2)).bytes == [5])
        let finishReply = try caller.ask(.finishRange(ranges[0], version: version, counts, ResponseTimes()))
        #expect(finishReply.totals?[.delivered] == 14)
        #expect(caller.repeatedFailureCounts[.moved] ?? 0 > 0)
        caller.joinMore(500)
        #expect(caller.runLoop { caller.waitingCallCount == 0 })
        #expect(try caller.members() == caller.joinedMembers)
    }
}

/// Acts as a lane whose members join one audience. It repeats calls that failed temporarily.
private final class AudienceCaller: AudienceStoreHandler {
    private static let app = Array("com.example.match".utf8)
    private static let audience = AudienceDigest(value: 0x7D00_0102_0304_0506)

    let loop: EventLoop
    private let configuration: RedisConfiguration
    private(set) lazy var store = AudienceStore(loop: loop, configuration: configuration, handler: self)
    private(set) var joinedMembers: Set<[UInt8]> = []
    private(set) var repeatedFailureCounts: [RedisError.Code: Int] = [:]
    private var waitingCalls: [AudienceCall<[UInt8]>] = []
    private var callsInFlight: [UInt64: AudienceCall<[UInt8]>] = [:]
    private var lastReply: (tag: UInt64, reply: AudienceReply<[UInt8]>)?
    private var nextTag: UInt64 = 0

    init(_ configuration: RedisConfiguration) throws {
        loop = try EventLoop()
        self.configuration = configuration
        store.connect()
    }

    deinit {
        store.close()
    }

    var waitingCallCount: Int { waitingCalls.count + callsInFlight.count }

    func joinMore(_ count: Int) {
        for _ in 0..<count {
            enqueue(.append(Self.entry(Array("member-\(nextTag)".utf8), nowMilliseconds: loop.wallMilliseconds)))
        }
    }

    func join(_ members: Set<[UInt8]>) {
        for member in members { enqueue(.append(Self.entry(member, nowMilliseconds: loop.wallMilliseconds))) }
    }

    private func enqueue(_ operation: AudienceCall<[UInt8]>.Operation) {
        waitingCalls.append(AudienceCall(tag: nextTag, app: Self.app, audience: Self.audience, operation: operation))
        nextTag += 1
    }

    func step(waitMilliseconds: Int32 = 20) {
        issueWaiting()
        loop.runIteration(waitMilliseconds: waitMilliseconds)
    }

    private func issueWaiting() {
        loop.refreshClock()
        let calls = waitingCalls
        waitingCalls = []
        for call in calls {
            if call.withBorrowedBytes({ store.issue($0) }) == .issued {
                callsInFlight[call.tag] = call
            } else {
                waitingCalls.append(call)
            }
        }
    }

    func runLoop(until condition: () -> Bool) -> Bool {
        loop.run(waitMilliseconds: 20, step: issueWaiting, until: condition)
    }

    /// Returns the ids of the members on all pages.
    func members() throws -> Set<[UInt8]> {
        let scratch = UnsafeMutableBufferPointer<MemberReference>.allocate(capacity: MemberPage.membersMax)
        defer { scratch.deallocate() }
        var members: Set<[UInt8]> = []
        var buffer = [UInt8](repeating: 0, count: Limits.identifierBytesMax)
        for segment in 0..<MemberLocation.segmentCount {
            let directory = try ask(.readDirectory(segment: UInt8(segment))).bytes ?? []
            for offset in stride(from: 0, to: directory.count, by: AudienceStoreKey.lowerBoundByteCount) {
                let bound = UInt32(
                    LittleEndian.read(directory[offset..<(offset + AudienceStoreKey.lowerBoundByteCount)])
                )
                let bytes = try ask(.readPage(segment: UInt8(segment), lowerBound: bound)).bytes ?? []
                try bytes.withUnsafeBytes { bytes in
                    let page = try #require(MemberPage(bytes))
                    let found = page.members(into: scratch, nowMilliseconds: loop.wallMilliseconds)
                    for reference in scratch[..<found.count] {
                        let member = try #require(page[reference])
                        let count = buffer.withUnsafeMutableBytes { member.writeIdentifier(to: $0) }
                        members.insert(Array(buffer[..<count]))
                    }
                }
            }
        }
        return members
    }

    /// Makes a call, repeats it until it gets a reply, and returns the reply.
    func ask(_ operation: AudienceCall<[UInt8]>.Operation) throws -> AudienceReply<[UInt8]> {
        enqueue(operation)
        let tag = nextTag - 1
        _ = runLoop { lastReply?.tag == tag }
        return try #require(lastReply).reply
    }

    // MARK: - Slots

    static func slot(ofMember member: [UInt8]) -> Int {
        slot(ofSegment: member.withUnsafeBytes { MemberLocation(of: $0) }.segment)
    }

    /// - Parameter segment: nil for the slot of the audience's hash.
    static func slot(ofSegment segment: UInt8?) -> Int {
        var buffer = [UInt8](repeating: 0, count: AudienceStoreKey.bytesMax)
        let count = buffer.withUnsafeMutableBytes { buffer in
            app.withUnsafeBytes { AudienceStoreKey.write(app: $0, audience, segment: segment, to: buffer) }
        }
        return buffer[..<(count ?? 0)].withUnsafeBytes { KeyHashSlot.hashSlot(of: $0) }
    }

    // MARK: - Entries and replies

    private static func entry(_ identifier: [UInt8], nowMilliseconds: Int64) -> MemberEntry<[UInt8]> {
        MemberEntry(
            location: identifier.withUnsafeBytes { MemberLocation(of: $0) },
            isLeaving: false,
            kind: .activity,
            environment: .production,
            allowsFrequentUpdates: false,
            changedAtMilliseconds: nowMilliseconds,
            identifier: identifier,
            token: [UInt8](repeating: UInt8(ascii: "a"), count: 160)
        )
    }

    func audienceStoreReplied(tag: UInt64, _ reply: AudienceReply<UnsafeRawBufferPointer>) {
        guard let call = callsInFlight.removeValue(forKey: tag) else {
            preconditionFailure("a call that ended twice")
        }
        if case .append(let entry) = call.operation {
            joinedMembers.insert(entry.identifier)
        } else {
            lastReply = (tag, reply.map { Array($0) })
        }
    }

    func audienceCallFailed(tag: UInt64, error: RedisError) {
        guard let call = callsInFlight.removeValue(forKey: tag) else {
            preconditionFailure("a call that ended twice")
        }
        if error.isRetriable {
            repeatedFailureCounts[error.code, default: 0] += 1
            waitingCalls.append(call)
        } else {
            Issue.record("\(error)")
        }
    }

    func audienceStoreReady() {}
    func audienceStoreDisconnected(_ reason: RedisError) {}
}
