extension ConfigurationSchema {
    static let logKeys: [SchemaKey<WorkerConfiguration>] = [
        .choice("log.level", \.log.level, meaning: "The least severe events that are logged.").asReloadable,
        .choice(
            "log.format",
            \.log.format,
            meaning:
                "The format of log lines, one for each event, on standard error: json for machines, text for people."
        ),
    ]
}
