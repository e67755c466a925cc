extension Diagnosis {
    /// Returns a finding if the last poll of the lifetime keeper failed: Redis or Kafka did not take its calls.
    var lifetimeFindings: [Finding] {
        let latestKind = loggedKinds.first { [.lifetimeEndsInterrupted, .lifetimeEndsResumed].contains($0) }
        guard latestKind == .lifetimeEndsInterrupted else { return [] }
        return [
            Finding(
                severity: .attention,
                alertName: "",
                observation: "Activities whose lifetime is over cannot be ended or started again now.",
                meaning: "They stay on the phones until Redis and Kafka work again. The worker tries each second.",
                action:
                    """
                    Read the event lifetime-ends-interrupted below. The Kafka user needs Write on the commands topic, \
                    because policies have lifetimeSeconds.
                    """,
                logKinds: [.lifetimeEndsInterrupted]
            )
        ]
    }
}
