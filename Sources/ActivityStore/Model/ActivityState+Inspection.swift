import LiveActivity

/// Predicts the scripts' verdicts about an activity that was read from Redis. Writes nothing. The rules are the
/// model's, which a differential test compares with the scripts.
///
/// One verdict may be wrong. If a command brings the last retired token, the prediction may be `send`, although the
/// scripts would hold the command: Redis stores only a hash of that token.
extension ActivityState {
    package init(_ inspection: ActivityInspection) {
        self.init()
        version = inspection.newestVersion?.version
        versionPhase = inspection.newestVersion.map { VersionPhase($0.state) } ?? .waiting
        isEnded = inspection.newestVersion?.isEnd ?? false
        lastAssignedTimestamp = inspection.lastAssignedTimestamp
        lastSendMilliseconds = inspection.lastPush?.sentAtMilliseconds ?? 0
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
            // `isEnd` matters only if the held command is the newest version. Redis keeps an older one only for its
            // alert.
            let isEnd = isEnded && $0.version == version
            return HeldCommand(version: $0.version, isEnd: isEnd, command: $0.command, carriesAlert: $0.carriesAlert)
        }
        acceptedAlertVersion = inspection.acceptedAlertVersion
        // Leaves out the audiences whose departures no worker has confirmed. In Redis they only delay an admission for
        // a moment (`departures`). The predicted verdict is the one after this delay.
        audiences.currentDigests = inspection.audiences.map(\.value)
        start = inspection.start.map {
            Start(
                version: $0.version,
                isSettled: $0.isSettled,
                isRecordedAgain: $0.isRecordedAgain,
                timestamp: $0.version.timestamp,
                claim: nil
            )
        }
        pace = inspection.updatesUntilMilliseconds.map {
            ActivityPace(beganAtMilliseconds: ($0 / 1_000 - StoreLimits.updatableSeconds) * 1_000)
        }
    }

    /// Returns the verdict that the scripts would give on an update or an end. Ignores the pace: the verdict is `send`
    /// even for a command that the scripts would let wait.
    package func verdict(on admission: StateAdmission<[UInt8]>, nowMilliseconds: Int64) -> StoreVerdict {
        var state = self
        // Without a last push, the spacing delays no command.
        state.lastSendMilliseconds = 0
        return state.admit(admission, nowMilliseconds: nowMilliseconds).0.verdict
    }

    /// Returns the verdict that the scripts would give on a start's record that has no claim yet.
    package func verdict(onStart version: Version, nowMilliseconds: Int64) -> StoreVerdict {
        var state = self
        return state.admitStart(version, claim: 0, previousClaim: nil, nowMilliseconds: nowMilliseconds).0.verdict
    }

    /// Returns the activity after a call of ``StoreCall/Operation/reopen(version:)``.
    package func reopened(_ version: Version) -> ActivityState {
        var state = self
        _ = state.reopen(version)
        return state
    }
}

extension ActivityState.VersionPhase {
    fileprivate init(_ state: ActivityInspection.VersionPhase) {
        switch state {
        case .waiting: self = .waiting
        case .sending: self = .sending
        case .startSending: self = .startSending
        case .held: self = .held
        case .settled: self = .settled
        case .notShown: self = .notShown
        }
    }
}
