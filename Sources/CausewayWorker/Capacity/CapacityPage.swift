import Numbers
import Observability

/// `Helm/causeway/CAPACITY.md`: the plan for the largest load of this kind that was made public, held equal to the planner by a test.
package enum CapacityPage {
    /// JioCinema's figures for one event are 8 to 9 million Live Activity updates a minute at the peak. How many phones took part is
    /// not public: as many activities as updates a minute would mean one update a minute each, which suits cricket's pace.
    package static let demand = CapacityDemand(updatesPerMinute: 9_000_000, activities: 9_000_000)

    /// A goal of a final: a command now and then, and no time to lose.
    package static let audience = AudienceDemand(members: 1_000_000, updatesPerMinute: 4)

    package static func markdown() throws(CapacityError) -> String {
        let plan = try CapacityPlan(demand: demand)
        var merged = demand
        merged.commandsPerPushHundredths = 440
        let season = try CapacityPlan(demand: merged)
        let followers = try AudiencePlan(demand: audience)
        return """
            # How large a fleet

            Made by `causeway capacity-page`; change `Sources/CausewayWorker/Capacity`, not this page.

            `causeway plan` takes the peak that you expect, and says how many pods, partitions, connections, Redis nodes and \
            how much of Kafka it takes, with the measured costs that it rests on.

            ## Eight to nine million updates a minute

            The largest public figure for Live Activities is JioCinema's: 8 to 9 million updates a minute at the peak of a \
            cricket match (blog.jiocinema.com/scale-ios-live-activities-apn-optimizations). How many phones that was is not public; \
            one update a minute for each of 9 million is assumed here, and a command for each push.

            ```console
            $ causeway plan --updates-per-minute \(demand.updatesPerMinute) --activities \(demand.activities)
            \(plan.text)```

            So \(Numeral.grouped(plan.pushesPerSecond)) pushes a second take \
            \(Numeral.exact(plan.coresHundredths, divisor: 100)) cores at work. What such an event needs most of is Redis: \
            two script calls a push. APNs' connections are no limit: \(plan.connectionsNeeded) would do, and the fleet has \
            \(plan.connections), since each lane has its own.

            ## When states change faster than phones are told

            In the demo's season 4.4 commands are written for each push, and 77 % of them are merged before they cost \
            anything but their reading. The same peak with as many commands:

            ```console
            $ causeway plan --updates-per-minute \(demand.updatesPerMinute) --activities \(demand.activities) \\
                --commands-per-push 4.4
            \(season.text)```

            ## One command for a million

            Where all phones show the same, one command goes to an audience. It is admitted once, and a member costs a quarter \
            of a single push with its command, and no script call of Redis:

            ```console
            $ causeway plan --audience-members \(audience.members) --updates-per-minute \(audience.updatesPerMinute)
            \(followers.text)```

            ## What moves the numbers

            - **The busy share.** At 50 % a fleet takes twice its peak, or catches up with an hour's pause in an hour. \
            `causeway_lane_busy_ratio` is the number to scale by.
            - **How often a worker is woken.** Most of what a small load costs is waking up, which the plan counts for each worker; \
            at full load batches are large, and a push with its command costs a fifth of what it costs in the season that README.md shows.
            - **Memory.** With the limit above a lane holds \(Numeral.grouped(Int64(MemoryBudget.plannedRecordsPerLane))) commands of the usual size at a time. More memory has a \
            longer backlog merged before it is sent; less is bounded as well, and costs more pushes.
            - **The round trip to Apple.** It decides the pushes in flight, not the CPU.
            - **Compression in Kafka.** Commands of one kind compress well (`kafka.producer: {compression.type: zstd}`).

            """
    }
}
