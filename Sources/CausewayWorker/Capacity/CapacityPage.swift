import Numbers
import Observability

/// Makes the text of `Helm/causeway/CAPACITY.md`: the plans for three large loads. A test checks that the file has this
/// text.
package enum CapacityPage {
    /// JioCinema's figures for one event: 8 to 9 million Live Activity updates a minute at the peak. JioCinema did not
    /// publish the number of phones. The plan assumes one update a minute for each activity, a usual pace for cricket.
    package static let demand = CapacityDemand(pushesPerMinute: 9_000_000, activityCount: 9_000_000)

    /// The audience of a football final: four commands in the minute of a goal, and each must reach a million phones
    /// quickly.
    package static let audienceDemand = AudienceDemand(memberCount: 1_000_000, commandsPerMinute: 4)

    package static func makeMarkdown() throws(CapacityError) -> String {
        let plan = try CapacityPlan(demand: demand)
        var mergedDemand = demand
        mergedDemand.commandsPerPushHundredths = 440
        let mergedPlan = try CapacityPlan(demand: mergedDemand)
        let audiencePlan = try AudiencePlan(demand: audienceDemand)
        return """
            # The size of a fleet

            This page plans fleets for three large loads. `causeway capacity-page` writes it: change \
            `Sources/CausewayWorker/Capacity`, not this page.

            Give `causeway plan` the peak that you expect. It prints the pods, partitions, connections, Redis nodes \
            and Kafka capacity for this peak, and the measured costs from which it calculates them.

            ## Eight to nine million updates a minute

            The largest public figure for Live Activities is JioCinema's: 8 to 9 million updates a minute at the peak \
            of a cricket match (blog.jiocinema.com/scale-ios-live-activities-apn-optimizations). The number of phones \
            is not public. This plan assumes one update a minute for each of 9 million phones, and one command for \
            each push.

            ```console
            $ causeway plan --updates-per-minute \(demand.pushesPerMinute) --activities \(demand.activityCount)
            \(plan.text)```

            So \(Numeral.grouped(plan.pushesPerSecond)) pushes a second need \
            \(Numeral.exactQuotient(plan.busyProcessorHundredths, divisor: 100)) cores. Redis needs more, because each \
            push needs two script calls. APNs connections are not the limit: \(plan.neededConnectionCount) are enough, \
            and the fleet has \(plan.connectionCount), because each lane has its own connections.

            ## When states change faster than phones are updated

            In the demo's season there are 4.4 commands for each push. 77 % of these commands are merged, so they only \
            have to be read. The plan for the same peak with 4.4 commands for each push:

            ```console
            $ causeway plan --updates-per-minute \(demand.pushesPerMinute) --activities \(demand.activityCount) \\
                --commands-per-push 4.4
            \(mergedPlan.text)```

            ## One command for a million

            If all phones show the same state, send one command to an audience. Redis admits this command once. A push \
            to a member costs a quarter of a single push with its command, and no script call in Redis:

            ```console
            $ causeway plan --audience-members \(audienceDemand.memberCount) \
            --updates-per-minute \(audienceDemand.commandsPerMinute)
            \(audiencePlan.text)```

            ## What changes the numbers

            - **The busy share.** At 50 % busy, a fleet can process twice its peak, or an hour's backlog within an \
            hour. Scale by `causeway_lane_busy_ratio`.
            - **How often a worker wakes up.** With a small load, waking up is most of the cost. The plan counts it \
            for each worker. At full load batches are large, and a push with its command costs a fifth of its cost in \
            the season that README.md shows.
            - **Memory.** With the limit above, a lane can keep \
            \(Numeral.grouped(Int64(MemoryBudget.plannedRecordsPerLane))) commands of the usual size at a time. With \
            more memory, a lane merges a longer backlog before it sends. With less memory, more pushes are sent.
            - **The round trip to Apple.** It determines the pushes in flight, not the CPU.
            - **Compression in Kafka.** Commands of one kind compress well (`kafka.producer: {compression.type: zstd}`).

            """
    }
}
