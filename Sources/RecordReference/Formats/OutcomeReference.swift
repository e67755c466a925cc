import LiveActivity

/// The description of an outcome: its meaning, and what the producer should do.
package struct OutcomeReference: Sendable {
    package var name: String
    package var meaning: String
    package var recommendedAction: String

    init(_ name: StaticString, _ meaning: String, _ recommendedAction: String) {
        self.name = name.description
        self.meaning = meaning
        self.recommendedAction = recommendedAction
    }

    init(_ outcome: Outcome) {
        self.init(outcome.name, outcome.meaning.description, outcome.recommendedAction.description)
    }

    init(_ outcome: FanoutOutcome) {
        switch outcome {
        case .reachedAllMembers:
            self.init(
                outcome.name,
                "Every member had its turn: each was `delivered`, `failed` or `unregistered`.",
                "Read `members`."
            )
        case .superseded: self.init(outcome.name, "Some members got a newer command instead.", "Nothing.")
        case .expired:
            self.init(
                outcome.name,
                "The command expired before every member had its turn.",
                "Nothing. The next state reaches all members."
            )
        case .started:
            self.init(
                outcome.name,
                "The start became one start for each device, each with a result.",
                "Read these results."
            )
        }
    }

    init(_ outcome: MemberOutcome) {
        switch outcome {
        case .delivered: self.init(outcome.name, "APNs responded with 200.", "Nothing.")
        case .superseded:
            self.init(outcome.name, "A newer command reached the member, or the channel, instead.", "Nothing.")
        case .failed:
            self.init(
                outcome.name,
                """
                APNs refused the push, and a retry does not help. Or the app has no key for the member's environment; \
                then the member has no result of its own.
                """,
                "Read the member's own result, or `reason` and `advice` of the broadcast."
            )
        case .unregistered:
            self.init(
                outcome.name,
                "The member has left the audience: its token is dead, or it left before its push was sent.",
                "Nothing. It joins again with its next registration."
            )
        case .expired: self.init(outcome.name, "The command expired before the push was sent.", "Nothing.")
        case .started: self.init(outcome.name, "A start was written as a separate command.", "Read its result.")
        }
    }
}
