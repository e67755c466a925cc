import Audiences
import CausewayConfiguration
import Delivery
import Foundation
import Kafka
import Testbed
import Testing

@testable import CausewayWorker
@testable import Reactor

/// The limits of a worker's queues and buffers add up to its memory. (R4)
@Suite("The division of a worker's memory")
struct MemoryBudgetTests {
    private func makeBudget(_ mebibytes: Int64, laneCount: Int, connectionsMax: Int) throws -> MemoryBudget {
        try MemoryBudget(totalBytes: mebibytes << 20, laneCount: laneCount, connectionsMax: connectionsMax)
    }

    private func sumOfParts(_ budget: MemoryBudget) -> Int64 {
        MemoryBudget.fixedBytesOfProcess + budget.connectionsBytes + budget.consumerQueueBytes + budget.fetchBytes
            + budget.producerQueueBytes + budget.laneCount
            * (MemoryBudget.fixedBytesPerLane + budget.inboxBytesPerLane + budget.audienceBytesPerLane
                + budget.additionalFanoutRecordBytesPerLane + budget.additionalPageBytesPerLane
                + budget.audienceTableBytesPerLane + budget.deliveryBytesPerLane)
    }

    @Test(
        arguments: [160, 256, 435, 512, 1_024, 4_096, 1_048_576] as [Int64],
        [1, 2, 4]
    )
    func `The parts of the memory add up to the whole`(mebibytes: Int64, laneCount: Int) throws {
        let budget = try makeBudget(mebibytes, laneCount: laneCount, connectionsMax: laneCount * 4)
        #expect(sumOfParts(budget) <= mebibytes << 20)
        #expect(
            sumOfParts(budget) > (mebibytes << 20) - Int64(laneCount),
            "nothing is left over but what does not divide"
        )
    }

    @Test func `A lane holds as many records as fit, and no more than configured`() throws {
        let largeBudget = try makeBudget(1_024, laneCount: 1, connectionsMax: 4)
        #expect(largeBudget.recordsMax(configured: 131_072) == 131_072)
        let smallBudget = try makeBudget(256, laneCount: 2, connectionsMax: 8)
        let recordsMax = smallBudget.recordsMax(configured: 131_072)
        #expect((1_000..<131_072).contains(recordsMax))
        #expect(
            Int64(recordsMax * Delivery.bytesPerRecord + smallBudget.usedBlockBytesMax)
                <= smallBudget.deliveryBytesPerLane
        )
    }

    @Test func `A lane's records and their delivery reports fit into half of its memory`() throws {
        for mebibytes in [200, 256, 300, 435, 700] as [Int64] {
            let budget = try makeBudget(mebibytes, laneCount: 2, connectionsMax: 8)
            let recordsMax = budget.recordsMax(configured: .max)
            let ring = try LaneMailbox(recordsMax: recordsMax).deliveryReports
            let bytes = recordsMax * Delivery.bytesPerRecord + ring.capacity * MemoryLayout<DeliveryReport>.stride
            #expect(bytes <= Int(budget.deliveryBytesPerLane / 2), "\(mebibytes)")
        }
    }

    /// A pod of the chart has 512 MiB and one lane.
    @Test(arguments: [(512, 1), (1_024, 1), (1_024, 2), (1_024, 4), (4_096, 4)] as [(Int64, Int)])
    func `The tables of audiences have their usual limits in usual pods`(mebibytes: Int64, laneCount: Int) throws {
        let budget = try MemoryBudget(
            totalBytes: (mebibytes << 20) / 100 * MemoryBudget.usableControlGroupPercent,
            laneCount: laneCount,
            connectionsMax: laneCount * 4
        )
        #expect(Int(budget.audienceTableBytesPerLane) == AudiencesConfiguration.defaultTableBytes)
        var configuration = makeAudiencesConfiguration()
        configuration.limitTableBytes(to: Int(budget.audienceTableBytesPerLane))
        #expect(configuration.commandsMax == 4_096 && configuration.commandBytesMax == 8 << 20)
        #expect(configuration.parkedMembersMax == 16_384 && configuration.refusedMembersMax == 4_096)
        #expect(configuration.membershipChangesMax == 4_096 && configuration.newestStateBytesMax == 2 << 20)
    }

    /// The quarter of the audience memory for bodies, and the half for pages, are used for these.
    @Test(arguments: [128, 256, 435, 4_096] as [Int64])
    func `The fan-out records of a lane, with their rounds and channels, fit into their memory`(mebibytes: Int64) throws
    {
        let budget = try makeBudget(mebibytes, laneCount: 2, connectionsMax: 4)
        let recordsMax = budget.fanoutRecordsMax(configured: 16_384)
        let bytesMax = budget.audienceBytesPerLane / 4 + budget.additionalFanoutRecordBytesPerLane
        #expect(Int64(recordsMax * Audiences.bytesPerFanoutRecord) <= bytesMax)
        #expect(recordsMax >= 256, "each range of a large audience may have a record in the same lane")
    }

    @Test func `With little memory, the tables of audiences shrink together`() throws {
        for mebibytes in [128, 160, 256] as [Int64] {
            let budget = try makeBudget(mebibytes, laneCount: 2, connectionsMax: 4)
            var configuration = makeAudiencesConfiguration()
            configuration.limitTableBytes(to: Int(budget.audienceTableBytesPerLane))
            #expect(Audiences.tableBytes(configuration) <= Int(budget.audienceTableBytesPerLane), "\(mebibytes)")
            #expect((100..<4_096).contains(configuration.commandsMax))
            #expect((AudiencesConfiguration.parkedMembersMin..<16_384).contains(configuration.parkedMembersMax))
        }
    }

    private func makeAudiencesConfiguration() -> AudiencesConfiguration {
        let app = DeliveryConfiguration.App(bundleId: [], hasProductionPool: true, hasSandboxPool: true)
        return AudiencesConfiguration(apps: [app], reloadable: ReloadableSettings(appCount: 1), seed: 1)
    }

    @Test func `Each app has memory for its pages, however many apps there are`() throws {
        let budget = try MemoryBudget(totalBytes: 1 << 30, laneCount: 1, connectionsMax: 100, appCount: 50)
        let pageBytes = budget.audienceBytesPerLane / 2 + budget.additionalPageBytesPerLane
        #expect(pageBytes == Int64(50 * AudiencesConfiguration.pageBytesPerAppMin))
        #expect(sumOfParts(budget) <= 1 << 30)
        #expect(try makeBudget(1_024, laneCount: 1, connectionsMax: 4).additionalPageBytesPerLane == 0)
    }

    @Test(arguments: [128, 256, 435, 4_096] as [Int64])
    func `All chunks of blocks fit into half of a lane's memory`(mebibytes: Int64) throws {
        let budget = try makeBudget(mebibytes, laneCount: 2, connectionsMax: 4)
        let recordsMax = budget.recordsMax(configured: .max)
        #expect(
            recordsMax * Delivery.bytesPerRecord + budget.allocatedBlockBytesMax <= Int(budget.deliveryBytesPerLane)
        )
        if mebibytes >= 256 {
            #expect(budget.usedBlockBytesMax + 15 * budget.blockChunkBytes <= budget.allocatedBlockBytesMax)
        }
        // Activities that only wait keep their ids. The longest ids need 256 bytes instead of 64.
        #expect(recordsMax * (256 - 64) < budget.usedBlockBytesMax / 2)
    }

    @Test func `A connection's memory includes the pushes that it may have in flight`() throws {
        var configuration = WorkerConfiguration()
        configuration.apps = [WorkerConfiguration.App(name: "scores")]
        configuration.worker.memoryMebibytes = 1_024
        configuration.apns.connectionsPerPool = 2
        configuration.apns.inFlightPerConnection = 1_000
        let budget = try MemoryBudget(configuration, laneCount: 1)
        configuration.apns.inFlightPerConnection = 4_096
        let largeBudget = try MemoryBudget(configuration, laneCount: 1)
        let connectionCount = Int64(2 * configuration.apps[0].environments.count)
        // A slot of a push has 112 bytes and room for 256 bytes of the response.
        #expect(largeBudget.connectionsBytes - budget.connectionsBytes >= connectionCount * 3_096 * (112 + 256))
    }

    @Test func `A lane's fixed memory includes its counts of reports to the timetable`() {
        #expect(Delivery.lifetimeReportCountBytes == 32 << 10)
        #expect(MemoryBudget.fixedBytesPerLane >= (6 << 20) + Int64(Delivery.lifetimeReportCountBytes))
    }

    @Test func `A connection's memory includes the output buffer that it keeps, and TLS`() {
        #expect(MemoryBudget.fixedBytesPerConnection >= Int64(OutputBuffer.retainedBytesMax) + 64 << 10)
    }

    /// librdkafka decompresses each response as a whole, and only then compares its queue with the queue's limits.
    @Test(arguments: [256, 1_024, 4_096] as [Int64])
    func `A broker may put little into a response, because it is compressed`(mebibytes: Int64) throws {
        let budget = try makeBudget(mebibytes, laneCount: 2, connectionsMax: 8)
        let properties = budget.makeConsumerProperties(for: [])
        let responseLimit = properties.last { $0.name == "fetch.max.bytes" }
        let responseBytesMax = try #require(responseLimit.flatMap { Int64($0.value) })
        #expect(responseBytesMax == 1 << 20)
        #expect(properties.last { $0.name == "fetch.message.max.bytes" }?.value == "262144")
        if mebibytes >= 1_024 {
            #expect(budget.fetchBytes >= 3 * 10 * responseBytesMax, "three brokers, and records of ten times the size")
        }
    }

    @Test(.ownThread, arguments: ["1000", "1048577", "4000000", "20000000"])
    func `librdkafka accepts the limits beside any configured size of a record`(messageBytesMax: String) throws {
        let configuredProperties: [KafkaProperties.Property] = [
            ("bootstrap.servers", "127.0.0.1:1"), ("group.id", "workers"), ("message.max.bytes", messageBytesMax),
        ]
        let limits = try makeBudget(256, laneCount: 2, connectionsMax: 8)
            .makeConsumerProperties(for: configuredProperties)
        let faults = Consumer.findFaults(of: limits + configuredProperties)
        #expect(faults.isEmpty)
    }

    @Test func `Too little memory is reported, with the key to change`() {
        let error = #expect(throws: MemoryBudgetError.self) { try makeBudget(64, laneCount: 16, connectionsMax: 64) }
        #expect(error?.description.contains("worker.memoryMebibytes: 64 MiB") == true)
        #expect(error?.description.contains("16 lanes and 64 connections") == true)
        let smallError = #expect(throws: MemoryBudgetError.self) { try makeBudget(8, laneCount: 1, connectionsMax: 1) }
        #expect(smallError?.description.contains("for 1 lane and 1 connection.") == true)
    }

    @Test func `The configuration overrides the control group, and the control group the default`() throws {
        var configuration = WorkerConfiguration()
        let noLimit = MemoryLimit(
            controlGroups: ControlGroups(
                version2Root: "/nowhere",
                version1MemoryRoot: "/nowhere",
                processGroupsFile: "/nowhere"
            )
        )
        #expect(
            try MemoryBudget(configuration, laneCount: 1, limit: noLimit).totalBytes
                == MemoryBudget.defaultTotalBytes
        )
        let groups = try MemoryGroupFiles(member: "0::/\n", files: ["unified/memory.max": "1000000000"])
        let limited = try MemoryBudget(configuration, laneCount: 1, limit: groups.limit)
        #expect(limited.totalBytes == 850_000_000)
        configuration.worker.memoryMebibytes = 300
        #expect(try MemoryBudget(configuration, laneCount: 1, limit: groups.limit).totalBytes == 300 << 20)
    }
}

@Suite("The limit of the process's memory")
struct MemoryLimitTests {
    @Test func `The smallest limit among a control group and its parents counts, in versions 1 and 2`() throws {
        let member = "12:cpu,memory:/old/pod\n0::/pods/worker\n"
        #expect(
            try MemoryGroupFiles(
                member: member,
                files: [
                    "unified/memory.max": "max", "unified/pods/memory.max": "700",
                    "unified/pods/worker/memory.max": "900",
                ]
            )
            .limitBytes == 700
        )
        #expect(
            try MemoryGroupFiles(
                member: member,
                files: [
                    "memory/old/memory.limit_in_bytes": "800",
                    "memory/old/pod/memory.limit_in_bytes": "9223372036854771712",
                ]
            )
            .limitBytes == 800
        )
        // In a container, the process's own control group is the root of the hierarchy.
        #expect(
            try MemoryGroupFiles(member: member, files: ["memory/memory.limit_in_bytes": "600"]).limitBytes == 600
        )
    }

    @Test(arguments: ["max", "", "0", "-1", "x", "9223372036854771712"])
    func `A text that is no limit counts as no limit`(text: String) throws {
        let groups = try MemoryGroupFiles(member: "0::/\n", files: ["unified/memory.max": text])
        #expect(groups.limitBytes == nil)
    }
}

/// Files in a temporary directory that imitate Linux's hierarchy of control groups.
private final class MemoryGroupFiles {
    private let directory: TemporaryDirectory
    var url: URL { directory.url }

    init(member: String, files: [String: String]) throws {
        directory = try TemporaryDirectory()
        for (path, text) in files {
            let file = url.appendingPathComponent(path)
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(),
                withIntermediateDirectories: true
            )
            try "\(text)\n".write(to: file, atomically: true, encoding: .utf8)
        }
        try member.write(to: url.appendingPathComponent("self"), atomically: true, encoding: .utf8)
    }

    /// The limit in bytes. If a test called `limit.bytes` itself, this object could be released, and so delete its
    /// files, before the limit is read.
    var limitBytes: Int64? { limit.bytes }

    var limit: MemoryLimit {
        MemoryLimit(
            controlGroups: ControlGroups(
                version2Root: url.appendingPathComponent("unified").path,
                version1MemoryRoot: url.appendingPathComponent("memory").path,
                processGroupsFile: url.appendingPathComponent("self").path
            )
        )
    }
}

@Suite("The bytes of a lane's inbox")
struct InboxByteLimiterTests {
    /// Puts a record of this size into the inbox if there is room.
    ///
    /// - Parameter untakenEntryCount: the number of entries in the inbox that the lane has not taken.
    /// - Returns: whether there was room.
    private func deal(_ bytes: Int, untakenEntryCount: Int, to inbox: inout InboxByteLimiter) -> Bool {
        guard inbox.makeRoom(for: bytes, untakenEntryCount: untakenEntryCount) else { return false }
        inbox.append(bytes)
        return true
    }

    @Test func `After an inbox was full, it has room again for what the lane takes`() {
        var inbox = InboxByteLimiter(bytesMax: 1_000, capacity: 8)
        let areDealt = (0..<5).map { deal(250, untakenEntryCount: $0, to: &inbox) }
        #expect(areDealt == [true, true, true, true, false])
        let areAtMostHalfFull = (
            isAtMostHalfFull(inbox, untakenEntryCount: 3), isAtMostHalfFull(inbox, untakenEntryCount: 2)
        )
        #expect(areAtMostHalfFull == (false, true))
        let areDealtLater = (deal(250, untakenEntryCount: 3, to: &inbox), deal(1, untakenEntryCount: 4, to: &inbox))
        #expect(areDealtLater == (true, false))
    }

    private func isAtMostHalfFull(_ inbox: InboxByteLimiter, untakenEntryCount: Int) -> Bool {
        var inbox = inbox
        inbox.removeTakenEntries(untakenEntryCount: untakenEntryCount)
        return inbox.isAtMostHalfFull
    }

    @Test func `A single record always has room, but no more records have room than the ring has places`() {
        var inbox = InboxByteLimiter(bytesMax: 1_000, capacity: 2)
        let areDealt = [
            deal(5_000, untakenEntryCount: 0, to: &inbox), deal(1, untakenEntryCount: 1, to: &inbox),
            deal(1, untakenEntryCount: 0, to: &inbox),
        ]
        #expect(areDealt == [true, false, true])
        let areSmallOnesDealt = [deal(1, untakenEntryCount: 1, to: &inbox), deal(1, untakenEntryCount: 2, to: &inbox)]
        #expect(areSmallOnesDealt == [true, false])
    }
}
