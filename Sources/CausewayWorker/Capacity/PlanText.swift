import Numbers

/// The printed text of a plan: the demand, the sizes that the demand needs, the costs behind these sizes, and notes.
enum PlanText {
    typealias DemandLine = (name: String, value: String)
    typealias SizeLine = (name: String, value: String, reason: String)

    /// Where the planned number of partitions applies: to the topics whose partitions the lanes share among themselves.
    static let partitionedTopicsText = "in each of the topics commands, registrations, deferred and fanout"

    static func makeText(
        demandLines: [DemandLine],
        sizeLines: [SizeLine],
        costLines: [(text: String, source: String)],
        notes: [String]
    ) -> String {
        var text = "FOR\n"
        for (name, value) in demandLines { text += makeLine(name, value) }
        text += "\nNEEDS\n"
        for (name, value, reason) in sizeLines { text += makeLine(name, value, reason) }
        text += "\nBASED ON\n"
        for line in costLines { text += "  \(line.text) (\(line.source))\n" }
        text += "\nNOTES\n"
        for note in notes { text += "  - \(note)\n" }
        return text
    }

    /// Returns the line that names the limit of pushes in flight on each connection; no line if it is the default.
    static func makeInFlightLines(_ fleet: FleetParameters) -> [DemandLine] {
        let limit = fleet.inFlightPushesPerConnectionMax
        guard limit != FleetParameters.defaultInFlightPushesPerConnectionMax else { return [] }
        let text = "at most \(Numeral.grouped(limit)) on each connection (apns.inFlightPerConnection)"
        return [("pushes in flight", text)]
    }

    static func makePodsLine(_ podCount: Int64, busyProcessorHundredths: Int64, _ fleet: FleetParameters) -> SizeLine {
        let busy = "\(Numeral.exactQuotient(busyProcessorHundredths, divisor: 100)) cores busy at the peak"
        return (
            "pods", Numeral.grouped(podCount),
            """
            \(fleet.processorsPerPod) cores and lanes each; \(busy); planned at \(fleet.laneBusyPercentMax) %, plus \
            one pod
            """
        )
    }

    /// Returns the note that names the planned number of pools. Only the user knows whether broadcasts need pools of
    /// their own, which this number must include.
    static func makePoolsNote(_ fleet: FleetParameters) -> String {
        """
        Pools of connections in each lane: \(fleet.poolCount) (--pools), one for each pair of an app and an environment. \
        If an environment's broadcasts have another host or port (broadcastHost, broadcastPort), each of its pairs has \
        two pools: count it twice.
        """
    }

    static func makeLanesLine(_ laneCount: Int64) -> SizeLine {
        ("lanes", Numeral.grouped(laneCount), "one for each core")
    }

    private static func makeLine(_ name: String, _ value: String, _ reason: String = "") -> String {
        let padding = String(repeating: " ", count: max(1, 24 - name.count))
        guard !reason.isEmpty else { return "  \(name)\(padding)\(value)\n" }
        return "  \(name)\(padding)\(value)\(String(repeating: " ", count: max(2, 15 - value.count)))\(reason)\n"
    }
}
