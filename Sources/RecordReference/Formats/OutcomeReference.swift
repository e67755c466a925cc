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
        self.init(outcome.name, Self.meaning(of: outcome), Self.recommendedAction(after: outcome))
    }

    private static func meaning(of outcome: Outcome) -> String {
        switch outcome {
        case .accepted: "APNs responded with 200. The phone may still drop the push."
        case .unchanged: "Nothing but the timestamp differs from what the activity shows."
        case .duplicate: "This version is already settled, or another record with this version is in progress."
        case .superseded:
            """
            A newer command replaced this one before it was sent. If this one had an alert, the newer state \
            carries it, unless that state has a newer alert or `reason` says otherwise. Or the command is an \
            end, and a newer start has begun the activity again. Or it is a start, and its activity already lives.
            """
        case .held:
            """
            No token is registered, or APNs says that the token is dead. The newest state, or the start, waits for \
            the next registration, and then has another result. It has no other result if no token registers, or if \
            a newer command replaces it. A start also has no other result if Redis loses it, or if it expires and \
            gives up its place to another start (`heldStartsFull`).
            """
        case .ended: "The activity has ended, so nothing can change it."
        case .expired: "The command expired or became too old before APNs accepted it."
        case .invalid:
            "The record is invalid. `reason` has the code, and the dead letter has the record and the details."
        case .unregistered:
            """
            The token is dead, and the command is not held, because it is a start, an end of a lifetime, or a \
            push to a member of an audience.
            """
        case .failed:
            "The command cannot be sent for a reason that no retry removes, such as a refusal by APNs or Redis."
        case .unknown:
            """
            A start was sent, and its response was lost. The activity may exist. The start is not sent again, \
            because this could start a second activity.
            """
        }
    }

    private static func recommendedAction(after outcome: Outcome) -> String {
        switch outcome {
        case .accepted: "Nothing. If the phone shows nothing new, see [Traps](#traps)."
        case .unchanged: "Nothing."
        case .duplicate:
            "Nothing, unless a newer state had the same version. Then write it again with a higher `sequence`."
        case .superseded:
            """
            Nothing. If the end was for the activity that the newer start began, send it again with a later \
            timestamp.
            """
        case .held: "If this continues, check whether the app registers its tokens."
        case .ended: "Send no more commands to it. Only a start begins it again."
        case .expired:
            """
            With a `reason`, do what [Reasons](#reasons) says: `activityUnknown` can mean a wrong id. \
            Otherwise nothing for updates; for a start or an end, decide whether to send it again.
            """
        case .invalid: "Correct the producer. Check records with `causeway check --commands`."
        case .unregistered: "Delete the token. The app registers a new one when it runs."
        case .failed:
            "Find `reason` in [Reasons](#reasons), which says what to do. Send the command again only after that."
        case .unknown: "Wait for the activity's registration. If none arrives, start another activity."
        }
    }

    init(_ outcome: FanoutOutcome) {
        switch outcome {
        case .delivered:
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
