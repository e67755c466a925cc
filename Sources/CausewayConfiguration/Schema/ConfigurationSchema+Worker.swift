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
                The maximum time from the signal to stop until the worker has stopped. The worker finishes the work in \
                progress. It reserves the last quarter, up to 5 s, for leaving the group, even if Kafka does not \
                respond. Kubernetes' terminationGracePeriodSeconds must be longer: its default of 30 s is enough. The \
                next worker reads the records again that are unsettled by then.
                """
        ),
        .integer(
            "worker.memoryMebibytes",
            \.worker.memoryMebibytes,
            0...1_048_576,
            meaning: """
                The maximum memory of the worker in MiB, even with a large backlog in Kafka. The memory is divided \
                among queues, connections and lanes; a lane that has used its part stops reading. 0 means 85 % of the \
                limit of the worker's control group (Kubernetes' resources.limits.memory). Without such a limit it \
                means 1024, or what `causeway plan` computes for this number of lanes if that is more. If this is too \
                little memory for the lanes, the worker does not start. Queue sizes in kafka.properties, \
                kafka.consumer and kafka.producer override the sizes that follow from this key.
                """
        ),
        .integer(
            "worker.commandsPerLane",
            \.worker.commandsPerLane,
            64...4_194_304,
            meaning: """
                The maximum number of commands and registrations that a lane has in progress, each from its receipt \
                until it is settled. At this number the lane stops reading. With little memory the number is lower.
                """
        ),
        .integer(
            "worker.retryMillisecondsMax",
            \.worker.retryMillisecondsMax,
            1_000...3_600_000,
            meaning: """
                The maximum time between two attempts of a push that APNs did not accept (5xx, 429, a refused provider \
                token, no response). The worker retries the push until it expires. The time between attempts grows \
                from 0.2 s to this limit, but for audiences to at most 60 s. If the pool's budget for retries is \
                empty, a push waits 15 to 30 s, even if this limit is lower. Apple asks senders to wait for minutes \
                after a 500 or 503.
                """
        )
        .asReloadable,
        .integer(
            "worker.deferAfterMilliseconds",
            \.worker.deferAfterMilliseconds,
            100...600_000,
            meaning: """
                A command that has waited this long and cannot be sent soon (its APNs host does not respond, its \
                device has no starts left, its spacing is not over, APNs limits its activity's token, its push must be \
                retried) is written to kafka.topics.deferred, so that other commands do not wait for it.
                """
        )
        .sourceOfDefault("Our choice: longer than a short interruption.")
        .asReloadable,
        .integer(
            "worker.deferredDelayMilliseconds",
            \.worker.deferredDelayMilliseconds,
            100...600_000,
            meaning: """
                Time after which a deferred command is read again, or sooner if APNs can be reached again. A command \
                that can be sent sooner is not deferred.
                """
        )
        .sourceOfDefault("Our choice: with the wait before, an offset settles about a minute after its record.")
        .asReloadable,
        .integer(
            "worker.readAheadLagRecords",
            \.worker.readAheadLagRecords,
            1...1_000_000_000,
            meaning: """
                If a lane has more unread commands than this number, it reads ahead before it sends, and keeps only \
                the newest state of each activity. So a backlog costs one push for each activity.
                """
        )
        .asReloadable,
        .integer(
            "worker.readAheadMillisecondsMax",
            \.worker.readAheadMillisecondsMax,
            1...600_000,
            meaning: """
                The maximum time that a lane reads ahead before it begins to send. It also stops reading ahead 2 s \
                after it has nearly caught up, and when it has three quarters of commandsPerLane in progress. The same \
                limits apply when a lane reads ahead because Redis or APNs works again after an outage of 5 s or more.
                """
        )
        .asReloadable,
    ]
}
