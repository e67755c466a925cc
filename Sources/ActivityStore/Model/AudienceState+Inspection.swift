import LiveActivity

/// An audience as it was read out of Redis, to be asked what the script would answer: nothing is written for that, and the rules are the
/// model's, which a differential test holds against the script.
extension AudienceState {
    package init(_ inspection: AudienceInspection) {
        self.init()
        newest = inspection.newest.map { Newest(version: $0.version, isSettled: $0.isSettled) }
        admitted = inspection.admitted.map {
            Admitted(
                version: $0.version,
                digest: $0.digest,
                isEnd: $0.isEnd,
                isStart: $0.isStart,
                grant: $0.grant,
                // The spacing does not matter to whether a command is sent.
                atMilliseconds: 0,
                body: [],
                expiration: $0.expiration
            )
        }
    }

    /// What the script would answer to a command. How long it waits for its pace is not told: it would be sent.
    package func verdict(
        on admission: AudienceAdmission<[UInt8]>,
        nowMilliseconds: Int64
    ) -> AudienceVerdict {
        var state = self
        return state.perform(.admit(admission), nowMilliseconds: nowMilliseconds).verdict
    }
}
