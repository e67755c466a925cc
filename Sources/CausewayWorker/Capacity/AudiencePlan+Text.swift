import Numbers
import Observability

extension AudiencePlan {
    /// The text that `causeway plan --audience-members` prints: the demand, the sizes that the demand needs, the costs
    /// behind these sizes, and notes.
    package var text: String {
        PlanText.makeText(
            demandLines: demandLines,
            sizeLines: sizeLines,
            costLines: costs.audienceCostLines,
            notes: notes
        )
    }

    private var demandLines: [PlanText.DemandLine] {
        let demandLines: [PlanText.DemandLine] = [
            ("members", Numeral.grouped(demand.memberCount)),
            ("commands a minute", "\(Numeral.grouped(demand.commandsPerMinute)), each to all of them"),
            ("activities in a day", Numeral.grouped(demand.activityCount)),
        ]
        return demandLines + PlanText.makeInFlightLines(demand.fleet)
    }

    private var sizeLines: [PlanText.SizeLine] {
        [
            (
                "one command", Numeral.duration(microseconds: deliveryMilliseconds * 1_000),
                """
                from a command's record to the last phone, shared by \
                \(Numeral.counted(workingLaneCount, "lane", "lanes"))
                """
            ),
            PlanText.makePodsLine(podCount, busyProcessorHundredths: busyProcessorHundredths, demand.fleet),
            (
                "memory a pod", "\(Numeral.grouped(podMebibytes)) MiB",
                "request and limit; a round keeps only some pages of members in memory"
            ),
            PlanText.makeLanesLine(laneCount),
            ("partitions", Numeral.grouped(partitionCount), PlanText.partitionedTopicsText),
            (
                "APNs connections", Numeral.grouped(connectionCount),
                """
                \(connectionsPerPool) for each lane and pool (apns.connectionsPerPool); \
                \(Numeral.counted(pushesPerSecond, "push", "pushes")) a second during a round
                """
            ),
            ("to APNs", "\(Numeral.grouped(apnsMegabitsPerSecond)) Mbit/s", "over the minute: bodies, headers, TLS"),
            (
                "Redis nodes", Numeral.grouped(redisNodeCount),
                """
                rounds take \(redisProcessorPercent) % of one core; \(demand.fleet.redisNodeGibibytes) GiB of memory \
                each; replicas not included
                """
            ),
            (
                "Redis memory", "\(Numeral.grouped(redisMebibytes)) MiB",
                """
                \(Numeral.grouped(membersMebibytes)) for members on their pages, \
                \(Numeral.grouped(activitiesMebibytes)) for activities' own values
                """
            ),
            (
                "Kafka", "\(Numeral.counted(fanoutRecordCount + resultRecordCount, "record", "records"))",
                """
                for each command: \(Numeral.grouped(fanoutRecordCount)) fanned out, \
                \(Numeral.counted(resultRecordCount, "result", "results"))
                """
            ),
        ]
    }

    private var notes: [String] {
        var notes: [String] = []
        if demand.commandsPerMinute > 60 {
            notes.append(
                """
                An audience gets at most one state a second: newer states replace waiting ones. The plan is for 60 a \
                minute.
                """
            )
        }
        if deliveryMilliseconds * min(demand.commandsPerMinute, 60) > 60_000 {
            notes.append(
                """
                A command takes longer than the time between two commands. Newer states take over during the round, \
                and the alert CausewayRoundsSlow fires.
                """
            )
        }
        if rangeCount < laneCount {
            notes.append(
                """
                The audience has \(Numeral.counted(rangeCount, "range", "ranges")). More lanes than ranges do not \
                make its rounds shorter.
                """
            )
        }
        notes.append(
            """
            A hash assigns ranges to partitions. The lane with the most ranges needs some tens of percent more time \
            than an average lane.
            """
        )
        notes.append(PlanText.makePoolsNote(demand.fleet))
        if redisNodeCount > 1 {
            notes.append(
                "More than one Redis node means a Redis Cluster. An audience's 256 segments are spread over its slots."
            )
        }
        notes.append(
            "On your machines, causeway-lab fanout --members measures the cost of a member, and h2load's cost of a push."
        )
        return notes
    }
}
