/// Whether the worker lives, and whether it is where it should be.
struct HealthReport: Sendable {
    struct Check: Sendable, Equatable {
        var name: String
        var isPassed: Bool
        var text: String
    }

    var checks: [Check]

    var isPassed: Bool { checks.allSatisfy(\.isPassed) }

    /// A line a check, for `curl` and for Kubernetes' events.
    var text: String {
        checks.map { "[\($0.isPassed ? "+" : "-")] \($0.name): \($0.text)\n" }.joined()
            + (isPassed ? "ok\n" : "not ok\n")
    }
}

extension HealthReport {
    /// A thread that shows nothing for so long is stuck.
    static let silenceMilliseconds: Int64 = 15_000
    /// From the endpoint's own start: how long a thread may take to its first turn.
    static let firstTurnMilliseconds: Int64 = 30_000

    /// From the endpoint's own start: how long Kafka may take to be found before it counts as away.
    static let firstContactMilliseconds: Int64 = 30_000

    /// Every thread turns. Only a restart mends one that does not.
    static func live(silences: [(thread: String, milliseconds: Int64?)], upMilliseconds: Int64) -> HealthReport {
        HealthReport(
            checks: silences.map { thread, silence in
                guard let silence else {
                    return Check(
                        name: thread,
                        isPassed: upMilliseconds < firstTurnMilliseconds,
                        text: "has not turned yet"
                    )
                }
                let age = "turned \(Exposition.number(silence, divisor: 1_000)) s ago"
                return Check(name: thread, isPassed: silence < silenceMilliseconds, text: age)
            }
        )
    }

    /// In its group, keys read, not on its way out. What is away elsewhere is no reason: a restart would not bring it back, and a
    /// rollout must not stop for it.
    static func ready(
        _ condition: WorkerCondition,
        isKafkaReady: Bool,
        assigned: Int64,
        upMilliseconds: Int64
    ) -> HealthReport {
        let group: Check
        switch condition.membership {
        case .member where assigned > 0:
            group = Check(name: "group", isPassed: true, text: "reads \(assigned) partitions")
        case .member:
            group = Check(name: "group", isPassed: true, text: "waits for partitions: others read them all")
        case .joining where !isKafkaReady && (condition.hasMetKafka || upMilliseconds >= firstContactMilliseconds):
            group = Check(
                name: "group",
                isPassed: true,
                text: "waits for Kafka, which is away: not this worker's fault"
            )
        case .joining:
            group = Check(name: "group", isPassed: false, text: "is joining")
        case .left:
            group = Check(name: "group", isPassed: false, text: "has left")
        }
        return HealthReport(checks: [
            group,
            Check(
                name: "keys",
                isPassed: condition.areKeysLoaded,
                text: condition.areKeysLoaded ? "loaded" : "not loaded yet"
            ),
            Check(
                name: "draining",
                isPassed: !condition.isDraining,
                text: condition.isDraining ? "on its way out" : "no"
            ),
        ])
    }
}
