import Numbers

extension Diagnosis {
    /// Whether the latest failure of a connection to APNs was a certificate that is not trusted.
    private var isApnsUntrusted: Bool {
        loggedKinds.first { [.apnsUntrusted, .apnsClosed, .apnsUnresolved].contains($0) } == .apnsUntrusted
    }

    var poolFindings: [Finding] {
        var findings: [Finding] = []
        for (index, pool) in labels.pools.enumerated() {
            let name = "\(pool.app) in \(pool.environment)"
            if window.currentTotals[.breakerOpen, index] != 0 {
                findings.append(
                    Finding(
                        severity: .broken,
                        alertName: "CausewayBreakerOpen",
                        observation: "Pushes of \(name) are paused.",
                        meaning:
                            """
                            Pushes cannot succeed now. Only one probe at a time is sent. Newer states replace waiting \
                            ones.
                            """,
                        action:
                            "The event apns-breaker-open below says why. unavailability: Apple; deviceTokens: a wrong "
                            + "environment or bundle; providerToken: a wrong key, team, environment or bundle, or a "
                            + "proxy in between.",
                        logKinds: [.apnsBreakerOpen]
                    )
                )
            } else if window.currentTotals[.apnsConnections, index, Int(ConnectionPhase.ready.rawValue)] == 0 {
                let waitingPushCount = window.currentTotals[.pushesWaiting, index]
                let hasWaitingPushes = waitingPushCount > 0
                findings.append(
                    Finding(
                        severity: hasWaitingPushes ? .broken : .attention,
                        alertName: "CausewayAPNsUnreachable",
                        observation: "No APNs connection is ready for \(name).",
                        meaning: hasWaitingPushes
                            ? "\(Numeral.counted(waitingPushCount, "push waits", "pushes wait")) for one."
                            : "Neither a single command nor a broadcast waits for one now.",
                        action: isApnsUntrusted
                            ? """
                            The certificate of APNs is not trusted: correct apns.caFile, or remove it to trust the \
                            system's authorities.
                            """
                            : """
                            Check egress to port 443 or 2197, and DNS. Read the events apns-closed and \
                            apns-unresolved below.
                            """,
                        logKinds: isApnsUntrusted ? [.apnsUntrusted] : [.apnsClosed, .apnsUnresolved]
                    )
                )
            }
        }
        return findings + providerKeyFindings
    }

    private var providerKeyFindings: [Finding] {
        var findings: [Finding] = []
        for (index, key) in labels.signingKeys.enumerated()
        where window.currentTotals[.providerTokenAge, index] > Self.providerTokenAgeMillisecondsMax {
            let age = Numeral.duration(microseconds: window.currentTotals[.providerTokenAge, index] * 1_000)
            findings.append(
                Finding(
                    severity: .broken,
                    alertName: "CausewayProviderTokenOld",
                    observation: "The provider token of key \(key.keyId), which pushes need, is \(age) old.",
                    meaning: "The worker could not sign a newer token and no longer uses this one, so pushes wait.",
                    action:
                        """
                        Read the event provider-token-refused below, and check the machine's clock. Then restart this \
                        worker.
                        """,
                    logKinds: [.providerTokenRefused]
                )
            )
        }
        for (index, app) in labels.apps.enumerated() where condition.appIndicesWithRejectedKey.contains(index) {
            findings.append(
                Finding(
                    severity: .attention,
                    alertName: "CausewayKeyFileRejected",
                    observation: "The new key file of \(app) cannot be used, or APNs refuses its key.",
                    meaning:
                        """
                        The previous key stays in use until this worker restarts. Then the worker cannot start, or its \
                        pushes wait.
                        """,
                    action: "Read the event key-rejected below, and write the complete file of the right key.",
                    logKinds: [.keyRejected]
                )
            )
        }
        return findings
    }

    /// Findings about refusals and dead tokens among APNs' responses in the time window, usually a minute. Each pool is
    /// checked alone, as in the Prometheus alerts.
    var responseFindings: [Finding] {
        labels.pools.enumerated()
            .flatMap { index, pool in responseFindings(of: "\(pool.app) in \(pool.environment)", index) }
    }

    /// Returns findings about too many refusals or dead tokens in one pool. Unlike the alert `CausewayPushesRefused`,
    /// it does not count a 429 as a refusal, because the worker sends the push again.
    private func responseFindings(of name: String, _ pool: Int) -> [Finding] {
        var responseCount: Int64 = 0
        var refusedCount: Int64 = 0
        var deadTokenCount: Int64 = 0
        var commonestRefusal: (label: String, count: Int64) = ("", 0)
        for (response, values) in labels.responses.labels.enumerated() {
            let count = window.count(.pushes, pool, response) ?? 0
            responseCount += count
            if values[0] == "410" {
                deadTokenCount += count
            } else if values[0].hasPrefix("4"), values[0] != "429" {
                refusedCount += count
                if count > commonestRefusal.count { commonestRefusal = ("\(values[0]) \(values[1])", count) }
            }
        }
        // If there are few responses, more than half of them must be refusals. So a wrong key is reported after the
        // very first push: its refusal is then the only response.
        let hasManyResponses = responseCount >= Self.samplesMin
        var findings: [Finding] = []
        if hasManyResponses ? refusedCount * 20 > responseCount : refusedCount * 2 > responseCount {
            findings.append(
                Finding(
                    severity: hasManyResponses ? .broken : .attention,
                    alertName: "CausewayPushesRefused",
                    observation:
                        """
                        APNs refused \(Numeral.grouped(refusedCount)) of \
                        \(Numeral.counted(responseCount, "push", "pushes")) of \(name), most with \
                        \(commonestRefusal.label).
                        """,
                    meaning:
                        """
                        After a refusal of the key, the topic or all tokens, pushes wait and are retried. A push whose \
                        own value is refused has a result with the outcome failed and the reason.
                        """,
                    action:
                        """
                        403: check key, team and environment. TopicDisallowed, BadTopic: check the bundle id. \
                        BadDeviceToken, DeviceTokenNotForTopic: the tokens are from the other environment or from \
                        another bundle. PayloadTooLarge, BadPriority and similar: correct the producer. other: \
                        probably a proxy responds.
                        """
                )
            )
        } else if let finding = refusedProviderTokenFinding(of: name, pool) {
            findings.append(finding)
        }
        if hasManyResponses, deadTokenCount * 5 > responseCount {
            findings.append(
                Finding(
                    severity: .attention,
                    alertName: "CausewayDeadTokens",
                    observation:
                        """
                        \(Numeral.grouped(deadTokenCount)) of \(Numeral.grouped(responseCount)) pushes of \(name) went \
                        to dead tokens.
                        """,
                    meaning: "Activities have ended or apps were deleted, and the producer does not know.",
                    action:
                        """
                        Producers should read the invalidations topic. After a large event the number falls \
                        automatically.
                        """
                )
            )
        }
        return findings
    }

    /// Returns a finding if APNs refuses the pool's provider token, its topic, or all requests. None while the circuit
    /// breaker is open, because this has a finding of its own.
    ///
    /// One refusal is enough, even if it is older than the time window, because /readyz may already fail after one.
    private func refusedProviderTokenFinding(of name: String, _ pool: Int) -> Finding? {
        guard condition.isProviderRefusedByPoolIndex[pool] == true,
            window.currentTotals[.breakerOpen, pool] == 0
        else { return nil }
        return Finding(
            severity: .attention,
            alertName: "CausewayPushesRefused",
            observation: "APNs refuses the key or the topic of \(name).",
            meaning: "Pushes wait and are retried. After more refusals, the worker sends only probes.",
            action: "Check key, team, environment and bundle id. The table APNs' responses below has the reason."
        )
    }

    var recordFindings: [Finding] {
        var findings: [Finding] = []
        if let count = window.count(.deadLetters), count > 0 {
            findings.append(
                Finding(
                    severity: .attention,
                    alertName: "CausewayDeadLetters",
                    observation:
                        "\(Numeral.counted(count, "record", "records")) went to the dead letters in the last minute.",
                    meaning: "Such a record is not a valid command or registration, so it had no effect.",
                    action:
                        """
                        Read the headers `error`, `detail` and `source` of the records. Then correct the producer or \
                        the configuration.
                        """
                )
            )
        }
        for (index, app) in labels.apps.enumerated() { findings += recordFindings(of: app, index) }
        return findings
    }

    /// Returns a finding if more than `usualHeldCommandsMax` commands, and more than a fifth of all commands, are held.
    /// A command is held because its activity's token is not known.
    private func heldShareFinding(of app: String, _ index: Int) -> Finding? {
        let counts = labels.outcomes.indices.map { window.count(.outcomes, index, $0) ?? 0 }
        guard let heldIndex = labels.outcomes.firstIndex(of: "held") else { return nil }
        let heldCount = counts[heldIndex]
        let commandCount = counts.reduce(0, +)
        guard heldCount > Self.usualHeldCommandsMax, heldCount * 5 > commandCount else { return nil }
        return Finding(
            severity: .broken,
            alertName: "CausewayTokensMissing",
            observation:
                "\(Numeral.grouped(heldCount)) of \(Numeral.grouped(commandCount)) commands of \(app) are held.",
            meaning: "No token of their activities is known. The phones show nothing new until a token is registered.",
            action: "Check whether registrations are written for the same activities and the same app."
        )
    }

    private func recordFindings(of app: String, _ index: Int) -> [Finding] {
        var findings: [Finding] = []
        let freshness = window.histogram(.freshness, index)
        if freshness.count >= Self.samplesMin, let p99 = freshness.quantile(percent: 99),
            p99 > Self.freshnessMicrosecondsMax
        {
            findings.append(
                Finding(
                    severity: .attention,
                    alertName: "CausewayFreshnessSlow",
                    observation:
                        "The slowest 1 % of the pushes of \(app) take more than \(Numeral.duration(microseconds: p99)).",
                    meaning:
                        """
                        This is the time from a command's record to APNs' response. Until then, the phones show old \
                        states.
                        """,
                    action: "The table Latency by part below shows which part is slow."
                )
            )
        }
        if let finding = heldShareFinding(of: app, index) { findings.append(finding) }
        // The retry budget matters only if pushes were retried in the time window.
        if (window.count(.pushRetries, index) ?? 0) > 0, window.currentTotals[.retryBudgetRatio, index] < 100_000 {
            findings.append(
                Finding(
                    severity: .attention,
                    alertName: "CausewayRetryBudgetSpent",
                    observation: "Less than 10 % of the retry budget of \(app) is left.",
                    meaning: "When the budget is empty, pushes that must be retried wait at least 15 s.",
                    action: "APNs or the network to it has a problem. See the table of APNs' responses."
                )
            )
        }
        let highPriorityPushCount = window.count(.budgetDraws, index) ?? 0
        let demotedPushCount = window.count(.budgetDemotions, index) ?? 0
        if demotedPushCount >= Self.samplesMin, demotedPushCount > highPriorityPushCount {
            findings.append(
                Finding(
                    severity: .attention,
                    alertName: "CausewayBudgetExhausted",
                    observation:
                        "\(Numeral.grouped(demotedPushCount)) pushes of \(app) requested priority 10 and were sent at 5.",
                    meaning: "Their activities' budgets are empty, or have only their reserve for alerts and ends. "
                        + "Phones may show these pushes later.",
                    action: "Request priority 10 less often, or give the app a policy with a larger budget."
                )
            )
        }
        return findings
    }
}
