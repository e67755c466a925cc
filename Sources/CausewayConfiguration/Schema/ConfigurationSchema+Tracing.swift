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
                A collector's base URL, http[s]://host[:port][/path], which accepts OTLP over HTTP in JSON at \
                /v1/traces below it. The default port is 4318, with https 443. If the collector does not accept a \
                trace, the worker drops and counts it and never waits.
                """
        )
        .whenUnset("nothing is exported"),
        .optionalFile(
            "tracing.caFile",
            \.tracing.caFile,
            meaning: """
                With https: PEM file with the certificate authorities to check the collector's certificate against. \
                The certificate must carry the host's name.
                """
        )
        .whenUnset("the system's"),
        .optionalFile(
            "tracing.headersFile",
            \.tracing.headersFile,
            meaning: """
                With https: file with headers that the collector requires, such as its authorization; one `Name: \
                value` in each line, 16 at most. The worker reads the file again for each request, so you can replace \
                its content.
                """
        ),
        .integer(
            "tracing.samplesPerMillion",
            \.tracing.samplesPerMillion,
            0...1_000_000,
            meaning: """
                Of a million commands without a `traceparent`, how many begin a trace. For a command with one, its \
                sampled flag decides.
                """
        ),
    ]
}
