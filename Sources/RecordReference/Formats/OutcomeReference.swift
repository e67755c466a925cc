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
        let (meaning, recommendedAction): (String, String) =
            switch outcome {
            case .accepted:
                (
                    "APNs responded with 200. The phone may still drop the push: see the traps below.",
                    "Nothing."
                )
            case .unchanged:
                ("Nothing but the timestamp differs from what the activity shows.", "Nothing.")
            case .duplicate:
                (
                    "This version was settled before, or another record brings it.",
                    "Nothing, unless a newer state had the same version: then raise `sequence`."
                )
            case .superseded:
                (
                    "A newer command came before this one was sent. Its alert, if any, went with the newer state. Or the command is an end, and a newer start "
                        + "has begun another life of the activity.",
                    "Nothing. If an end was meant for the newer life, send it again with a later timestamp."
                )
            case .held:
                (
                    "No token is registered, or APNs calls it dead. The newest state waits for the next registration, and then has another result.",
                    "Check that the app registers its tokens, if this stays."
                )
            case .ended:
                (
                    "The activity has ended, so nothing can change it.",
                    "Stop sending to it. A start begins it again."
                )
            case .expired:
                (
                    "Its time was over before it could be sent.",
                    "With a `reason`, what [Reasons](#reasons) says: `activityUnknown` can mean a wrong id. Otherwise nothing for updates; if a start "
                        + "or an end expired, decide whether it is still of use."
                )
            case .invalid:
                (
                    "The record is wrong. `reason` says how, and the dead letter has the record with the details.",
                    "Correct the producer. Check records with `causeway check --commands`."
                )
            case .unregistered:
                (
                    "The token of a start, of a lifetime's end or of an audience's member is dead.",
                    "Delete the token. The app registers a new one when it runs."
                )
            case .failed:
                (
                    "APNs or Redis refused this command for a reason of its own, so trying again does not help.",
                    "Find `reason` in [Reasons](#reasons), which says what to do. Send the command again only after that."
                )
            case .unknown:
                (
                    "A start was sent and its response was lost. The activity may exist. It is not sent again, because that could start a second one.",
                    "Wait for the activity's registration. If none comes, start another activity."
                )
            }
        self.init(outcome.name, meaning, recommendedAction)
    }

    init(_ outcome: FanoutOutcome) {
        switch outcome {
        case .delivered:
            self.init(outcome.name, "Every member had its turn, and APNs responded for each.", "Read `members`.")
        case .superseded: self.init(outcome.name, "Some members got a newer command instead.", "Nothing.")
        case .expired:
            self.init(
                outcome.name,
                "The command's time was over before every member had its turn.",
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
                "APNs refused the push for a reason of its own.",
                "Read the member's own result, or `reason` and `advice` of the broadcast."
            )
        case .unregistered:
            self.init(
                outcome.name,
                "The member has left the audience: its token is dead, or it left before its push was sent.",
                "Nothing. It joins again with its next registration."
            )
        case .expired: self.init(outcome.name, "The command's time was over.", "Nothing.")
        case .started: self.init(outcome.name, "A start was handed on as a command of its own.", "Read its result.")
        }
    }
}
