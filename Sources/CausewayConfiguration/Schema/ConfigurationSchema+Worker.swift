extension ConfigurationSchema {
    static let workerKeys: [SchemaKey<WorkerConfiguration>] = [
        .integer(
            "worker.lanes",
            \.worker.lanes,
            0...256,
            meaning: """
                The number of threads that process commands. 0 means the number of processors that the process may \
                use: those of its affinity, or fewer if its control group (version 2) has a quota, rounded up.
                """
        ),
        .integer(
            "worker.drainMilliseconds",
            \.worker.drainMilliseconds,
            0...600_000,
            meaning: """
                The maximum time that a worker takes to stop, from the signal to its end. It waits for the work in \
                progress. The last quarter, up to 5 s, is for leaving the group, even if Kafka does not respond. \
                Kubernetes' terminationGracePeriodSeconds must be longer: its default of 30 s is enough. The next \
                worker reads again what is unsettled by then.
                """
        ),
        .integer(
            "worker.memoryMebibytes",
            \.worker.memoryMebibytes,
            0...1_048_576,
            meaning: """
                The maximum memory of the worker in MiB, however much waits in Kafka. The memory is divided among \
                queues, connections and lanes; a lane that has used its part stops reading. 0 means 85 % of the limit \
                of the worker's control group (Kubernetes' resources.limits.memory). Without such a limit it means \
                1024, or what `causeway plan` computes for this number of lanes if that is more. Too little memory for \
                the lanes stops the start. Queue sizes in kafka.properties, kafka.consumer and kafka.producer override \
                the sizes that follow from this key.
                """
        ),
        .integer(
            "worker.commandsPerLane",
            \.worker.commandsPerLane,
            64...4_194_304,
            meaning: """
                The most commands that a lane has from receipt to acknowledged result; above this number it stops \
                reading. With little memory the number is lower.
                """
        ),
        .integer(
            "worker.retryMillisecondsMax",
            \.worker.retryMillisecondsMax,
            1_000...3_600_000,
            meaning: """
                The longest wait between two attempts of a push that APNs could not take (5xx, 429, a refused provider \
                token, no response). The push is tried again until it expires. The waits grow from 0.2 s to this \
                limit; Apple asks for waits of minutes after a 500 or 503.
                """
        )
        .asReloadable,
        .integer(
            "worker.deferAfterMilliseconds",
            \.worker.deferAfterMilliseconds,
            100...600_000,
            meaning: """
                A command that has waited this long and cannot be sent soon (its APNs host does not respond, its \
                device has no starts left, its activity's token is limited) goes to kafka.topics.deferred, so that \
                nothing waits behind it.
                """
        )
        .sourceOfDefault("Our choice: longer than a short interruption.")
        .asReloadable,
        .integer(
            "worker.deferredDelayMilliseconds",
            \.worker.deferredDelayMilliseconds,
            100...600_000,
            meaning:
                "Time after which a deferred command is read again. A command that can be sent sooner is not deferred."
        )
        .sourceOfDefault("Our choice: with the wait before, a minute from a command's record to its settled offset.")
        .asReloadable,
        .integer(
            "worker.readAheadLagRecords",
            \.worker.readAheadLagRecords,
            1...1_000_000_000,
            meaning: """
                A lane with more than this number of unread commands reads ahead before it admits any, and keeps only \
                the newest state of each activity. So a backlog costs one push for each activity.
                """
        )
        .asReloadable,
        .integer(
            "worker.readAheadMillisecondsMax",
            \.worker.readAheadMillisecondsMax,
            1...600_000,
            meaning: """
                The maximum time that a lane reads ahead before it begins to admit. It also stops 2 s after it has \
                nearly caught up, and when it has three quarters of commandsPerLane. The same limits apply when a lane \
                reads ahead because Redis or APNs is back after 5 s or more.
                """
        )
        .asReloadable,
    ]
}
