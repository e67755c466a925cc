import Numbers

/// The result of a health check (whether the worker is alive, or ready), and the checks that decided it.
struct HealthReport: Sendable {
    struct Check: Sendable, Equatable {
        var name: String
        var hasSucceeded: Bool
        var text: String
    }

    var checks: [Check]

    var hasSucceeded: Bool { checks.allSatisfy(\.hasSucceeded) }

    /// The report as text, for `curl` and for Kubernetes' events: one line for each check, and one for the result.
    var text: String {
        checks.map { "[\($0.hasSucceeded ? "+" : "-")] \($0.name): \($0.text)\n" }.joined()
            + (hasSucceeded ? "ok\n" : "not ok\n")
    }
}

extension HealthReport {
    /// `/livez` fails if a thread completes no iteration for this time. After a pause that the thread has noted
    /// (``PublishedMetrics/noteIterationPause(untilMilliseconds:)``), the time counts from the noted end of the pause.
    static let iterationAgeMillisecondsMax: Int64 = 15_000
    /// `/livez` fails if a thread has completed no iteration at all this long after the endpoint started.
    static let firstIterationMillisecondsMax: Int64 = 30_000

    /// Kafka counts as down if no broker has responded this long after the endpoint started. While Kafka is down, a
    /// worker without partitions is ready, so that a rollout does not wait for Kafka.
    static let firstBrokerContactMillisecondsMax: Int64 = 30_000

    /// Checks whether the worker is alive: whether every thread runs iterations. Only a restart helps a stuck thread.
    static func liveness(iterationAges: [(thread: String, milliseconds: Int64?)], uptimeMilliseconds: Int64)
        -> HealthReport
    {
        HealthReport(
            checks: iterationAges.map { thread, iterationAgeMilliseconds in
                guard let iterationAgeMilliseconds else {
                    return Check(
                        name: thread,
                        hasSucceeded: uptimeMilliseconds < firstIterationMillisecondsMax,
                        text: "has completed no iteration yet"
                    )
                }
                let age =
                    """
                    last completed an iteration \(Numeral.exactQuotient(iterationAgeMilliseconds, divisor: 1_000)) s \
                    ago
                    """
                return Check(
                    name: thread,
                    hasSucceeded: iterationAgeMilliseconds < iterationAgeMillisecondsMax,
                    text: age
                )
            }
        )
    }

    /// Checks whether the worker is ready. A ready worker
    /// - has partitions, or is a member of its group while other workers have all partitions
    /// - has read its keys, and APNs does not refuse the keys or topics of all apps
    /// - is not stopping.
    ///
    /// A rollout must not wait for the end of an outage. So outages of Redis and APNs do not matter here, and while
    /// Kafka is unreachable, a worker without partitions is ready too.
    ///
    /// - Parameter isEveryAppRefused: whether APNs refuses the provider tokens or topics of every app, so that this
    ///   worker could send nothing.
    static func readiness(
        _ condition: WorkerCondition,
        isEveryAppRefused: Bool,
        uptimeMilliseconds: Int64
    ) -> HealthReport {
        // Use only `condition`, not the published metrics. The metrics are a moment older than `condition`, so both
        // together could show a state that never existed.
        let isFirstContactLate = !condition.hasReachedKafka && uptimeMilliseconds >= firstBrokerContactMillisecondsMax
        let isKafkaUnreachable = condition.isKafkaUnreachable || isFirstContactLate
        return HealthReport(checks: [
            groupCheck(condition, isKafkaUnreachable: isKafkaUnreachable),
            keysCheck(condition, isEveryAppRefused: isEveryAppRefused),
            Check(
                name: "draining",
                hasSucceeded: !condition.isDraining,
                text: condition.isDraining ? "yes" : "no"
            ),
        ])
    }

    private static func groupCheck(_ condition: WorkerCondition, isKafkaUnreachable: Bool) -> Check {
        let assignedPartitionCount = condition.assignedPartitionCount
        return switch condition.consumerGroupState {
        case .left: Check(name: "group", hasSucceeded: false, text: "has left")
        // With the cooperative protocol, the worker keeps reading its partitions during a rebalance.
        case .member where assignedPartitionCount > 0, .joining where assignedPartitionCount > 0:
            Check(
                name: "group",
                hasSucceeded: true,
                text: "reads \(Numeral.counted(assignedPartitionCount, "partition", "partitions"))"
            )
        case .member:
            Check(name: "group", hasSucceeded: true, text: "waits for partitions: other workers read them all")
        case .joining where isKafkaUnreachable:
            Check(name: "group", hasSucceeded: true, text: "waits for Kafka, which is unreachable")
        case .joining where condition.isCommandsTopicMissing:
            Check(
                name: "group",
                hasSucceeded: false,
                text:
                    "the commands topic does not exist, or the Kafka user may not describe it"
            )
        case .joining: Check(name: "group", hasSucceeded: false, text: "is joining: no partitions yet")
        }
    }

    private static func keysCheck(_ condition: WorkerCondition, isEveryAppRefused: Bool) -> Check {
        guard condition.areSigningKeysLoaded else {
            return Check(name: "keys", hasSucceeded: false, text: "not loaded yet")
        }
        guard isEveryAppRefused else { return Check(name: "keys", hasSucceeded: true, text: "loaded") }
        return Check(
            name: "keys",
            hasSucceeded: false,
            text:
                "APNs refuses every app's key: wrong key, team, environment or bundle id, or a proxy in between"
        )
    }
}
