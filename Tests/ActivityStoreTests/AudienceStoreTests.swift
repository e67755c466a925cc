import LiveActivity
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// Members join on a real server, while pages are split, full, missing or damaged.
@Suite(.serialized, .ownThread) struct AudienceStoreTests {
    @Test func `Lanes that know different pages put each member on the right one`() throws {
        let server = try RedisServer()
        let callers = try [AudienceCaller(server), AudienceCaller(server)]
        let nowMilliseconds = callers[0].loop.wallMilliseconds
        var expected: [[UInt8]: [UInt8]] = [:]
        for round in 0..<6 {
            for (index, caller) in callers.enumerated() {
                // The second lane joins members after the first lane has split a page that both lanes have in
                // their caches.
                let entries = AudienceScene.entries(
                    (round * 300)..<(round * 300 + 300),
                    seed: UInt64(index + 1),
                    at: nowMilliseconds + Int64(index)
                )
                try caller.join(entries)
                expected.merge(AudienceScene.tokens(entries)) { $1 }
                #expect(caller.failures.isEmpty)
            }
        }
        #expect(try callers[0].members() == expected)
    }

    @Test func `A member whose join is acknowledged is on a page, and takes little memory`() throws {
        let server = try RedisServer()
        let caller = try AudienceCaller(server)
        let nowMilliseconds = caller.loop.wallMilliseconds
        let entries = AudienceScene.entries(0..<4_000, at: nowMilliseconds).enumerated()
            .map { index, entry in
                var entry = entry
                entry.identifier = Array("0c6ef1f2-8f5e-4d0d-9e0c-\(100_000_000_000 + index)".utf8)
                entry.location.position = entry.identifier.withUnsafeBytes { MemberLocation(of: $0) }.position
                return entry
            }
        try caller.join(entries)
        #expect(try caller.members() == AudienceScene.tokens(entries))
        let memorySumScript =
            "local sum = 0 for _, key in ipairs(redis.call('KEYS', '*')) do sum = sum + redis.call('MEMORY', 'USAGE', key) end return sum"
        let bytes = try #require(Int(server.command("EVAL", memorySumScript, "0")[0]))
        // The allocators of newer servers round a page's memory up more. A member needed 226 bytes on Redis 7.4 to 8.2
        // and Valkey 8.1, so the limit for these servers is 240 bytes.
        let information: [String] = server.command("INFO", "server")
        let bytesMax = information.contains { $0.contains("redis_version:7.0.") } ? 150 : 240
        #expect(bytes < bytesMax * entries.count, "\(bytes / entries.count) bytes each")
    }

    @Test func `Pages and directories live for 26 hours after a renewal, with devices for 90 days`() throws {
        let server = try RedisServer()
        let caller = try AudienceCaller(server)
        var entry = AudienceScene.entries(0..<1, at: caller.loop.wallMilliseconds)[0]
        func readExpiries() throws -> [Int] {
            try [AudienceScene.firstPageKey, AudienceScene.directoryKey]
                .map { key in
                    try #require(
                        Int(String(decoding: server.command(bytes: [Array("PTTL".utf8), key])[0], as: UTF8.self))
                    )
                }
        }
        /// Expects that both keys expire after this time, or up to 100 s earlier, because the machine may be busy.
        func expectTimeToLive(_ milliseconds: Int) throws {
            for remainingMilliseconds in try readExpiries() {
                #expect((milliseconds - 100_000...milliseconds).contains(remainingMilliseconds))
            }
        }
        let hourMilliseconds = 3_600_000
        _ = try caller.perform(.append(entry))
        try expectTimeToLive(26 * hourMilliseconds)
        entry.kind = .device
        _ = try caller.perform(.append(entry))
        try expectTimeToLive((90 * 24 + 1) * hourMilliseconds)
        // A page with a device lives for 90 days. When an activity joins the page, the page must not expire earlier.
        // The zeros in its header say that its expiry was renewed long ago, so the join renews it.
        server.command(bytes: [Array("SETRANGE".utf8), AudienceScene.firstPageKey, Array("12".utf8), [0, 0, 0, 0]])
        entry.kind = .activity
        _ = try caller.perform(.append(entry))
        try expectTimeToLive((90 * 24 + 1) * hourMilliseconds)
    }

    @Test func `A full page is rearranged before it takes an entry, and a missing page or directory is made`() throws {
        let server = try RedisServer()
        let caller = try AudienceCaller(server)
        let entries = AudienceScene.entries(0..<6, at: caller.loop.wallMilliseconds)
        try caller.join(Array(entries[..<2]))
        server.command(bytes: [
            Array("SETRANGE".utf8), AudienceScene.firstPageKey, Array("1".utf8), [MemberPage.Flag.fullBit],
        ])
        try caller.join([entries[2]])
        #expect(try caller.members() == AudienceScene.tokens(Array(entries[..<3])))
        server.command(bytes: [Array("DEL".utf8), AudienceScene.firstPageKey])
        try caller.join([entries[3]])
        #expect(try caller.members() == AudienceScene.tokens([entries[3]]))
        server.command(bytes: [Array("DEL".utf8), AudienceScene.directoryKey])
        try caller.join([entries[4]])
        server.command("FLUSHALL")
        #expect(try caller.members() == [:])
        try caller.join([entries[5]])
        #expect(try caller.members() == AudienceScene.tokens([entries[5]]))
        #expect(caller.failures.isEmpty)
    }

    /// Former releases stored the times of clocks that are ahead.
    @Test func `A leave counts against a join whose time is a day ahead, also after the page is rearranged`() throws {
        let caller = try AudienceCaller(try RedisServer())
        let dayMilliseconds: Int64 = 86_400_000
        let entries = AudienceScene.entries(0..<600, at: caller.loop.wallMilliseconds)
        var joining = entries[0]
        joining.changedAtMilliseconds += dayMilliseconds
        var leaving = entries[0]
        leaving.isLeaving = true
        leaving.token = []
        try caller.join([joining])
        try caller.join([leaving])
        #expect(try caller.members() == [:])
        // These members make the page so long that it is rearranged. This removes the join, so it does not count again
        // when the clock reaches its time.
        let others = Array(entries[1...])
        try caller.join(others)
        let laterMilliseconds = caller.loop.wallMilliseconds + 2 * dayMilliseconds
        #expect(try caller.members(nowMilliseconds: laterMilliseconds) == AudienceScene.tokens(others))
    }

    @Test func `A page with foreign content refuses the call and stays unchanged`() throws {
        let server = try RedisServer()
        let caller = try AudienceCaller(server)
        let entry = AudienceScene.entries(0..<1, at: 1)[0]
        func expectRefusal() throws {
            let tag = try caller.issue(.append(entry))
            try caller.runLoopUntilIdle()
            #expect(caller.failures[tag] == .foreignValue)
        }
        // These three pages are invalid: one has an unknown format, one is too short for a header, and one must be
        // split and has an invalid entry.
        let header = [MemberPage.Header.formatVersion, 0, 0, 0] + [UInt8](repeating: 0, count: 12)
        let foreignValues: [[UInt8]] = [
            [UInt8](repeating: 7, count: 40), [1, 2, 3],
            [header[0], MemberPage.Flag.fullBit] + header[2...]
                + [UInt8](repeating: 0, count: PageLimits.unarrangedPageBytesMax),
        ]
        try caller.join([entry])
        for value in foreignValues {
            server.command(bytes: [Array("SET".utf8), AudienceScene.firstPageKey, value])
            try expectRefusal()
            #expect(server.command(bytes: [Array("GET".utf8), AudienceScene.firstPageKey]) == [value])
        }
        server.command(bytes: [Array("DEL".utf8), AudienceScene.firstPageKey])
        server.command(bytes: [Array("RPUSH".utf8), AudienceScene.firstPageKey, [1]])
        try expectRefusal()
        // The page's key now holds a list, which is no string. So reading the page fails, and reading the
        // directory still succeeds.
        #expect(try caller.perform(.readDirectory(segment: 0)).bytes == [0, 0, 0, 0])
        let tag = try caller.issue(.readPage(segment: 0, lowerBound: 0))
        try caller.runLoopUntilIdle()
        #expect(caller.failures[tag] == .foreignValue)
    }

    @Test func `A directory with foreign content refuses each join separately and stays unchanged`() throws {
        let server = try RedisServer()
        let caller = try AudienceCaller(server)
        let entry = AudienceScene.entries(0..<1, at: 1)[0]
        // These four directories are invalid: one is cut off, one does not begin at 0, one is not ascending,
        // and one is empty.
        for value: [UInt8] in [[0, 0, 0, 0, 7], [7, 7, 7, 7], [0, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0], []] {
            server.command("FLUSHALL")
            server.command(bytes: [Array("SET".utf8), AudienceScene.directoryKey, value])
            let tags = try (0..<3).map { _ in try caller.issue(.append(entry)) }
            try caller.runLoopUntilIdle()
            for tag in tags { #expect(caller.failures[tag] == .foreignValue, "\(value)") }
            #expect(server.command(bytes: [Array("GET".utf8), AudienceScene.directoryKey]) == [value])
        }
        #expect(caller.lossCodes.isEmpty)
        server.command("FLUSHALL")
        #expect(try caller.perform(.append(entry)).verdict == .appended)
    }

    @Test func `Joins whose server goes away fail once each, and can be repeated`() throws {
        let server = try RedisServer()
        let caller = try AudienceCaller(server)
        let entries = AudienceScene.entries(0..<500, at: caller.loop.wallMilliseconds)
        let tags = try entries.map { try caller.issue(.append($0)) }
        try server.restart()
        #expect(caller.runLoop { tags.allSatisfy { caller.failures[$0] != nil || caller.replies[$0] != nil } })
        #expect(caller.runLoop { caller.store.isReady })
        try caller.join(entries)
        #expect(try caller.members() == AudienceScene.tokens(entries))
    }

    @Test func `An entry that cannot be stored is refused`() throws {
        let caller = try AudienceCaller(try RedisServer())
        let entry = AudienceScene.entries(0..<1, at: 1)[0]
        var longEntry = entry
        longEntry.identifier = [UInt8](repeating: 0x61, count: Limits.identifierBytesMax + 1)
        let range = try #require(SegmentRange(index: 0, rangeCount: 1))
        let text = [UInt8](repeating: 0, count: AudienceLimits.checkpointBytesMax + 1)
        for operation: AudienceCaller.Operation in [
            .append(longEntry), .settle(version: Version(timestamp: -1, sequence: 0)),
            .checkpoint(range, claim: 1, text: text),
        ] {
            let call = AudienceScene.call(operation)
            #expect(call.withBorrowedBytes { caller.store.issue($0) } == .outOfBounds)
        }
        let callWithoutApp = AudienceCall(
            tag: 1,
            app: [],
            audience: AudienceScene.audience,
            operation: AudienceCaller.Operation.readNewestState
        )
        #expect(callWithoutApp.withBorrowedBytes { caller.store.issue($0) } == .outOfBounds)
    }

    @Test func `A user with a password and only the required rights is enough`() throws {
        let server = try RedisServer([
            "--user", "default", "on", "nopass", "~*", "+@all", "--user", "causeway", "on", ">s@cret", "~{com.example*",
            "+evalsha", "+script|load", "+get", "+set", "+setrange", "+getrange", "+append", "+hmget", "+hget",
            "+hkeys", "+hset", "+hdel", "+hincrby", "+pttl", "+pexpire", "+time",
        ])
        let caller = try AudienceCaller(
            RedisConfiguration(url: try RedisURL("unix://causeway:s%40cret@\(server.socketPath)"))
        )
        try #require(caller.runLoop { caller.store.isReady })
        let nowMilliseconds = caller.loop.wallMilliseconds
        let entries = AudienceScene.entries(0..<200, at: nowMilliseconds)
        try caller.join(entries)
        #expect(try caller.members() == AudienceScene.tokens(entries))
        // The first version has two ranges, the second version has one. So the admission of the second version must
        // delete the checkpoints of the two ranges.
        for (timestamp, count) in [(1_790_000_000 as Int64, 2), (1_790_000_001, 1)] {
            var history = AudienceOperationHistory(seed: 1, nowMilliseconds: nowMilliseconds)
            let version = Version(timestamp: timestamp, sequence: 0)
            var admission = history.randomAdmission(version)
            admission.rangeCount = UInt16(count)
            admission.digest = UInt64(count)
            (admission.isEnd, admission.isStart) = (false, false)
            try #require(
                caller.runLoop(limitMilliseconds: 60_000) { (try? caller.perform(.admit(admission)).verdict) == .send }
            )
            for index in 0..<count {
                let range = try #require(SegmentRange(index: index, rangeCount: count))
                #expect(try caller.perform(.claim(range, claim: 1)).verdict == .claimed)
                #expect(try caller.perform(.checkpoint(range, claim: 1, text: [1])).verdict == .settled)
                let reply = try caller.perform(
                    .finishRange(range, version: version, MemberOutcomeCounts(), ResponseTimes())
                )
                #expect(reply.unfinishedPartCount == count - index - 1)
            }
            #expect(try caller.perform(.settle(version: version)).verdict == .settled)
        }
        #expect(caller.failures.isEmpty)
    }

    @Test func `Each of many joins to one page gets a reply, and the page stays readable`() throws {
        let caller = try AudienceCaller(try RedisServer())
        let entry = AudienceScene.entries(0..<1, at: caller.loop.wallMilliseconds)[0]
        // These joins fill the lane's table of appends, so the store refuses the next join. They are far more entries
        // than fit into one page.
        for _ in 0..<EntryAppendTable.appendsMax { _ = try caller.issue(.append(entry)) }
        #expect(caller.replies.isEmpty)
        #expect(AudienceScene.call(.append(entry)).withBorrowedBytes { caller.store.issue($0) } == .full)
        try caller.runLoopUntilIdle()
        #expect(caller.replies.count + caller.failures.count == EntryAppendTable.appendsMax)
        #expect(caller.replies.count > PageLimits.unarrangedPageBytesMax / MemberEntryFormat.bytesMax)
        #expect(caller.failures.values.allSatisfy { $0 == .busy })
        #expect(try caller.members() == AudienceScene.tokens([entry]))
    }
}
