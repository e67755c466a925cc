import Foundation
import Testbed
import Testing

@testable import CausewayWorker

struct CapacityTests {
    @Test(arguments: [1, 2, 4, 16, 256] as [Int64], [1, 4, 510] as [Int64])
    func `The planned memory of a pod suffices, and 64 MiB less do not`(processorCount: Int64, poolCount: Int64) throws
    {
        // The memory of a connection depends on the number of pushes that it may have in flight.
        let inFlightPerConnection: Int64 = poolCount == 4 ? 4_096 : 1_000
        var demand = CapacityDemand(pushesPerMinute: 60_000, activityCount: 1_000)
        demand.fleet.processorsPerPod = processorCount
        demand.fleet.poolCount = poolCount
        demand.fleet.inFlightPushesPerConnectionMax = inFlightPerConnection
        let plan = try CapacityPlan(demand: demand)
        /// Returns how many commands a lane can keep. Each needs 1,024 bytes of blocks.
        func recordsMax(podMebibytes mebibytes: Int64) -> Int {
            let budget = try? MemoryBudget(
                totalBytes: (mebibytes << 20) / 100 * MemoryBudget.usableControlGroupPercent,
                laneCount: Int(processorCount),
                connectionsMax: Int(processorCount * poolCount * plan.connectionsPerPool),
                appCount: demand.fleet.appsMax,
                inFlightPerConnection: Int(inFlightPerConnection)
            )
            return budget.map { min($0.recordsMax(configured: .max), $0.usedBlockBytesMax / 1_024) } ?? 0
        }
        #expect(recordsMax(podMebibytes: plan.podMebibytes) >= MemoryBudget.plannedRecordsPerLane)
        #expect(recordsMax(podMebibytes: plan.podMebibytes - 64) < MemoryBudget.plannedRecordsPerLane)
    }

    @Test func `A small fleet has three pods`() throws {
        let plan = try CapacityPlan(demand: CapacityDemand(pushesPerMinute: 60, activityCount: 1_000))
        #expect(plan.podCount == 3 && plan.laneCount == 12 && plan.partitionCount == 36)
        #expect(plan.pushesPerSecond == 1 && plan.redisNodeCount == 1 && plan.connectionsPerPool == 2)
        #expect(plan.pushesPerActivityHourHundredths == 360)
    }

    @Test func `The plan for the largest public peak is correct`() throws {
        let plan = try CapacityPlan(demand: CapacityPage.demand)
        #expect(plan.pushesPerSecond == 150_000)
        // 150,000 commands and pushes x (1.5 + 10.5) µs take 180 hundredths of a processor. Each of the 3 workers
        // takes 10 more for its wake-ups.
        #expect(plan.podCount == 3 && plan.busyProcessorHundredths == 180 + 3 * 10)
        #expect(plan.inFlightPushCount == 9_000 && plan.neededConnectionCount == 18)
        #expect(plan.redisCallsPerSecond == 300_000 && plan.redisNodeCountForCalls == 8)
        // 9,000,000 activities x 330 B, with 50 % more for Redis' overhead, are 4,455,000,000 B.
        #expect(plan.redisMebibytes == 4_249)
        #expect(plan.kafkaCommandBytesPerSecond == 150_000 * 456)
    }

    @Test func `Kafka's disk space is rounded up once`() throws {
        // A command and its result have 906 B. For one command a second, three copies for 4 h take 0.04 GiB.
        let smallPlan = try CapacityPlan(demand: CapacityDemand(pushesPerMinute: 60, activityCount: 1_000))
        #expect(smallPlan.kafkaStoredGibibytes == 1)
        // For 150,000 commands a second, these copies take 5,467.7 GiB.
        #expect(try CapacityPlan(demand: CapacityPage.demand).kafkaStoredGibibytes == 5_468)
    }

    @Test func `Activities that are started again need memory in Redis for their commands`() throws {
        var demand = CapacityDemand(pushesPerMinute: 60, activityCount: 1_000_000)
        let planWithoutRestarts = try CapacityPlan(demand: demand)
        demand.restartedActivityCount = 1_000_000
        let plan = try CapacityPlan(demand: demand)
        // With 50 % overhead, 1,000,000 activities x 330 B are 495,000,000 B. Their commands need 1,000,000 x
        // 1,800 B with the same overhead: 2,700,000,000 B more.
        #expect(planWithoutRestarts.redisMebibytes == 473 && plan.redisMebibytes == 3_047)
        #expect(plan.text.contains("1,800 bytes in Redis") && plan.text.contains("1,000,000 activities at a time"))
        #expect(!planWithoutRestarts.text.contains("afterLifetime"))
    }

    @Test func `More pushes in flight on a connection need more memory, and fewer need more connections`() throws {
        var demand = CapacityPage.demand
        demand.fleet.poolCount = 100
        let plan = try CapacityPlan(demand: demand)
        demand.fleet.inFlightPushesPerConnectionMax = 4_096
        let largePlan = try CapacityPlan(demand: demand)
        // 4 lanes with 100 pools of 2 connections: 3,096 more pushes x 384 B on each are 907 MiB. Some queues grow with
        // the memory too.
        #expect((907...1_500).contains(largePlan.podMebibytes - plan.podMebibytes))
        // APNs allows 1,000 streams, so the connections have no more pushes in flight.
        #expect(largePlan.neededConnectionCount == plan.neededConnectionCount)
        #expect(
            largePlan.text.contains("at most 4,096 on each connection") && !plan.text.contains("on each connection")
        )
        demand.fleet.inFlightPushesPerConnectionMax = 10
        // 9,000 pushes in flight, on connections that are half full with 5.
        #expect(try CapacityPlan(demand: demand).neededConnectionCount == 1_800)
    }

    @Test func `The measured costs give the CPU time of the season in which they were measured`() {
        let costs = MeasuredCosts()
        // In the measured minute, one worker processed 718,800 commands and sent 162,090 pushes.
        let workNanoseconds = 718_800 * costs.cpuNanosecondsPerCommand + 162_090 * costs.cpuNanosecondsPerPush
        // A hundredth of a processor is 10,000,000 ns in each of the 60 seconds.
        let wakingNanoseconds = 60 * costs.lowLoadProcessorHundredths * 10_000_000
        // The measured season took 8.71 s of CPU time in a minute. The costs are rounded to a hundredth of a
        // processor, which is 0.6 s in a minute.
        #expect((8_110_000_000...9_310_000_000).contains(workNanoseconds + wakingNanoseconds))
    }

    @Test func `More load never needs fewer resources`() throws {
        var previousPlan: CapacityPlan?
        for pushesPerMinute in stride(from: Int64(1), through: 60_000_000, by: 777_777) {
            let plan = try CapacityPlan(
                demand: CapacityDemand(pushesPerMinute: pushesPerMinute, activityCount: pushesPerMinute)
            )
            if let previousPlan {
                #expect(
                    plan.podCount >= previousPlan.podCount && plan.redisNodeCount >= previousPlan.redisNodeCount
                        && plan.partitionCount >= previousPlan.partitionCount
                )
                #expect(plan.busyProcessorHundredths >= previousPlan.busyProcessorHundredths)
            }
            // If one pod fails, the other pods carry the load with their processors at most 50 % busy, as planned.
            // Every pod has the same number of partitions.
            #expect(
                (plan.podCount - 1) * 4 * 50 >= plan.busyProcessorHundredths - plan.costs.lowLoadProcessorHundredths
            )
            #expect(plan.connectionCount >= plan.neededConnectionCount)
            #expect(plan.partitionCount % plan.podCount == 0 && plan.partitionCount >= plan.laneCount)
            previousPlan = plan
        }
    }

    @Test func `The largest numbers do not overflow`() throws {
        var demand = CapacityDemand(pushesPerMinute: 6_000_000_000, activityCount: 1)
        demand.commandsPerPushHundredths = 100_000
        demand.storedPeakHours = 8_760
        demand.replicationFactor = 9
        demand.deviceCount = 10_000_000_000
        demand.restartedActivityCount = 10_000_000_000
        demand.fleet.processorsPerPod = 256
        demand.fleet.poolCount = 1_020
        #expect(try CapacityPlan(demand: demand).podCount > 3)
        demand.activityCount = 10_000_000_000
        #expect(try CapacityPlan(demand: demand).text.contains("Redis Cluster"))
    }

    @Test(arguments: [
        "updates-per-minute", "activities", "pools", "in-flight-per-connection", "busy-percent", "commands-per-push",
    ])
    func `A number out of its range is named in the error`(_ field: String) {
        var demand = CapacityDemand(pushesPerMinute: 1, activityCount: 1)
        switch field {
        case "updates-per-minute": demand.pushesPerMinute = 0
        case "activities": demand.activityCount = .max
        case "pools": demand.fleet.poolCount = 1_021
        case "in-flight-per-connection": demand.fleet.inFlightPushesPerConnectionMax = 4_097
        case "busy-percent": demand.fleet.laneBusyPercentMax = 100
        default: demand.commandsPerPushHundredths = 99
        }
        let error = #expect(throws: CapacityError.self) { try CapacityPlan(demand: demand) }
        #expect(error?.reason.hasPrefix(field + ": ") == true)
    }

    @Test func `The page of capacity in the repository is the one that the program prints`() throws {
        let page = try Repository.text("Helm/causeway/CAPACITY.md")
        let expected = try CapacityPage.makeMarkdown()
        #expect(page == expected, "write it again: causeway capacity-page > Helm/causeway/CAPACITY.md")
    }
}
