import LiveActivity

/// Predicts the scripts' verdicts about an activity that was read from Redis, by the rules of the model. Writes
/// nothing.
///
/// One prediction can be wrong: `send` for a command with the token that was retired last. The scripts recognize this
/// token, but Redis stores only its hash, so this type cannot.
extension ActivityState {
    package init(_ inspection: ActivityInspection) {
        self.init()
        newestVersion = inspection.newestVersion?.version
        versionPhase = inspection.newestVersion.map { VersionPhase($0.phase) } ?? .waiting
        newestIsEnd = inspection.newestVersion?.isEnd ?? false
        lastAssignedTimestamp = inspection.lastAssignedTimestamp
        lastSendAtMilliseconds = inspection.lastPush?.sentAtMilliseconds ?? 0
        shownDigest = inspection.shownDigest
        registeredAtMilliseconds = inspection.registeredAtMilliseconds
        token = inspection.token.map {
            TokenRegistration(
                token: $0.token,
                environment: $0.environment,
                registeredAtMilliseconds: inspection.registeredAtMilliseconds ?? 0
            )
        }
        heldCommand = inspection.heldCommand.map {
            // An older held command is kept only for its alert, so it does not matter whether it is an end.
            let isEnd = newestIsEnd && $0.version == newestVersion
            return HeldCommand(version: $0.version, isEnd: isEnd, command: $0.command, hasAlert: $0.hasAlert)
        }
        acceptedAlertVersion = inspection.acceptedAlertVersion
        // Former audiences are left out, because they only delay a verdict until a worker has confirmed the departures.
        audiences.currentDigests = inspection.audiences.map(\.value)
        start = inspection.start.map {
            Start(
                version: $0.version,
                isSettled: $0.isSettled,
                isRecordedAgain: $0.isRecordedAgain,
                assignedTimestamp: $0.version.timestamp,
                claim: nil
            )
        }
        pace = inspection.updatesUntilMilliseconds.map {
            ActivityPace(beganAtMilliseconds: ($0 / 1_000 - StoreLimits.updatePeriodSeconds) * 1_000)
        }
    }

    /// Returns the verdict that the scripts would give on an update or an end. Ignores the spacing: the result is
    /// `send` even for a command that would have to wait.
    package func verdict(on admission: StateAdmission<[UInt8]>, nowMilliseconds: Int64) -> AdmissionVerdict {
        var copy = self
        // Without a last push, the spacing makes no command wait.
        copy.lastSendAtMilliseconds = 0
        return Self.admissionVerdict(copy.admit(admission, nowMilliseconds: nowMilliseconds).0)
    }

    /// Returns the verdict that the scripts would give on a start's record that has no claim yet.
    package func verdict(onStart version: Version, nowMilliseconds: Int64) -> AdmissionVerdict {
        var copy = self
        return Self.admissionVerdict(
            copy.admitStart(version, claim: 0, previousClaim: nil, nowMilliseconds: nowMilliseconds).0
        )
    }

    private static func admissionVerdict(_ reply: StoreReply<[UInt8]>) -> AdmissionVerdict {
        guard let verdict = AdmissionVerdict(reply.verdict) else {
            preconditionFailure("the model gives an admission a verdict of another call")
        }
        return verdict
    }

    /// Returns what the activity would be after a call of ``StoreCall/Operation/reopen(version:)``.
    package func reopened(_ version: Version) -> ActivityState {
        var copy = self
        _ = copy.reopen(version)
        return copy
    }
}

extension ActivityState.VersionPhase {
    fileprivate init(_ phase: ActivityInspection.VersionPhase) {
        switch phase {
        case .waiting: self = .waiting
        case .sending: self = .sending
        case .startSending: self = .startSending
        case .held: self = .held
        case .settled: self = .settled
        case .notShown: self = .notShown
        }
    }
}
