import LiveActivity

/// The values that labels can have: known when the worker starts, and never more than these. What comes from outside and is not
/// among them is counted under "other" or "none".
package struct LabelSpace: Sendable {
    /// An app in an environment.
    package struct Pool: Sendable, Equatable {
        package var app: String
        package var environment: String

        package init(app: String, environment: String) {
            self.app = app
            self.environment = environment
        }
    }

    /// What signs a pool's provider tokens.
    package struct Signer: Sendable, Hashable {
        package var team: String
        package var keyIdentifier: String

        package init(team: String, keyIdentifier: String) {
            self.team = team
            self.keyIdentifier = keyIdentifier
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

    /// The names under `apps` in the configuration, by the core's number of the app. Records of no app count under one more, "none".
    package var apps: [String]
    package var pools: [Pool]
    package var environments = ["production", "sandbox"]
    /// By the raw value of the outcome.
    package var outcomes: [String]
    package var answers: AnswerTable
    package var signers: [Signer]
    package var policies: [String]
    /// Names of Redis' error codes that are told apart; the last should be "other".
    package var redisErrors: [String]
    /// Names of librdkafka's errors that are told apart; the last should be "other".
    package var kafkaErrors: [String]
    /// The topics that are read, by their names in the metrics.
    package var topics = ["commands", "registrations", "deferred", "fanout"]
    package var build: Build

    package init(
        apps: [String],
        pools: [Pool],
        outcomes: [String],
        answers: AnswerTable,
        signers: [Signer],
        policies: [String],
        redisErrors: [String],
        kafkaErrors: [String],
        build: Build
    ) {
        self.apps = apps
        self.pools = pools
        self.outcomes = outcomes
        self.answers = answers
        self.signers = signers
        self.policies = policies
        self.redisErrors = redisErrors
        self.kafkaErrors = kafkaErrors
        self.build = build
    }

    /// The index of the topic whose records are ranges of commands to audiences.
    var fanoutTopic: Int? { topics.firstIndex(of: "fanout") }

    /// The index under which records of no configured app count.
    package var noApp: Int { apps.count }

    /// Each value as its labels, in their order. A dimension without cells has none.
    func values(of dimension: MetricDimension) -> [[String]] {
        switch dimension {
        case .topic: topics.map { [$0] }
        case .app: (apps + ["none"]).map { [$0] }
        case .configuredApp: apps.map { [$0] }
        case .outcome: outcomes.map { [$0] }
        case .roundOutcome: RoundOutcome.allCases.map { ["\($0.name)"] }
        case .memberOutcome: MemberCounts.Outcome.allCases.map { ["\($0.name)"] }
        case .membershipChange: MembershipChangeKind.allCases.map { ["\($0.name)"] }
        case .pool: pools.map { [$0.app, $0.environment] }
        case .answer: answers.labels
        case .goAwayReason: answers.reasonLabels
        case .stage: DeliveryStage.allCases.map { [$0.name] }
        case .environment: environments.map { [$0] }
        case .connectionState: ConnectionState.allCases.map { [$0.name] }
        case .signer: signers.map { [$0.team, $0.keyIdentifier] }
        case .policy: policies.map { [$0] }
        case .wait: RecordWait.allCases.map { [$0.name] }
        case .redisError: redisErrors.map { [$0] }
        case .redisLoss: RedisLoss.allCases.map { [$0.name] }
        case .kafkaError: kafkaErrors.map { [$0] }
        case .logKind: LogKind.allCases.map { [$0.identifier] }
        case .traceDrop: TraceDrop.allCases.map { [$0.name] }
        case .tracePostFailure: TracePostFailure.allCases.map { [$0.name] }
        case .build: [[build.version, build.librdkafka, build.openssl, build.hiredis]]
        case .lane: [[""]]
        case .thread, .partition: []
        }
    }
}

/// APNs' answers as two labels: a status, and the reason that Apple documents for it. An answer that pairs them otherwise counts
/// under its status and "other", so that the table stays as long as Apple's.
package struct AnswerTable: Sendable {
    /// One of Apple's reasons.
    package struct Reason: Sendable {
        /// The status that Apple's table gives it; 0: none, as for "no reason" and "unknown reason".
        package var documentedStatus: UInt16
        package var text: String

        package init(documentedStatus: UInt16, text: String) {
            self.documentedStatus = documentedStatus
            self.text = text
        }
    }

    /// Statuses that are told apart; the place behind them is for all others.
    static let statuses: [UInt16] = [0, 200, 400, 403, 404, 405, 410, 413, 429, 500, 503]

    private let reasons: [Reason]

    /// - Parameter reasons: by the number under which their owner knows them.
    package init(reasons: [Reason]) {
        self.reasons = reasons
    }

    /// Where an answer counts, without allocation. The reason's number may come from a table that is longer than this one.
    package func index(status: UInt16, reason: Int) -> Int {
        if reasons.indices.contains(reason), reasons[reason].documentedStatus == status, status != 0 { return reason }
        return reasons.count + (Self.statuses.firstIndex(of: status) ?? Self.statuses.count)
    }

    /// Where a GOAWAY's reason counts.
    package func reasonIndex(_ reason: Int) -> Int {
        reasons.indices.contains(reason) && reasons[reason].documentedStatus != 0 ? reason : reasons.count
    }

    /// The answers that alerts and people look for are shown before the first of them: a counter that appears with its first count
    /// has no increase then.
    func isShownAtZero(_ index: Int) -> Bool {
        guard reasons.indices.contains(index) else {
            return index == reasons.count || index == reasons.count + 1
        }
        return Self.reasonsShownAtZero.contains(reasons[index].text)
    }

    private static let reasonsShownAtZero: Set<String> = [
        "BadDeviceToken", "DeviceTokenNotForTopic", "ExpiredProviderToken", "InvalidProviderToken", "ExpiredToken",
        "Unregistered", "TooManyRequests", "InternalServerError", "ServiceUnavailable",
    ]

    var labels: [[String]] {
        reasons.map { ["\($0.documentedStatus)", $0.text] }
            + Self.statuses.map { status in
                [status == 0 ? "none" : "\(status)", status == 0 || status == 200 ? "none" : "other"]
            } + [["other", "other"]]
    }

    var reasonLabels: [[String]] { reasons.map { [$0.text] } + [["other"]] }
}
