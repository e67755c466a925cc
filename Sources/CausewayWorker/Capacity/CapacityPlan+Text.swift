import Numbers
import Observability

extension CapacityPlan {
    /// The text that `causeway plan --activities` prints: the demand, the sizes that the demand needs, the costs behind
    /// these sizes, and notes.
    package var text: String {
        let restartCostLines = demand.restartedActivityCount > 0 ? [costs.restartCostLine] : []
        return PlanText.makeText(
            demandLines: demandLines,
            sizeLines: sizeLines,
            costLines: costs.costLines + restartCostLines,
            notes: notes
        )
    }

    private var demandLines: [PlanText.DemandLine] {
        var demandLines: [PlanText.DemandLine] = [
            (
                "updates a minute",
                """
                \(Numeral.grouped(demand.pushesPerMinute)) (\(Numeral.counted(pushesPerSecond, "push", "pushes")) a \
                second)
                """
            ),
            ("activities in a day", Numeral.grouped(demand.activityCount)),
            ("commands for a push", Numeral.exactQuotient(demand.commandsPerPushHundredths, divisor: 100)),
        ]
        if demand.deviceCount > 0 { demandLines.append(("devices to start on", Numeral.grouped(demand.deviceCount))) }
        if demand.restartedActivityCount > 0 {
            demandLines.append(
                (
                    "started again",
                    "\(Numeral.counted(demand.restartedActivityCount, "activity", "activities")) at a time"
                )
            )
        }
        return demandLines + PlanText.makeInFlightLines(demand.fleet)
    }

    private var sizeLines: [PlanText.SizeLine] {
        [
            PlanText.makePodsLine(podCount, busyProcessorHundredths: busyProcessorHundredths, demand.fleet),
            (
                "memory a pod", "\(Numeral.grouped(podMebibytes)) MiB",
                "request and limit; the worker keeps its memory below it (worker.memoryMebibytes)"
            ),
            PlanText.makeLanesLine(laneCount),
            (
                "partitions", Numeral.grouped(partitionCount),
                "\(PlanText.partitionedTopicsText); \(Self.partitionsPerLane) for each lane, so that the fleet can grow"
            ),
            (
                "APNs connections", Numeral.grouped(connectionCount),
                """
                \(connectionsPerPool) for each lane and pool (apns.connectionsPerPool); \
                \(Numeral.grouped(neededConnectionCount)) can carry the \
                \(Numeral.counted(inFlightPushCount, "push", "pushes")) in flight
                """
            ),
            ("to APNs", "\(Numeral.grouped(apnsMegabitsPerSecond)) Mbit/s", "bodies, headers, TLS"),
            (
                "Redis nodes", Numeral.grouped(redisNodeCount),
                """
                \(Numeral.grouped(redisNodeCountForCalls)) for calls at \(Self.redisProcessorBusyPercent) %, \
                \(Numeral.grouped(redisNodeCountForMemory)) for memory at \(demand.fleet.redisNodeGibibytes) GiB each; \
                replicas not included
                """
            ),
            ("Redis calls", "\(Numeral.grouped(redisCallsPerSecond))/s", "at the peak"),
            ("Redis memory", "\(Numeral.grouped(redisMebibytes)) MiB", "all nodes together"),
            (
                "Kafka in", "\(Self.megabytes(kafkaCommandBytesPerSecond)) MB/s",
                "\(Numeral.counted(commandsPerSecond, "command", "commands")) a second"
            ),
            ("Kafka out", "\(Self.megabytes(kafkaResultBytesPerSecond)) MB/s", "one result for each command"),
            (
                "Kafka writes", "\(Self.megabytes(kafkaWrittenBytesPerSecond)) MB/s",
                "\(demand.replicationFactor) copies, before compression"
            ),
            (
                "Kafka keeps", "\(Numeral.grouped(kafkaStoredGibibytes)) GiB",
                "\(demand.storedPeakHours) h at the peak's rate, all copies, before compression"
            ),
        ]
    }

    private var notes: [String] {
        var notes: [String] = []
        let pushesPerHour = Numeral.exactQuotient(pushesPerActivityHourHundredths, divisor: 100)
        notes.append(
            "Each activity gets \(pushesPerHour) pushes an hour. Those at priority 10 must fit its policy."
        )
        if pushesPerActivityHourHundredths > 360_000 {
            notes.append(
                """
                That is more than one a second. Causeway never sends that many: newer states replace waiting ones. \
                Plan for 3,600.
                """
            )
        }
        if redisNodeCount > 1 {
            notes.append(
                "More than one Redis node means a Redis Cluster. All keys of an activity are in one hash slot."
            )
        }
        notes.append(PlanText.makePoolsNote(demand.fleet))
        notes.append(
            """
            Kafka keeps: the plan counts \(demand.storedPeakHours) h of records, as if the peak lasted so long \
            (--retention-hours). This is not the retention of the topics, which causeway topics prints.
            """
        )
        notes.append(
            """
            CPU costs were measured with one worker on one kind of machine. On yours, causeway-lab backlog measures \
            the costs at full load, and make demo measures the cost of waking up.
            """
        )
        return notes
    }

    private static func megabytes(_ bytes: Int64) -> String {
        bytes < 100_000_000
            ? Numeral.exactQuotient((bytes + 50_000) / 100_000, divisor: 10)
            : Numeral.grouped((bytes + 500_000) / 1_000_000)
    }
}
