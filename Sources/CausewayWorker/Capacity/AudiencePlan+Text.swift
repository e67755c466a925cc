import Numbers
import Observability

extension AudiencePlan {
    /// The plan as a page of text.
    package var text: String {
        var text = "FOR\n"
        for (name, value) in wishes { text += CapacityPlan.line(name, value) }
        text += "\nA FLEET OF\n"
        for (name, value, reason) in answers { text += CapacityPlan.line(name, value, reason) }
        text += "\nWHICH RESTS ON\n"
        for line in costs.audienceLines { text += "  \(line.text) (\(line.source))\n" }
        text += "\nMIND\n"
        for note in notes { text += "  - \(note)\n" }
        return text
    }

    private var wishes: [(String, String)] {
        [
            ("members", Numeral.grouped(demand.members)),
            ("commands a minute", "\(Numeral.grouped(demand.updatesPerMinute)), each to all of them"),
            ("activities in a day", Numeral.grouped(demand.activities)),
        ]
    }

    private var answers: [(String, String, String)] {
        let cores = Numeral.exact(coresHundredths, divisor: 100)
        return [
            (
                "one round", Numeral.duration(microseconds: roundMilliseconds * 1_000),
                "from a command's record to the last phone, \(Numeral.grouped(sharingLanes)) lanes sharing it"
            ),
            (
                "pods", Numeral.grouped(pods),
                "\(demand.coresPerPod) cores and lanes each; \(cores) cores at work at \(demand.busyPercent) %, and one pod more"
            ),
            (
                "memory a pod", "\(Numeral.grouped(podMebibytes)) MiB",
                "request and limit; a round holds pages of members, never all of them"
            ),
            ("lanes", Numeral.grouped(lanes), "one a core"),
            ("partitions", Numeral.grouped(partitions), "of the fan-out topic and of those that are read beside it"),
            (
                "APNs connections", Numeral.grouped(connections),
                "\(connectionsPerPool) for each lane and pool (apns.connectionsPerPool); \(Numeral.grouped(pushesPerSecond)) pushes a second during a round"
            ),
            ("to APNs", "\(Numeral.grouped(apnsMegabitsPerSecond)) Mbit/s", "over the minute: bodies, headers, TLS"),
            (
                "Redis nodes", Numeral.grouped(redisNodes),
                "rounds take \(redisCorePercent) % of one core; memory of \(demand.redisNodeGibibytes) GiB; replicas on top"
            ),
            (
                "Redis memory", "\(Numeral.grouped(redisMebibytes)) MiB",
                "\(Numeral.grouped(membersMebibytes)) of members in their pages, \(Numeral.grouped(activitiesMebibytes)) of activities' own values"
            ),
            (
                "Kafka", "\(Numeral.grouped(fanoutRecords + resultRecords)) records",
                "a command: \(Numeral.grouped(fanoutRecords)) fanned out, \(Numeral.grouped(resultRecords)) results"
            ),
        ]
    }

    private var notes: [String] {
        var notes: [String] = []
        if demand.updatesPerMinute > 60 {
            notes.append(
                "More than one command a second to one audience is never sent: newer states replace what waits. Planned for 60 a minute."
            )
        }
        if roundMilliseconds * min(demand.updatesPerMinute, 60) > 60_000 {
            notes.append(
                "A round lasts longer than the time between two commands: newer states take over where the rounds stand, and the alert CausewayRoundsSlow fires."
            )
        }
        if ranges < lanes {
            notes.append(
                "The audience has \(Numeral.grouped(ranges)) ranges: more lanes than these do not make its rounds shorter."
            )
        }
        notes.append(
            "Ranges fall on partitions by a hash: the lane that gets the most of them is some tenths later than a lane on average."
        )
        if redisNodes > 1 {
            notes.append(
                "More than one Redis node is a Redis Cluster; an audience's 256 segments are spread over its slots."
            )
        }
        notes.append(
            "causeway-lab fanout --members measures the cost of a member on your machines, with h2load's of a push beside it."
        )
        return notes
    }
}
