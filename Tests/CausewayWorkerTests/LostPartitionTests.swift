import Audiences
import Delivery
import Kafka
import Reactor
import Testbed
import Testing

@testable import CausewayWorker

/// A partition that is lost ends without a revocation, so the lane does not drain it.
@Suite(.ownThread) struct LostPartitionTests {
    private static let partition = TopicPartition(
        topic: TopicIdentifier(index: Intake.commandsTopicIndex),
        partition: 0
    )

    /// The next owner reads the waiting command again, so this lane must not admit its own copy.
    @Test func `A waiting command to an audience is dropped when its partition is lost`() throws {
        try withIntake { intake, setup, laneSetup in
            let lane = try setup.makeFirstLane(laneSetup)
            defer { lane.close() }
            intake.partitionsAssigned([Self.partition])
            lane.takeLaneOrders()
            // The first command begins, and the second one waits behind it. The lane is not started, so Redis replies
            // to nothing.
            for offset in 0..<2 {
                try Self.receiveCommandToAudience(lane, offset: Int64(offset))
                lane.exchangeAudienceCommands()
            }
            try #require(lane.audiences.commandCount == 2 && lane.delivery.inProgressRecordCount == 2)
            intake.partitionsRevoked([Self.partition], areLost: true)
            lane.takeLaneOrders()
            lane.exchangeAudienceCommands()
            #expect(lane.audiences.commandCount == 1)
            #expect(lane.delivery.inProgressRecordCount == 1)
        }
    }

    /// Gives the lane's core an update to an audience. A higher offset has a newer version.
    private static func receiveCommandToAudience(_ lane: Lane, offset: Int64) throws {
        let entryIndex = try #require(
            lane.partitions.entryIndex(topic: partition.topic.index, partition: partition.partition)
        )
        let aps = """
            {"timestamp": \(lane.now.wallMilliseconds / 1_000 - 10 + offset), "event": "update", "content-state": {}}
            """
        Array(#"{"app": "com.example.match", "audience": "match", "aps": \#(aps)}"#.utf8)
            .withUnsafeBytes { value in
                let record = IncomingRecord(
                    partitionIndex: lane.partitions[entryIndex].indexInCore,
                    offset: offset,
                    timestampMilliseconds: -1,
                    key: nil,
                    value: value
                )
                lane.delivery.receive(record, now: lane.now)
            }
    }
}
