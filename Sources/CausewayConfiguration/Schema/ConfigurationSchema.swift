import LiveActivity

/// All keys and their descriptions. Any other key is unknown, in the file and in the environment.
///
/// Each section has a source file, such as `ConfigurationSchema+Kafka.swift`. ``GeneratedConfigurationText`` writes its
/// files from these keys. The initial values of `WorkerConfiguration` are the defaults.
enum ConfigurationSchema {
    static let keys: [SchemaKey<WorkerConfiguration>] =
        logKeys + httpKeys + kafkaKeys + redisKeys + apnsKeys + workerKeys + tracingKeys

    /// The texts that ``GeneratedConfigurationText`` shows about sections, by the pattern of the section, such as
    /// `kafka.topics` or `policies.*.budget`. Most sections need no text.
    static let sectionTexts: [String: String] = [
        httpSectionTexts, kafkaSectionTexts, appSectionTexts, policySectionTexts, tracingSectionTexts,
    ]
    .reduce(into: [:]) { all, some in all.merge(some) { first, _ in first } }

    /// The descriptions of all keys, in the order in which ``GeneratedConfigurationText`` shows the keys.
    static let descriptions: [KeyDescription] = {
        let defaults = WorkerConfiguration()
        let app = WorkerConfiguration.App(name: NamedSection.apps.exampleName)
        let policy = Policy(name: NamedSection.policies.exampleName)
        return (logKeys + httpKeys + kafkaKeys + redisKeys + apnsKeys).map { KeyDescription($0, of: defaults) }
            + appSectionKeys.map { KeyDescription($0, of: app, below: "apps.*.") }
            + policySectionKeys.map { KeyDescription($0, of: policy, below: "policies.*.") }
            + (workerKeys + tracingKeys).map { KeyDescription($0, of: defaults) }
    }()

    /// The beginning of `Config/causeway.yaml`.
    static let introduction = """
        Causeway's configuration: every key with its meaning, its default and its range.

        The values in this file are the defaults. A key that is missing, or that has an empty text, has its default. \
        Six keys have no default and are required: kafka.bootstrapServers, redis.url, and the first four keys of each \
        app.

        Environment variables override the file. A variable's name is CAUSEWAY_ and the key in capitals, with _ \
        between words: worker.lanes is CAUSEWAY_WORKER_LANES. Separate the members of a list with commas. Put secrets \
        into variables, or into files that keys name.

        A running worker reads the file again on SIGHUP and when the file or a file of shapes changes. It applies the \
        keys marked "Reloadable." and new policies. The log names all other changes; they apply after a restart: the \
        format of log lines, the address of the pages, Kafka and Redis with their files, APNs, the lanes with their \
        limits and drain time, apps (except `policy` and `shapes`), tracing. A removed policy stays valid until the \
        restart. A replaced key file needs no reload, and neither does a changed tracing.headersFile. If the file or a \
        file of shapes has an error or is missing, the worker applies nothing and keeps the previous configuration.

        If this file or a CAUSEWAY_ variable has an unknown key or a value out of range, the worker does not start. It \
        reports all these errors with their positions. If it finds none, it compares the values with each other, such \
        as the policy of each app with the names in policies, and reports values that contradict each other. \
        `causeway check --config FILE --files`, where the files are mounted, reports the same errors without starting \
        a worker. Without `--files`, missing files are no errors. Paths are relative to the directory that the worker \
        is started in.

        `causeway configuration yaml` prints this file. An editor that knows YAML completes and checks keys with the \
        JSON Schema: write it beside your file with `causeway configuration json-schema > causeway.schema.json`, and \
        keep the first line. The editor does not know the variables, so it also reports required keys that a variable \
        sets.
        """
}
