/// A reason in results that is Causeway's own, not Apple's.
package struct ReasonReference: Sendable {
    package var name: String
    /// The outcome that it comes with.
    package var outcome: String
    package var meaning: String

    private init(_ name: String, _ outcome: String, _ meaning: String) {
        self.name = name
        self.outcome = outcome
        self.meaning = meaning
    }

    package static let all = [
        ReasonReference(
            "alertExpired",
            "`accepted`, `delivered`, `superseded`",
            "The alert was older than `expiration.alertSeconds`. The state went without it."
        ),
        ReasonReference(
            "alertDidNotFit",
            "`accepted`, `superseded`",
            "An older alert did not fit into 4,096 bytes with the newer state. The state went without it."
        ),
        ReasonReference(
            "activityUnknown",
            "`expired`",
            "Redis does not know the activity, and the command is older than an activity lives: 8 h for an update, 12 h for an end."
        ),
        ReasonReference(
            "activityOver8Hours",
            "`ended`",
            "The activity began more than 8 h ago, so Apple has ended it."
        ),
        ReasonReference(
            "startBudget",
            "`expired`",
            "The device's budget of starts was empty until the start's time was over."
        ),
        ReasonReference("heldStartsFull", "`failed`", "Too many starts wait for this device's token."),
        ReasonReference(
            "no key for this environment",
            "`failed`",
            "The token's environment is not in the app's `environments`."
        ),
        ReasonReference(
            "fanoutRecordTooLarge",
            "`failed`",
            "The broker refuses the fan-out record for its size: raise `max.message.bytes`."
        ),
        ReasonReference(
            "noAnswer",
            "`unknown`, `expired`",
            "The push was sent and the connection was lost before APNs answered."
        ),
        ReasonReference(
            "notProcessed",
            "`expired`, `superseded`",
            "APNs closed the connection before it read the push."
        ),
        ReasonReference("malformedPush", "`failed`", "The push cannot be written as a request to APNs. Report it."),
        ReasonReference("noReason", "any", "APNs answered with this status and no reason."),
        ReasonReference("unknownApp", "`invalid`", "`app` is not a bundle id of the configuration."),
        ReasonReference("unknownPolicy", "`invalid`", "`policy` is not in the configuration."),
        ReasonReference(
            "undecodable",
            "`invalid`",
            "The app's phones cannot decode the attributes or the content state: see the app's `shapes`. The dead letter names the path, "
                + "the value and the type that is expected."
        ),
        ReasonReference("missingKey", "`invalid`", "A tombstone's key is empty, or longer than an id."),
        ReasonReference("notDeferred", "`invalid`", "Somebody else wrote to the deferred topic."),
        ReasonReference(
            "unexpected reply of the admit script",
            "`failed`",
            "Redis answered what no version of the script answers. Report it."
        ),
        ReasonReference("unexpected reply of the audience script", "`failed`", "As above."),
        ReasonReference(
            "Redis refused the admission",
            "`failed`",
            "Redis refused this very call. The worker's log has the error."
        ),
    ]
}
