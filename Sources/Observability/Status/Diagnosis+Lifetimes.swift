extension Diagnosis {
    /// Returns a finding if the lifetime keeper fails: Redis or Kafka does not take its calls.
    var lifetimeFindings: [Finding] {
        guard window.currentTotals[.lifetimesFailing] != 0 else { return [] }
        return [
            Finding(
                severity: .attention,
                alertName: "CausewayLifetimesFailing",
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
