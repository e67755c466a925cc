import Logging
import Testing

@testable import Observability

/// Each case sets one fault in the numbers of a healthy worker. The diagnosis must find this fault and no other.
/// ``Fixture`` says what the indices mean.
struct DiagnosisTests {
    /// The pool of the app `match` in the sandbox.
    static let pool = 1

    /// Changes a worker's numbers during a minute. Returns its findings, each as the name of its alert, or as its text
    /// if it has no alert.
    static func alerts(_ change: (inout HealthyWorker) -> Void, partitions: [PartitionReading] = []) -> [String] {
        var worker = HealthyWorker()
        worker.publish(
            at: 0,
            kafkaPartitions: partitions.map {
                PartitionReading(topicIndex: $0.topicIndex, partition: $0.partition, lagRecordCount: 0)
            }
        )
        let totalsBefore = worker.metricRegistry.totals(nowMilliseconds: 0)
        change(&worker)
        worker.publish(at: 60_000, lanePartitions: partitions, kafkaPartitions: partitions)
        return worker.report(before: totalsBefore, at: 60_000).findings
            .map { $0.alertName.isEmpty ? $0.observation : $0.alertName }
    }

    @Test func `A healthy worker has no findings`() {
        #expect(Self.alerts { _ in } == [])
        let busy = Self.alerts { worker in
            for _ in 0..<1_000 { worker.firstLane.observe(.freshness, 0, microseconds: 900_000) }
            worker.firstLane.add(
                .pushes,
                0,
                worker.metricRegistry.labels.responses.index(status: 200, reason: 0),
                by: 1_000
            )
            worker.firstLane.add(.recordsReceived, 0, by: 4_000)
        }
        #expect(busy == [])
    }

    @Test func `A clock of Redis that was set back is not called a difference that is too large`() throws {
        func finding(_ change: (inout WorkerCondition) -> Void) throws -> Finding {
            var worker = HealthyWorker()
            worker.publish(at: 0)
            worker.metricRegistry.condition.change { $0.clockDifferenceMilliseconds = -600_000 }
            worker.metricRegistry.condition.change(change)
            worker.publish(at: 60_000)
            return try #require(worker.report(before: nil, at: 60_000).findings.first)
        }
        let setBackFinding = try finding { $0.isRedisClockSetBack = true }
        #expect(setBackFinding.severity == .attention && setBackFinding.meaning.contains("was set back"))
        #expect(try finding { $0.isClockCorrected = true }.severity == .attention)
        #expect(try finding { _ in }.severity == .broken)
    }

    /// The host responds with a certificate. So the network's rules for outgoing connections (egress) do not block it.
    @Test func `A refused certificate is not reported as an egress problem`() throws {
        func finding(_ kinds: [LogKind]) throws -> Finding {
            var worker = HealthyWorker()
            worker.publish(at: 0)
            worker.firstLane.set(.apnsConnections, Self.pool, Int(ConnectionPhase.ready.rawValue), to: 0)
            var log = LimitedLog(logger: LogCollector().logger, events: worker.metricRegistry.events)
            for (second, kind) in kinds.enumerated() {
                log.log(kind, nowMilliseconds: 0, wallMilliseconds: Int64(second) * 1_000, ["detail": "\(second)"])
            }
            worker.publish(at: 60_000)
            return try #require(worker.report(before: nil, at: 60_000).findings.first)
        }
        let untrustedFinding = try finding([.apnsUnresolved, .apnsUntrusted])
        #expect(untrustedFinding.action.contains("not trusted") && untrustedFinding.action.contains("apns.caFile"))
        #expect(!untrustedFinding.action.contains("egress") && untrustedFinding.logLines.count == 1)
        let unreachableFinding = try finding([.apnsUntrusted, .apnsClosed])
        #expect(unreachableFinding.action.contains("egress"))
    }

    @Test func `Interrupted ends of lifetimes are a finding while policies limit lifetimes`() {
        func findings(hasLifetimeLimits: Bool) -> [String] {
            Self.alerts { worker in
                worker.metricRegistry.lifetimeStatus.isFailing = true
                worker.metricRegistry.lifetimeStatus.hasLifetimeLimits = hasLifetimeLimits
            }
        }
        #expect(findings(hasLifetimeLimits: true) == ["CausewayLifetimesFailing"])
        #expect(findings(hasLifetimeLimits: false) == [])
    }

    @Test func `Each fault is found`() {
        #expect(Self.alerts { $0.secondLane.set(.redisReady, to: 0) } == ["CausewayRedisUnavailable"])
        #expect(Self.alerts { $0.kafka.set(.kafkaReady, to: 0) } == ["CausewayKafkaUnreachable"])
        #expect(Self.alerts { $0.secondLane.set(.breakerOpen, Self.pool, to: 1) } == ["CausewayBreakerOpen"])
        #expect(
            Self.alerts { $0.firstLane.set(.providerTokenAge, 0, to: 3_300_001) } == ["CausewayProviderTokenOld"]
        )
        #expect(
            Self.alerts { $0.metricRegistry.condition.change { $0.appIndicesWithRejectedKey = [1] } } == [
                "CausewayKeyFileRejected"
            ]
        )
        #expect(
            Self.alerts { $0.metricRegistry.condition.change { $0.isConfigurationRejected = true } } == [
                "CausewayConfigurationRejected"
            ]
        )
        for (difference, alerts) in [
            (60_000, []), (-60_001, ["CausewayClockWrong"]), (7_200_000, ["CausewayClockWrong"]),
        ] as [(Int64, [String])] {
            #expect(
                Self.alerts { $0.metricRegistry.condition.change { $0.clockDifferenceMilliseconds = difference } }
                    == alerts
            )
        }
        #expect(Self.alerts { $0.firstLane.add(.deadLetters, 2) } == ["CausewayDeadLetters"])
        #expect(Self.alerts { $0.firstLane.set(.laneBusyRatio, to: 810_000) } == ["CausewayLaneBusy"])
        #expect(Self.alerts { $0.kafka.set(.kafkaThreadBusyRatio, to: 810_000) } == ["CausewayLaneBusy"])
        #expect(Self.alerts { $0.firstLane.set(.redisServersUnavailable, to: 1) } == ["CausewayRedisServerUnavailable"])
        #expect(Self.alerts { $0.firstLane.add(.redisErrors, 2) } == ["CausewayRedisErrors"])
        #expect(Self.alerts { $0.firstLane.add(.redisErrors, 0) } == [])
        #expect(Self.alerts { $0.firstLane.add(.redisErrors, 3) } == ["CausewayRedisReplicasMissing"])
        #expect(Self.alerts { $0.kafka.add(.redisLosses, 0) } == ["CausewayRedisDataLost"])
        #expect(Self.alerts { $0.kafka.add(.redisLosses, 1) } == [])
        let rereadingFindings = ["Redis may have lost its last writes: 2 partitions are read again."]
        #expect(Self.alerts { $0.kafka.set(.partitionsRereading, to: 2) } == rereadingFindings)
        #expect(Self.alerts { $0.kafka.set(.partitionsAssigned, to: 0) } == ["CausewayNoPartitions"])
        #expect(Self.alerts { $0.kafka.set(.partitionsStuck, to: 1) } == ["CausewayPartitionStuck"])
        #expect(Self.alerts { $0.kafka.set(.partitionsPaused, to: 2) } == ["2 partitions are paused."])
        let spentBudgetAlerts = Self.alerts { worker in
            worker.firstLane.add(.pushRetries, 0)
            worker.firstLane.set(.retryBudgetRatio, 0, to: 50_000)
        }
        #expect(spentBudgetAlerts == ["CausewayRetryBudgetSpent"])
        let demotionAlerts = Self.alerts { worker in
            worker.firstLane.add(.budgetDraws, 0, 0, by: 99)
            worker.firstLane.add(.budgetDemotions, 0, 0, by: 100)
        }
        #expect(demotionAlerts == ["CausewayBudgetExhausted"])
        let heldCommandAlerts = Self.alerts { worker in
            worker.firstLane.add(.outcomes, 0, 3, by: 30)
            worker.secondLane.add(.outcomes, 0, 0, by: 100)
        }
        #expect(heldCommandAlerts == ["CausewayTokensMissing"])
        let fewHeldCommandAlerts = Self.alerts { worker in
            worker.firstLane.add(.outcomes, 0, 3, by: 30)
            worker.secondLane.add(.outcomes, 0, 0, by: 1_000)
        }
        #expect(fewHeldCommandAlerts == [])
        let freshnessAlerts = Self.alerts { worker in
            for _ in 0..<100 { worker.firstLane.observe(.freshness, 1, microseconds: 8_000_000) }
        }
        #expect(freshnessAlerts == ["CausewayFreshnessSlow"])
        let connectionAlerts = Self.alerts { worker in
            worker.firstLane.set(.apnsConnections, Self.pool, Int(ConnectionPhase.ready.rawValue), to: 0)
        }
        #expect(connectionAlerts == ["CausewayAPNsUnreachable"])
    }

    @Test func `One partition and one channel are named in the singular`() {
        #expect(Self.alerts { $0.kafka.set(.partitionsPaused, to: 1) } == ["1 partition is paused."])
        let rereadingFindings = ["Redis may have lost its last writes: 1 partition is read again."]
        #expect(Self.alerts { $0.kafka.set(.partitionsRereading, to: 1) } == rereadingFindings)
        let creationAlerts = Self.alerts { worker in
            worker.metricRegistry.channelStatus.change(1) { $0.failedCreationCount = 1 }
        }
        #expect(creationAlerts == ["1 channel of match could not be created in sandbox in the last minute."])
    }

    @Test func `Channels that cannot be created are reported`() {
        let creationAlerts = Self.alerts { worker in
            worker.metricRegistry.channelStatus.change(1) { $0.failedCreationCount = 2 }
        }
        #expect(creationAlerts == ["2 channels of match could not be created in sandbox in the last minute."])
        #expect(
            Self.alerts { worker in
                worker.metricRegistry.channelStatus.change(1) { $0.audienceChannelCount = 8_000 }
            } == []
        )
        let limitAlerts = Self.alerts { worker in
            worker.metricRegistry.channelStatus.change(1) { $0.audienceChannelCount = 8_001 }
        }
        #expect(limitAlerts == ["CausewayChannelsNearLimit"])
    }

    @Test func `Responses are judged by their share`() {
        func pushFindings(_ responses: [(status: UInt16, reason: Int, count: Int64)]) -> [String] {
            Self.alerts { worker in
                let table = worker.metricRegistry.labels.responses
                for response in responses {
                    let index = table.index(status: response.status, reason: response.reason)
                    worker.firstLane.add(.pushes, 2, index, by: response.count)
                }
            }
        }
        #expect(pushFindings([(200, 0, 949), (403, 3, 51)]) == ["CausewayPushesRefused"])
        #expect(pushFindings([(200, 0, 950), (400, 2, 50)]) == [])
        #expect(pushFindings([(200, 0, 700), (410, 4, 300)]) == ["CausewayDeadTokens"])
        #expect(pushFindings([(200, 0, 900), (429, 99, 100)]) == [])
        // Among few pushes, refusals are a finding only if more than half of the pushes are refused.
        #expect(pushFindings([(200, 0, 25), (403, 3, 25)]) == [])
        #expect(pushFindings([(403, 3, 1)]) == ["CausewayPushesRefused"])
        #expect(pushFindings([(410, 4, 50)]) == [])
        #expect(pushFindings([]) == [])
    }

    /// The alerts in `Helm/causeway/files/rules.yaml` have the same limits for the share of refused pushes.
    @Test func `Refusals are judged for each app and environment, and the most frequent one is named`() {
        var worker = HealthyWorker()
        worker.publish(at: 0)
        let totalsBefore = worker.metricRegistry.totals(nowMilliseconds: 0)
        let table = worker.metricRegistry.labels.responses
        worker.firstLane.add(.pushes, 1, table.index(status: 403, reason: 3), by: 3)
        worker.firstLane.add(.pushes, 1, table.index(status: 400, reason: 2), by: 2)
        worker.firstLane.add(.pushes, 2, table.index(status: 200, reason: 0), by: 10_000)
        worker.firstLane.add(.pushes, 2, table.index(status: 403, reason: 3), by: 500)
        worker.publish(at: 60_000)
        let observations = worker.report(before: totalsBefore, at: 60_000).findings.map(\.observation)
        #expect(
            observations == ["APNs refused 5 of 5 pushes of match in sandbox, most with 403 InvalidProviderToken."]
        )
    }

    /// The first 403s are a small share of the responses if APNs accepted the key until now.
    @Test func `A refused provider token is a finding before the breaker opens`() {
        func findings(acceptedCount: Int64, refusedCount: Int64, isRefused: Bool, breakerOpen: Int64 = 0) -> [String] {
            Self.alerts { worker in
                let table = worker.metricRegistry.labels.responses
                worker.firstLane.add(.pushes, Self.pool, table.index(status: 200, reason: 0), by: acceptedCount)
                worker.firstLane.add(.pushes, Self.pool, table.index(status: 403, reason: 3), by: refusedCount)
                worker.firstLane.set(.breakerOpen, Self.pool, to: breakerOpen)
                worker.metricRegistry.condition.change {
                    $0.isProviderRefusedByPoolIndex = [Self.pool: isRefused]
                }
            }
        }
        #expect(findings(acceptedCount: 6, refusedCount: 1, isRefused: true) == ["CausewayPushesRefused"])
        #expect(findings(acceptedCount: 1_000, refusedCount: 4, isRefused: true) == ["CausewayPushesRefused"])
        #expect(findings(acceptedCount: 0, refusedCount: 0, isRefused: true) == ["CausewayPushesRefused"])
        // Only one finding reports the same refusals.
        #expect(findings(acceptedCount: 0, refusedCount: 1, isRefused: true) == ["CausewayPushesRefused"])
        #expect(
            findings(acceptedCount: 6, refusedCount: 1, isRefused: true, breakerOpen: 1) == ["CausewayBreakerOpen"]
        )
        #expect(findings(acceptedCount: 6, refusedCount: 1, isRefused: false) == [])
    }

    @Test func `Old commands and a large lag are findings`() {
        let oldPartition = [
            PartitionReading(
                topicIndex: 1,
                partition: 7,
                oldestUnsettledAgeMilliseconds: 61_000,
                committableOffset: 1,
                lagRecordCount: 10
            )
        ]
        #expect(Self.alerts({ _ in }, partitions: oldPartition) == ["CausewayCommandsStale"])
        let laggingPartition = [
            PartitionReading(
                topicIndex: 0,
                partition: 7,
                oldestUnsettledAgeMilliseconds: 10,
                committableOffset: 1,
                lagRecordCount: 5_000
            )
        ]
        #expect(Self.alerts({ _ in }, partitions: laggingPartition) == ["CausewayLagGrows"])
    }

    /// A fan-out record may be unsettled for long, because it waits for the last pushes to members. Only the age of
    /// the round shows trouble.
    @Test func `Rounds are judged by their age`() {
        let oldFanoutPartition = [
            PartitionReading(
                topicIndex: 3,
                partition: 7,
                oldestUnsettledAgeMilliseconds: 600_000,
                committableOffset: 1,
                lagRecordCount: 0
            )
        ]
        #expect(Self.alerts({ _ in }, partitions: oldFanoutPartition) == [])
        #expect(Self.alerts { $0.firstLane.set(.audienceOldestRange, 1, to: 600_000) } == [])
        #expect(Self.alerts { $0.firstLane.set(.audienceOldestRound, 1, to: 60_000) } == [])
        #expect(Self.alerts { $0.firstLane.set(.audienceOldestRound, 1, to: 60_001) } == ["CausewayRoundsSlow"])
    }

    @Test func `Stopped rounds are distinguished from slow ones`() {
        func meaning(delivered: Int64) -> String? {
            var worker = HealthyWorker()
            worker.publish(at: 0)
            let totalsBefore = worker.metricRegistry.totals(nowMilliseconds: 0)
            worker.secondLane.set(.audienceOldestRound, 0, to: 75_000)
            worker.secondLane.set(.audienceMembers, 0, 0, to: delivered)
            worker.publish(at: 60_000)
            return worker.report(before: totalsBefore, at: 60_000).findings.first?.meaning
        }
        #expect(meaning(delivered: 0) == "No member had its turn in the last minute: the rounds do not advance.")
        #expect(meaning(delivered: 1)?.hasPrefix("1 member had its turn in the last minute") == true)
        #expect(meaning(delivered: 4_000)?.hasPrefix("4,000 members had their turn in the last minute") == true)
    }

    @Test func `A stuck thread is the worst finding`() {
        var worker = HealthyWorker()
        worker.publish(at: 0)
        worker.kafka.set(.partitionsPaused, to: 1)
        worker.firstLane.publish(at: 60_000)
        worker.kafka.publish(at: 60_000)
        let report = worker.report(before: nil, at: 60_000)
        #expect(report.findings.map(\.alertName) == ["CausewayRestarting", ""])
        #expect(report.findings[0].observation == "The thread lane-1 last completed an iteration 60 s ago.")
        #expect(report.severity == .broken && !report.liveness.hasSucceeded)
    }
}
