extension ConfigurationSchema {
    /// The text that ``GeneratedConfigurationText`` shows about `http`.
    static let httpSectionTexts = [
        "http": """
        The worker's pages: metrics (/metrics), health (/livez, /readyz) and the status page for people \
        (/statusz). They are read-only and show no secrets.
        """
    ]

    static let httpKeys: [SchemaKey<WorkerConfiguration>] = [
        .text(
            "http.host",
            \.http.host,
            .numericAddress,
            meaning: """
                The numeric address to listen on: 0.0.0.0 is all of IPv4, :: is all of IPv6, 127.0.0.1 is only this \
                machine.
                """
        ),
        .integer(
            "http.port",
            \.http.port,
            0...65_535,
            meaning: "The port to listen on; with 0 the worker serves no pages."
        ),
    ]
}
