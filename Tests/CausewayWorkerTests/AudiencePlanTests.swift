import Testing

@testable import CausewayWorker

struct AudiencePlanTests {
    @Test func `The plan for a million members with four updates a minute is correct`() throws {
        let plan = try AudiencePlan(demand: AudienceDemand(memberCount: 1_000_000, commandsPerMinute: 4))
        // The 4,000,000 pushes of a minute are sent in half of the minute.
        #expect(plan.pushesPerSecond == 133_334)
        // 4,000,000 pushes x 3 µs in 60 s take 20 hundredths of a processor. Each of the 3 workers takes 10 more
        // for its wake-ups.
        #expect(plan.podCount == 3 && plan.laneCount == 12 && plan.busyProcessorHundredths == 20 + 3 * 10)
        #expect(plan.rangeCount == 256 && plan.fanoutRecordCount == 256 && plan.resultRecordCount == 257)
        // 1,000,000 members x 226 B, and 1,000,000 activities x 330 B, with 50 % more for Redis' overhead.
        #expect(plan.membersMebibytes == 324 && plan.activitiesMebibytes == 473 && plan.redisNodeCount == 1)
        #expect(plan.connectionsPerPool == 2 && plan.connectionCount == 24)
        // The lane with the most members has 22 of the 256 ranges: 85,938 members. Its streams carry 2,000
        // pushes in each round trip of 60 ms, so it needs 2,579 ms. One more round trip and the fan-out are
        // added.
        #expect(plan.deliveryMilliseconds == 2_579 + 60 + 250)
    }

    /// The pushes of a command take at most the time until the next command. The last round trip and the passes through
    /// Kafka come on top. If the sum is longer than the time until the next command, the plan's text says so.
    @Test(arguments: [1_000, 20_000, 300_000, 1_000_000, 10_000_000] as [Int64], [1, 4, 12, 60] as [Int64])
    func `Planned rounds fit between the commands`(memberCount: Int64, commandsPerMinute: Int64) throws {
        let demand = AudienceDemand(memberCount: memberCount, commandsPerMinute: commandsPerMinute)
        let plan = try AudiencePlan(demand: demand)
        let fixedMilliseconds = plan.costs.roundTripMilliseconds + plan.costs.firstFanoutPushMilliseconds
        #expect((plan.deliveryMilliseconds - fixedMilliseconds) * commandsPerMinute <= 60_000)
        #expect(plan.text.contains("CausewayRoundsSlow") == (plan.deliveryMilliseconds * commandsPerMinute > 60_000))
    }

    @Test func `More members never need fewer resources`() throws {
        var previousPlan: AudiencePlan?
        for memberCount in stride(from: Int64(1), through: 40_000_000, by: 777_777) {
            let plan = try AudiencePlan(demand: AudienceDemand(memberCount: memberCount, commandsPerMinute: 6))
            if let previousPlan {
                #expect(
                    plan.podCount >= previousPlan.podCount && plan.redisMebibytes >= previousPlan.redisMebibytes
                        && plan.rangeCount >= previousPlan.rangeCount
                )
                #expect(plan.busyProcessorHundredths >= previousPlan.busyProcessorHundredths)
            }
            // If one pod fails, the processors of the other pods (4 in each pod) are at most 50 % busy. The time for
            // waking is left out.
            #expect(
                (plan.podCount - 1) * 4 * 50 >= plan.busyProcessorHundredths - plan.podCount
                    * plan.costs.lowLoadProcessorHundredths
            )
            #expect(plan.partitionCount % plan.podCount == 0 && plan.partitionCount >= plan.laneCount)
            previousPlan = plan
        }
    }

    @Test func `Updates beyond one a second are not sent`() throws {
        let frequentPlan = try AudiencePlan(demand: AudienceDemand(memberCount: 10_000, commandsPerMinute: 6_000))
        let everySecondPlan = try AudiencePlan(demand: AudienceDemand(memberCount: 10_000, commandsPerMinute: 60))
        #expect(
            frequentPlan.busyProcessorHundredths == everySecondPlan.busyProcessorHundredths
                && frequentPlan.text.contains("replace waiting ones")
        )
    }

    @Test func `The largest numbers do not overflow`() throws {
        var demand = AudienceDemand(memberCount: 1_000_000_000, commandsPerMinute: 6_000)
        demand.activityCount = 10_000_000_000
        demand.fleet.poolCount = 1_020
        demand.fleet.laneBusyPercentMax = 10
        #expect(try AudiencePlan(demand: demand).text.contains("Redis Cluster"))
    }

    @Test func `A number out of its range is named in the error`() {
        var demand = AudienceDemand(memberCount: 0, commandsPerMinute: 1)
        let members = #expect(throws: CapacityError.self) { try AudiencePlan(demand: demand) }
        #expect(members?.reason == "audience-members: is 0, must be 1 to 1000000000")
        demand = AudienceDemand(memberCount: 10, commandsPerMinute: 1)
        demand.activityCount = 9
        let activities = #expect(throws: CapacityError.self) { try AudiencePlan(demand: demand) }
        #expect(activities?.reason == "activities: is 9, must be 10 to 10000000000")
    }
}
