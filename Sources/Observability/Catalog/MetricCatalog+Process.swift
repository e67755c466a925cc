extension MetricCatalog {
    static let process: [MetricDefinition] = [
        .counter(
            .processCpu,
            "process_cpu_seconds_total",
            .secondsStoredAsMicroseconds,
            [],
            .readOnRequest,
            help: "CPU time, user and system.",
            meaning: "Compare its rate with the CPU limit: at the limit, the kernel throttles the worker."
        ),
        .gauge(
            .processResidentMemoryBytes,
            "process_resident_memory_bytes",
            .count("bytes"),
            [],
            .readOnRequest,
            help: "Resident memory.",
            meaning: "Constant after the first minutes. Steady growth is a leak: report it."
        ),
        .gauge(
            .processVirtualMemoryBytes,
            "process_virtual_memory_bytes",
            .count("bytes"),
            [],
            .readOnRequest,
            help: "Virtual memory.",
            meaning: "The value alone says nothing about the worker's health."
        ),
        .gauge(
            .processOpenFds,
            "process_open_fds",
            .count("descriptors"),
            [],
            .readOnRequest,
            help: "Open file descriptors.",
            meaning: "Normally lanes times connections, plus some tens. Steady growth is a leak: report it."
        ),
        .gauge(
            .processMaxFds,
            "process_max_fds",
            .count("descriptors"),
            [],
            .readOnRequest,
            help: "The limit on open file descriptors.",
            meaning: "Raise the limit if the open descriptors come close to it."
        ),
        .gauge(
            .processStartTime,
            "process_start_time_seconds",
            .secondsStoredAsMilliseconds,
            [],
            .readOnRequest,
            help: "Start time of the process, UNIX time.",
            meaning:
                "Each change is a restart of the worker. Read the log of the previous process (kubectl logs --previous)."
        ),
    ]
}
