import Logging

extension LogKindCatalog {
    static let lifetimes: [LogKindDefinition] = [
        define(
            .lifetimeEndsInterrupted,
            "lifetime-ends-interrupted",
            .warning,
            message: "activities whose lifetime is over cannot be ended now",
            meaning: """
                Redis does not reply or replies with an error, or Kafka does not accept the commands that end \
                activities. Nothing is lost: the worker polls each second. An activity whose command failed is tried \
                again after 20 s, then after growing pauses of up to eleven minutes.
                """,
            action: """
                Read `error`, and repair Redis or Kafka. The Kafka user must be allowed to write to the commands topic.
                """
        ),
        define(
            .lifetimeEndsResumed,
            "lifetime-ends-resumed",
            .notice,
            message: "activities whose lifetime is over are ended again",
            meaning: "Redis and Kafka respond again."
        ),
        define(
            .lifetimeNotEnded,
            "lifetime-not-ended",
            .error,
            message: "an activity whose lifetime is over is not ended or started again",
            meaning: """
                The activity's data in Redis is missing or damaged; `error` says which. The worker has removed the \
                activity from the timetable in Redis.
                """,
            action: """
                Start the activity again with a command, if its user needs it. Find the cause: Redis evicts keys, or \
                another program writes keys that begin with `{causeway:lifetimes:`.
                """
        ),
        define(
            .lifetimeStateLost,
            "lifetime-state-lost",
            .error,
            message: "an activity is started again with the state of its earlier start",
            meaning: "The activity's newest update in Redis is damaged, so the worker does not use it.",
            action: """
                Send the newest state again with an update. Find the cause: another program writes keys that begin \
                with `{causeway:lifetimes:`.
                """
        ),
        define(
            .lifetimeFormatUnknown,
            "lifetime-format-unknown",
            .error,
            message: """
                an activity whose lifetime is over is not started again, because only a newer version can read its data
                """,
            meaning: """
                A newer version of Causeway wrote the activity's start or newest update in Redis, in a form or with a \
                field that this version does not know. A worker of that version could have started the activity until \
                the start expired (`startSeconds`). No such worker has run for eight hours. The worker has removed the \
                activity from the timetable in Redis.
                """,
            action: """
                Start the activity again with a command, if its user needs it. Upgrade the workers again, or set \
                `afterLifetime` to `end` before a rollback.
                """
        ),
        define(
            .lifetimesUnknownApp,
            "lifetimes-unknown-app",
            .notice,
            message: "activities whose lifetime is over are left to workers that have their app",
            meaning: """
                The timetables in Redis have activities of `apps`, which are not in this worker's configuration. \
                Either deployments with different apps share Redis, or an app was removed from the configuration. \
                Twelve hours after an activity should have ended, a worker removes it from the timetable.
                """
        ),
    ]
}
