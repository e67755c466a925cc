import Foundation
import Logging
import Testbed
import Testing

@testable import Observability

struct CatalogTests {
    /// Metrics whose names and labels must not change, because dashboards and alerts of users name them.
    static let promisedMetrics = """
        causeway_records_received_total{topic} causeway_outcomes_total{app,outcome} causeway_dead_letters_total{app}
        causeway_invalidations_total{app} causeway_commands_replaced_total{app} causeway_pushes_total{app,environment,status,reason}
        causeway_push_retries_total{app} causeway_retry_budget_ratio{app} causeway_freshness_seconds{app}
        causeway_latency_seconds{part} causeway_consumer_lag_records{topic,partition}
        causeway_oldest_unsettled_seconds{topic,partition} causeway_partitions_assigned causeway_partitions_paused
        causeway_read_ahead_active causeway_records_in_progress causeway_pushes_in_flight{app,environment}
        causeway_pushes_waiting{app,environment} causeway_apns_connections{app,environment,state}
        causeway_apns_streams_max{app,environment} causeway_apns_goaway_total{app,environment,reason}
        causeway_apns_round_trip_seconds{environment} causeway_breaker_open{app,environment}
        causeway_provider_token_age_seconds{team,key_id} causeway_key_file_rejected{app}
        causeway_budget_draws_total{app,policy} causeway_budget_demotions_total{app,policy}
        causeway_redis_round_trip_seconds causeway_redis_reconnects_total causeway_redis_ready
        causeway_redis_servers_unavailable causeway_start_budget_waits_total{app}
        causeway_redis_errors_total{code} causeway_kafka_errors_total{code} causeway_kafka_ready
        causeway_lane_busy_ratio{lane} causeway_draining causeway_log_lines_suppressed_total{kind}
        causeway_audience_members_total{app,outcome} causeway_audience_ranges_total{app,outcome}
        causeway_audience_commands_total{app} causeway_audience_rounds{app} causeway_audience_members_parked{app}
        causeway_audience_range_seconds{app} causeway_audience_command_seconds{app}
        causeway_audience_oldest_round_seconds{app} causeway_audience_oldest_range_seconds{app}
        causeway_audience_pages_read_total causeway_audience_memberships_total{app,change}
        causeway_audience_appends_repeated_total causeway_audience_pages_arranged_total
        process_cpu_seconds_total process_resident_memory_bytes process_open_fds process_max_fds
        process_start_time_seconds causeway_build_info{version,librdkafka,openssl,hiredis}
        """

    @Test func `Every promised metric exists`() {
        let names = Set(
            MetricCatalog.definitions.map {
                $0.labelNames.isEmpty ? $0.name : "\($0.name){\($0.labelNames.joined(separator: ","))}"
            }
        )
        let missing = Self.promisedMetrics.split(whereSeparator: \.isWhitespace).filter { !names.contains(String($0)) }
        #expect(missing.isEmpty)
    }

    @Test func `Metric names follow the rules of Prometheus`() {
        let definitions = MetricCatalog.definitions
        #expect(Set(definitions.map(\.name)).count == definitions.count)
        for definition in definitions {
            #expect(definition.name.wholeMatch(of: /(causeway|process)_[a-z0-9_]+/) != nil, "\(definition.name)")
            #expect(definition.name.hasSuffix("_total") == (definition.kind == .counter), "\(definition.name)")
            if definition.unit.name == "seconds", definition.kind != .counter {
                #expect(definition.name.hasSuffix("_seconds"), "\(definition.name)")
            }
            #expect(!definition.help.isEmpty && !definition.meaning.isEmpty && !definition.help.contains("\n"))
            for label in definition.labelNames { #expect(label.wholeMatch(of: /[a-z][a-z0-9_]*/) != nil, "\(label)") }
        }
    }

    /// Without `_seconds`, the name of a duration may be that of a counter without its plural "s". The case of this
    /// duration ends with `Duration`.
    @Test func `A metric has the same name in the code and on the page`() {
        let publicNames = Set(MetricCatalog.definitions.map(\.name))
        for definition in MetricCatalog.definitions {
            let name = "\(definition.metric)".replacing(/[A-Z]/) { "_" + $0.output.lowercased() }
            let prefix = name.hasPrefix("process_") ? "" : "causeway_"
            let nameWithoutUnit = definition.name.replacing(/_total$/, with: "").replacing(/_seconds$/, with: "")
            let isSingularOfCounter = publicNames.contains(nameWithoutUnit + "s_total")
            let publicName = nameWithoutUnit + (isSingularOfCounter ? "_duration" : "")
            #expect(publicName == prefix + name, "rename the case in Metric.swift, never the metric")
            #expect(definition.name.hasSuffix("_total") == (definition.kind == .counter))
        }
    }

    @Test func `A log kind has the same name in the code and in the log`() {
        for definition in LogKindCatalog.definitions {
            let name = "\(definition.kind)".replacing(/[A-Z]/) { "-" + $0.output.lowercased() }
            #expect(definition.identifier == name)
            // A log line of level warning or above must say what an operator can do.
            if definition.level >= .warning {
                #expect(!definition.action.isEmpty, "\(name): give it an action in LogKindCatalog*.swift")
            }
            #expect(
                !definition.message.contains("|") && !definition.meaning.contains("|")
                    && !definition.action.contains("|")
            )
        }
    }

    @Test func `The page of metrics in the repository is the one that the program prints`() throws {
        let page = try Repository.text("Helm/causeway/METRICS.md")
        #expect(page == MetricPage.markdown, "write it again: make metrics-page")
    }

    /// Labels of many metrics may have the values `other` and `(added)`, so the head of the page explains them once.
    @Test func `The head of the page explains the label values that are no names of the configuration`() throws {
        let page = MetricPage.markdown
        let head = try #require(page.range(of: "\n## ").map { page[..<$0.lowerBound] })
        for value in ["\"other\"", "\"(added)\""] { #expect(head.contains(value), "\(value)") }
    }

    @Test func `The number of series stays small with the most apps`() {
        var labels = Fixture.labels
        labels.apps = (0..<255).map { "app\($0)" }
        labels.pools = labels.apps.flatMap { app in
            labels.environments.map { LabelValues.Pool(app: app, environment: $0) }
        }
        labels.policies = (0..<32).map { "policy\($0)" }
        labels.responses = ResponseTable(reasons: (0..<34).map { .init(documentedStatus: 400, text: "Reason\($0)") })
        labels.signingKeys = (0..<255).map { .init(team: "T\($0)", keyId: "K\($0)") }
        #expect(MetricLayout(labels: labels).cellCount < 100_000)
    }
}
