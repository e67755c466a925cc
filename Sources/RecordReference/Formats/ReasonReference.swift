/// The description of one reason that Causeway itself, and not APNs, gives in results.
package struct ReasonReference: Sendable {
    package var name: String
    /// The outcome of results with this reason.
    package var outcome: String
    package var meaning: String
    /// What the reader of the result should do.
    package var recommendedAction: String

    private init(_ name: String, _ outcome: String, _ meaning: String, _ recommendedAction: String) {
        self.name = name
        self.outcome = outcome
        self.meaning = meaning
        self.recommendedAction = recommendedAction
    }

    package static let all = [
        ReasonReference(
            "alertExpired",
            "`accepted`, `delivered`, `superseded`",
            "The alert was older than `expiration.alertSeconds`, so the state was sent without it.",
            "Nothing. Send alerts in time, or raise `expiration.alertSeconds`."
        ),
        ReasonReference(
            "alertDidNotFit",
            "`accepted`, `superseded`",
            """
            An older alert did not fit into 4,096 bytes together with the newer state, so the state was sent without \
            it.
            """,
            "Keep alerts and states small enough to fit together."
        ),
        ReasonReference(
            "activityUnknown",
            "`expired`",
            """
            Redis does not know the activity, and the command is too old: more than 8 h for an update, or 12 h for an \
            end.
            """,
            """
            Compare the activity's id with its registration. If the ids are equal, the activity is too old: start \
            another activity.
            """
        ),
        ReasonReference(
            "activityOver8Hours",
            "`ended`",
            "The activity began more than 8 h ago, so Apple has ended it.",
            """
            Start another activity, or use a policy that restarts activities: `lifetimeSeconds` and `afterLifetime: \
            restart`.
            """
        ),
        ReasonReference(
            "startBudget",
            "`expired`",
            "The device's budget of starts was empty until the start expired.",
            "Start fewer activities on one device, or raise the policy's `startBudget`."
        ),
        ReasonReference(
            "heldStartsFull",
            "`failed`",
            """
            Too many starts wait for this device's token, and none of them has expired. (A start that has expired gives \
            up its place, and has no further result.)
            """,
            "Register the device's push-to-start token before you send more starts."
        ),
        ReasonReference(
            "no key for this environment",
            "`failed`",
            "The token's environment is not in the app's `environments`.",
            "Add the environment to the app's `environments`, with its key."
        ),
        ReasonReference(
            "fanoutRecordTooLarge",
            "`failed`",
            "The fan-out record is too large for the broker.",
            "Raise `max.message.bytes` of the fan-out topic."
        ),
        ReasonReference(
            "noResponse",
            "`unknown`, `expired`",
            "The push was sent, and the connection was lost before APNs responded.",
            """
            With `unknown`: wait for the activity's registration before you start another activity. With `expired`: \
            nothing.
            """
        ),
        ReasonReference(
            "notProcessed",
            "`expired`, `superseded`",
            "APNs closed the connection before it read the push.",
            "Nothing."
        ),
        ReasonReference(
            "malformedPush",
            "`failed`",
            "The push cannot be written as a request to APNs.",
            "Report this as a defect of Causeway."
        ),
        ReasonReference(
            "noReason",
            "any",
            "APNs, or a proxy in its place, responded with this status and no reason.",
            """
            Read the status: 410 is about the token, 413 about this command's size, 5xx about the service. After \
            another status, connect without a proxy.
            """
        ),
        ReasonReference(
            "unknownApp",
            "`invalid`",
            "`app` is not a bundle id of the configuration.",
            "Write the bundle id into the configuration, or correct the command."
        ),
        ReasonReference(
            "unknownPolicy",
            "`invalid`",
            "`policy` is not in the configuration.",
            "Add the policy to the configuration, or correct the command."
        ),
        ReasonReference(
            "undecodable",
            "`invalid`",
            """
            The app's phones cannot decode the attributes or the content state: see the app's `shapes`. The dead \
            letter names the path, the value and the type that is expected.
            """,
            "Correct what the dead letter names, or generate the app's shapes again."
        ),
        ReasonReference(
            "missingKey",
            "`invalid`",
            "A tombstone's key is empty, or longer than an id and names no attributes type.",
            "Write tombstones with the registration's key."
        ),
        ReasonReference(
            "notDeferred",
            "`invalid`",
            "A program that is not a worker wrote to the deferred topic.",
            "Let only workers write to the deferred topic."
        ),
        ReasonReference(
            "unexpected reply of the admit script",
            "`failed`",
            "Causeway does not know this reply of the Redis script.",
            "Check whether other programs write to this Redis. If not, report this as a defect of Causeway."
        ),
        ReasonReference(
            "unexpected reply of the audience script",
            "`failed`",
            "Causeway does not know this reply of the Redis script.",
            "Check whether other programs write to this Redis. If not, report this as a defect of Causeway."
        ),
        ReasonReference(
            "Redis refused the admission",
            "`failed`",
            "Redis refused the call for this command. The worker's log has the error.",
            "Correct what the error names, for example the user's rights, and send the command again."
        ),
    ]
}
