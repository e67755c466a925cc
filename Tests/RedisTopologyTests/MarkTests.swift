import RedisTestbed
import Testbed
import Testing

@testable import Redis

/// Marks on real servers, when a primary is emptied, restarted or silent. (R24)
@Suite(.serialized, .ownThread) struct MarkTests {
    private func makeMarks(_ url: String, topology: RedisTopology = .single) throws -> PrimaryMarks {
        try PrimaryMarks(
            configuration: RedisConfiguration(url: try RedisURL(url), topology: topology),
            consumerGroup: "group"
        )
    }

    @Test func `A mark stays until its server is emptied`() throws {
        let server = try RedisServer()
        let marks = try makeMarks("redis://\(server.location)")
        let primary = try #require(try marks.readMarks(["a", "b"]).first)
        #expect(primary.markTexts == [nil, nil])
        #expect(marks.writeMarks([("a", "one")], to: primary, .replaceFirstCopy) == [false])
        #expect(marks.writeMarks([("a", "one"), ("b", "two")], to: primary, .writeAllCopies) == [true, true])
        #expect(try marks.readMarks(["b", "a", "c"]).first?.markTexts == ["two", "one", nil])
        // A mark belongs to one consumer group, so another group finds none.
        let marksOfOtherGroup = try PrimaryMarks(
            configuration: RedisConfiguration(url: try RedisURL("redis://\(server.location)")),
            consumerGroup: "another"
        )
        #expect(try marksOfOtherGroup.readMarks(["a"]).first?.markTexts == [nil])
        #expect(marks.writeMarks([("a", "three")], to: primary, .replaceExistingCopies) == [true])
        #expect(server.command("FLUSHALL") == ["OK"])
        #expect(marks.writeMarks([("a", "four")], to: primary, .replaceFirstCopy) == [false])
        #expect(try marks.readMarks(["a"]).first?.markTexts == [nil])
    }

    @Test func `A restarted server counts as another one`() throws {
        let server = try RedisServer()
        let marks = try makeMarks("redis://\(server.location)")
        let primaryBefore = try #require(try marks.readMarks([]).first)
        #expect(primaryBefore.server.runIdentifier?.count == 40 && primaryBefore.server.majorVersion ?? 0 >= 5)
        #expect(try marks.readMarks([]).first?.server == primaryBefore.server)
        server.kill()
        #expect(try marks.readMarks([]).isEmpty)
        try server.start()
        #expect(try marks.readMarks([]).first?.server.runIdentifier != primaryBefore.server.runIdentifier)
    }

    @Test func `A silent server is left out in time, with and without an earlier connection`() throws {
        let server = try RedisServer()
        let (marks, unconnectedMarks) = (
            try makeMarks("redis://\(server.location)"), try makeMarks("redis://\(server.location)")
        )
        #expect(try marks.readMarks(["a"]).count == 1)
        server.suspend()
        defer { server.resume() }
        let startTime = ContinuousClock.now
        for _ in 0..<2 {
            #expect(try marks.readMarks(["a"]).isEmpty)
            #expect(try unconnectedMarks.readMarks(["a"]).isEmpty)
        }
        #expect(ContinuousClock.now - startTime < .seconds(20))
        server.resume()
        #expect(try marks.readMarks(["a"]).count == 1)
    }

    @Test func `A call ends when its task is cancelled`() async throws {
        let server = try RedisServer()
        let url = "redis://\(server.location)"
        server.suspend()
        defer { server.resume() }
        let startTime = ContinuousClock.now
        let task = Task {
            var configuration = RedisConfiguration(url: try RedisURL(url))
            configuration.replyDeadlineMilliseconds = 50_000
            return try PrimaryMarks(configuration: configuration, consumerGroup: "group").readMarks(["a"]).count
        }
        task.cancel()
        #expect(try await task.value == 0)
        #expect(ContinuousClock.now - startTime < .seconds(20))
    }

    /// In this cluster, each mark has 128 copies on one server. The copies of all marks are more commands than may wait
    /// for their replies on one connection.
    @Test func `After the cancellation of its task, a call writes no further copies`() async throws {
        let cluster = try ClusterProcesses(primaryCount: 1, emptyPrimaryCount: 1, hasReplicas: false)
        let url = cluster.url
        let primary = try #require(try makeMarks(url, topology: .cluster).readMarks([]).first)
        cluster.primaries[0].suspend()
        defer { cluster.primaries[0].resume() }
        let markCount = CommandConnection.commandsMax / MarkHashTags.hashTagCount + 1
        let task = Task {
            var configuration = RedisConfiguration(url: try RedisURL(url), topology: .cluster)
            configuration.replyDeadlineMilliseconds = 50_000
            return try PrimaryMarks(configuration: configuration, consumerGroup: "group")
                .writeMarks((0..<markCount).map { ("\($0)", "text") }, to: primary, .writeAllCopies)
        }
        task.cancel()
        #expect(try await task.value == [Bool](repeating: false, count: markCount))
    }

    /// A command without a reply closes its connection. So the number of connections tells how often a call has waited.
    @Test func `A silent primary is waited for once, however many copies its marks have`() throws {
        let cluster = try ClusterProcesses(primaryCount: 1, emptyPrimaryCount: 1, hasReplicas: false)
        let server = cluster.primaries[0]
        func countReceivedConnections() throws -> Int {
            let statistics = server.command("INFO", "stats").first ?? ""
            let line = statistics.split(whereSeparator: \.isNewline)
                .first { $0.hasPrefix("total_connections_received:") }
            return try #require(line?.split(separator: ":").last.flatMap { Int($0) })
        }
        let primary = try #require(try makeMarks(cluster.url, topology: .cluster).readMarks([]).first)
        var configuration = RedisConfiguration(url: try RedisURL(cluster.url), topology: .cluster)
        configuration.replyDeadlineMilliseconds = 50
        let marks = try PrimaryMarks(configuration: configuration, consumerGroup: "group")
        let countBefore = try countReceivedConnections()
        server.suspend()
        let writeResults = marks.writeMarks([("a", "one"), ("b", "two")], to: primary, .writeAllCopies)
        server.resume()
        #expect(writeResults == [false, false])
        #expect(try countReceivedConnections() < countBefore + 10, "each mark has 128 copies")
    }

    @Test func `Each primary of a cluster has its marks, and one that is emptied has none`() throws {
        let cluster = try ClusterProcesses(primaryCount: 3, hasReplicas: false)
        let marks = try makeMarks(cluster.url, topology: .cluster)
        let primaries = try marks.readMarks(["a"])
        #expect(primaries.count == 3 && primaries.allSatisfy { $0.markTexts == [nil] && $0.hashTagIndices.count > 30 })
        #expect(primaries.map(\.hashTagIndices.count).reduce(0, +) == MarkHashTags.hashTagCount)
        for primary in primaries {
            #expect(marks.writeMarks([("a", "one")], to: primary, .writeAllCopies) == [true])
        }
        #expect(try marks.readMarks(["a"]).allSatisfy { $0.markTexts == ["one"] })
        let emptiedPrimary = try #require(cluster.primaries.first { $0.location == "\(primaries[1].location)" })
        #expect(emptiedPrimary.command("FLUSHALL") == ["OK"])
        let primariesAfter = try marks.readMarks(["a"])
        #expect(primariesAfter.filter { $0.markTexts == [nil] }.map(\.location) == [primaries[1].location])
    }

    @Test func `The hash tags of marks are spread evenly over the slots`() {
        let slots = MarkHashTags.forCluster.tags.map(\.hashSlot)
        #expect(slots.count == 128 && slots.enumerated().allSatisfy { $1 / MarkHashTags.hashSlotsPerBlock == $0 })
    }
}
