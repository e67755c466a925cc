extension ConfigurationSchema {
    /// The text that ``GeneratedConfigurationText`` shows about `tracing`.
    static let tracingSectionTexts = [
        "tracing": """
        Traces. A `traceparent` in a command's Kafka header (W3C Trace Context) is always copied to its result. \
        These keys say where the worker exports a command's spans: one each for `consume`, `admit` and `send`, and \
        for a command to an audience one for each range of its members.
        """
    ]

    static let tracingKeys: [SchemaKey<WorkerConfiguration>] = [
        .optionalText(
            "tracing.endpoint",
            \.tracing.endpoint,
            .collectorURL,
            meaning: """
                The base URL of a collector, http[s]://host[:port][/path]. The worker sends OTLP over HTTP in JSON to \
                /v1/traces below this URL. The default port is 4318, with https 443. If the collector does not accept \
                a trace after some attempts, the worker drops it and counts it. Pushes never wait for the collector.
                """
        )
        .whenUnset("nothing is exported"),
        .optionalFile(
            "tracing.caFile",
            \.tracing.caFile,
            meaning: """
                With https: PEM file with the certificate authorities to check the collector's certificate against. \
                The certificate must be for the host's name.
                """
        )
        .whenUnset("the system's"),
        .optionalFile(
            "tracing.headersFile",
            \.tracing.headersFile,
            meaning: """
                With https: file with headers that the collector requires, such as Authorization; one `Name: \
                value` in each line, 16 at most. The worker reads the file again for each request, so you can replace \
                its content.
                """
        ),
        .integer(
            "tracing.samplesPerMillion",
            \.tracing.samplesPerMillion,
            0...1_000_000,
            meaning: """
                How many of a million commands without a `traceparent` start a trace. For a command with a \
                `traceparent`, its sampled flag decides.
                """
        ),
    ]
}
