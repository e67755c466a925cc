import Testbed
import Testing

/// The alerts whose condition, or a part of it, can be seen in one reading of the metrics. Most other alerts depend on
/// an increase between two readings.
enum SingleScrapeAlert: String, CaseIterable {
    case commandsStale = "CausewayCommandsStale"
    case lagGrows = "CausewayLagGrows"
    case roundsSlow = "CausewayRoundsSlow"
    case noPartitions = "CausewayNoPartitions"
    case partitionStuck = "CausewayPartitionStuck"
    case apnsUnreachable = "CausewayAPNsUnreachable"
    case breakerOpen = "CausewayBreakerOpen"
    case providerTokenOld = "CausewayProviderTokenOld"
    case keyFileRejected = "CausewayKeyFileRejected"
    case redisUnavailable = "CausewayRedisUnavailable"
    case redisServerUnavailable = "CausewayRedisServerUnavailable"
    case kafkaUnreachable = "CausewayKafkaUnreachable"
    case laneBusy = "CausewayLaneBusy"
    case lifetimesFailing = "CausewayLifetimesFailing"
    case configurationRejected = "CausewayConfigurationRejected"
    case clockWrong = "CausewayClockWrong"

    /// Whether the reading meets the part of the alert's condition that one reading can show.
    func isCaused(in scrape: Scrape) -> Bool {
        switch self {
        case .commandsStale:
            ["commands", "registrations", "deferred"]
                .contains { scrape.highest("causeway_oldest_unsettled_seconds", ["topic": $0]) > 60 }
        case .lagGrows: (scrape.sum("causeway_consumer_lag_records") ?? 0) > 1_000
        case .roundsSlow: scrape.highest("causeway_audience_oldest_round_seconds") > 60
        case .noPartitions: scrape.sum("causeway_partitions_assigned") == 0
        case .partitionStuck: scrape.highest("causeway_partitions_stuck") > 0
        case .apnsUnreachable: scrape.lowest("causeway_apns_connections", ["state": "ready"]) == 0
        case .breakerOpen: scrape.highest("causeway_breaker_open") > 0
        case .providerTokenOld: scrape.highest("causeway_provider_token_age_seconds") > 3_300
        case .keyFileRejected: scrape.highest("causeway_key_file_rejected") > 0
        case .redisUnavailable: scrape.sum("causeway_redis_ready") == 0
        case .redisServerUnavailable:
            scrape.highest("causeway_redis_servers_unavailable") > 0 && scrape.sum("causeway_redis_ready") == 1
        case .kafkaUnreachable: scrape.sum("causeway_kafka_ready") == 0
        case .clockWrong: scrape.highest("causeway_clock_difference_seconds") > 60
        case .laneBusy:
            max(scrape.highest("causeway_lane_busy_ratio"), scrape.highest("causeway_kafka_thread_busy_ratio")) > 0.8
        case .lifetimesFailing: scrape.highest("causeway_lifetimes_failing") > 0
        case .configurationRejected: scrape.highest("causeway_configuration_rejected") > 0
        }
    }
}

extension ExampleRun {
    /// Waits for a reading in which the metrics are as expected, and exactly these alerts have a cause.
    ///
    /// The threads of a worker publish their numbers at different times, so a reading may mix older and newer numbers.
    /// A ``PrometheusAlertHistory`` may count one reading for several minutes, so it must not be such a mixture.
    ///
    /// - Parameter ignoring: alerts that may have a cause or not.
    func awaitSteadyState(
        _ what: String,
        alerting: Set<SingleScrapeAlert> = [],
        ignoring: Set<SingleScrapeAlert> = [],
        within limit: Duration = eventWaitMax,
        meanwhile: () throws -> Void = {},
        _ isMet: (Scrape) -> Bool
    ) throws -> Scrape {
        let reasons = alerting.map(\.rawValue).sorted()
        return try awaitMetrics("\(what), reasons for \(reasons) alone,", within: limit, meanwhile: meanwhile) {
            scrape in
            isMet(scrape)
                && SingleScrapeAlert.allCases.allSatisfy {
                    ignoring.contains($0) || $0.isCaused(in: scrape) == alerting.contains($0)
                }
        }
    }
}
