import LiveActivity

/// The possible values of all labels except partitions, lanes and threads. They are fixed when the worker starts, so
/// that each series has a fixed place, and counting costs one addition. Any other value counts as "other", "none" or,
/// for a policy, "(added)".
package struct LabelValues: Sendable {
    /// An app in an environment. If broadcasts have a pool of their own, its environment is "production-broadcasts" or
    /// "sandbox-broadcasts".
    package struct Pool: Sendable, Equatable {
        package var app: String
        package var environment: String

        package init(app: String, environment: String) {
            self.app = app
            self.environment = environment
        }
    }

    /// A key that signs a pool's provider tokens. The metrics show the id of the key that the worker had at its start,
    /// even if another key has replaced it since.
    package struct SigningKey: Sendable, Hashable {
        package var team: String
        package var keyId: String

        package init(team: String, keyId: String) {
            self.team = team
            self.keyId = keyId
        }
    }

    /// The versions in `causeway_build_info`.
    package struct Build: Sendable, Equatable {
        package var version: String
        package var librdkafka: String
        package var openssl: String
        package var hiredis: String

        package init(version: String, librdkafka: String, openssl: String, hiredis: String) {
            self.version = version
            self.librdkafka = librdkafka
            self.openssl = openssl
            self.hiredis = hiredis
        }
    }

    /// The apps' names in the configuration, in the order of the numbers by which the cores name the apps. Records
    /// without a configured app count under one more name, "none".
    package var apps: [String]
    package var pools: [Pool]
    package var environments = ["production", "sandbox"]
    /// The names of the outcomes, by raw value.
    package var outcomes: [String]
    package var responses: ResponseTable
    package var signingKeys: [SigningKey]
    package var policies: [String]
    /// The names of Redis' error codes that have their own series; the last must be "other".
    package var redisErrors: [String]
    /// The names of librdkafka's errors that have their own series; the last must be "other".
    package var kafkaErrors: [String]
    /// The topics that are read, by their names in the metrics.
    package var topics = ["commands", "registrations", "deferred", "fanout"]
    package var build: Build

    package init(
        apps: [String],
        pools: [Pool],
        outcomes: [String],
        responses: ResponseTable,
        signingKeys: [SigningKey],
        policies: [String],
        redisErrors: [String],
        kafkaErrors: [String],
        build: Build
    ) {
        self.apps = apps
        self.pools = pools
        self.outcomes = outcomes
        self.responses = responses
        self.signingKeys = signingKeys
        self.policies = policies
        self.redisErrors = redisErrors
        self.kafkaErrors = kafkaErrors
        self.build = build
    }

    /// The index of the fan-out topic. Its records are ranges of commands to audiences.
    var fanoutTopicIndex: Int? { topics.firstIndex(of: "fanout") }

    /// Returns the index of a policy's label. Policies that a reload has added share the label "(added)", because the
    /// labels are fixed at the start. No policy can have this name.
    package func policyIndex(_ policy: Int) -> Int { min(policy, policies.count) }

    /// Returns the values of a dimension, each with one text for each of ``MetricDimension/labelNames``. Empty for
    /// `thread` and `partition`, because metrics with these dimensions have no cells (``MetricLayout``).
    func values(of dimension: MetricDimension) -> [[String]] {
        switch dimension {
        case .topic: topics.map { [$0] }
        case .app: (apps + ["none"]).map { [$0] }
        case .configuredApp: apps.map { [$0] }
        case .outcome: outcomes.map { [$0] }
        case .fanoutOutcome: FanoutOutcome.allCases.map { ["\($0.name)"] }
        case .memberOutcome: MemberOutcome.allCases.map { ["\($0.name)"] }
        case .membershipChange: MembershipChangeKind.allCases.map { ["\($0.name)"] }
        case .pool: pools.map { [$0.app, $0.environment] }
        case .response: responses.labels
        case .goAwayReason: responses.reasonLabels
        case .latencyPart: LatencyPart.allCases.map { [$0.name] }
        case .environment: environments.map { [$0] }
        case .connectionPhase: ConnectionPhase.allCases.map { [$0.name] }
        case .signingKey: signingKeys.map { [$0.team, $0.keyId] }
        case .policy: policies.map { [$0] } + [["(added)"]]
        case .recordWait: RecordWait.allCases.map { [$0.name] }
        case .redisError: redisErrors.map { [$0] }
        case .redisLoss: RedisLoss.allCases.map { [$0.name] }
        case .kafkaError: kafkaErrors.map { [$0] }
        case .logKind: LogKind.allCases.map { [$0.identifier] }
        case .traceDropReason: TraceDropReason.allCases.map { [$0.name] }
        case .tracePostFailure: TracePostFailure.allCases.map { [$0.name] }
        case .build: [[build.version, build.librdkafka, build.openssl, build.hiredis]]
        case .lane: [[""]]
        case .thread, .partition: []
        }
    }
}

/// APNs' responses as two labels, the status and the reason:
/// - If Apple documents the reason for this status, the labels are the status and the reason.
/// - 200 has the reason "none".
/// - A missing response has the status "none" and the reason "none".
/// - If Apple does not document the reason for a status in `statuses`, the reason counts as "other". So the table stays
///   as small as Apple's.
/// - If the status is not in `statuses`, both labels are "other".
package struct ResponseTable: Sendable {
    /// The reason of a response: one of Apple's, "no reason", or "unknown reason".
    package struct Reason: Sendable {
        /// The status that Apple's table names for the reason; 0: Apple's table does not have the reason.
        package var documentedStatus: UInt16
        package var text: String

        package init(documentedStatus: UInt16, text: String) {
            self.documentedStatus = documentedStatus
            self.text = text
        }
    }

    /// The statuses with a label of their own; 0: there was no response. All other statuses share one label.
    static let statuses: [UInt16] = [0, 200, 400, 403, 404, 405, 410, 413, 429, 500, 503]

    private let reasons: [Reason]

    /// - Parameter reasons: the reasons in the order of APNs' `Reason` values.
    package init(reasons: [Reason]) {
        self.reasons = reasons
    }

    /// Returns the index of a response in ``labels``, without allocating memory.
    ///
    /// - Parameter reason: an index of `reasons`; any other number counts as an unknown reason.
    package func index(status: UInt16, reason: Int) -> Int {
        if reasons.indices.contains(reason), reasons[reason].documentedStatus == status, status != 0 { return reason }
        return reasons.count + (Self.statuses.firstIndex(of: status) ?? Self.statuses.count)
    }

    /// Returns the index in ``reasonLabels`` for the reason of a GOAWAY frame. A reason that Apple does not document
    /// has the last index, "other".
    package func reasonIndex(_ reason: Int) -> Int {
        reasons.indices.contains(reason) && reasons[reason].documentedStatus != 0 ? reason : reasons.count
    }

    /// Whether the series of the response with this index in ``labels`` is printed even with the value 0. Alerts need
    /// the 0: Prometheus sees no increase if a counter first appears with the value 1.
    func isShownAtZero(_ index: Int) -> Bool {
        guard reasons.indices.contains(index) else {
            // The statuses follow the reasons in ``labels``. The first two are 0 (no response) and 200.
            return index == reasons.count || index == reasons.count + 1
        }
        return Self.reasonsShownAtZero.contains(reasons[index].text)
    }

    private static let reasonsShownAtZero: Set<String> = [
        "BadDeviceToken", "DeviceTokenNotForTopic", "TopicDisallowed", "ExpiredProviderToken", "InvalidProviderToken",
        "ExpiredToken", "Unregistered", "TooManyRequests", "InternalServerError", "ServiceUnavailable",
    ]

    var labels: [[String]] {
        reasons.map { ["\($0.documentedStatus)", $0.text] }
            + Self.statuses.map { status in
                [status == 0 ? "none" : "\(status)", status == 0 || status == 200 ? "none" : "other"]
            } + [["other", "other"]]
    }

    var reasonLabels: [[String]] { reasons.map { [$0.text] } + [["other"]] }
}
