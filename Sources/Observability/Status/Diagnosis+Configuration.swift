extension Diagnosis {
    /// Returns a finding if the worker rejected the last reload of its configuration.
    var configurationFindings: [Finding] {
        guard condition.isConfigurationRejected else { return [] }
        return [
            Finding(
                severity: .attention,
                alertName: "CausewayConfigurationRejected",
                observation: "The last reload of the configuration was rejected.",
                meaning:
                    """
                    The previous configuration stays in use. But if this worker restarts before the file is \
                    corrected, it exits with code 78.
                    """,
                action: "Read the event configuration-rejected below, and correct the file that it names.",
                logKinds: [.configurationRejected]
            )
        ]
    }
}
