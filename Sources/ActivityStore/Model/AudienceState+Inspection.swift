import LiveActivity

/// Predicts the script's verdicts about an audience that was read from Redis, by the rules of the model. Writes
/// nothing.
extension AudienceState {
    package init(_ inspection: AudienceInspection) {
        self.init()
        newestVersion = inspection.newestVersion.map { NewestVersion(version: $0.version, isSettled: $0.isSettled) }
        newestStart = inspection.newestStart
        admittedVersion = inspection.admittedVersion.map {
            AdmittedVersion(
                version: $0.version,
                digest: $0.digest,
                isEnd: $0.isEnd,
                isStart: $0.isStart,
                grant: $0.grant,
                // With the time 0, the spacing makes no command wait. Otherwise `wait` would hide the verdict that the
                // command gets after the spacing.
                admittedAtMilliseconds: 0,
                body: [],
                expirationSeconds: $0.expirationSeconds
            )
        }
    }

    /// Returns the verdict that the script would give on a command. Ignores the spacing, so the verdict is never
    /// `wait`.
    package func verdict(
        on admission: AudienceAdmission<[UInt8]>,
        nowMilliseconds: Int64
    ) -> AudienceAdmissionVerdict {
        var copy = self
        let reply = copy.perform(.admit(admission), nowMilliseconds: nowMilliseconds)
        guard let verdict = AudienceAdmissionVerdict(reply.verdict) else {
            preconditionFailure("the model gives an admission a verdict of another call")
        }
        return verdict
    }
}
