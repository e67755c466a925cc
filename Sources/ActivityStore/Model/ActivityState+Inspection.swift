import LiveActivity

/// An activity as it was read out of Redis, to be asked what the scripts would answer: nothing is written for that, and the rules are the
/// model's, which a differential test holds against the scripts.
///
/// A dead token's fingerprint names no token: of a command that brings the last dead token the answer may be `send` where the scripts hold it.
extension ActivityState {
    package init(_ inspection: ActivityInspection) {
        self.init()
        version = inspection.newest?.version
        standing = inspection.newest.map { Standing($0.state) } ?? .waits
        ended = inspection.newest?.isEnd ?? false
        lastTimestamp = inspection.lastTimestamp
        lastSendMilliseconds = inspection.sent?.atMilliseconds ?? 0
        digest = inspection.shownDigest
        registeredAtMilliseconds = inspection.registeredAtMilliseconds
        token = inspection.token.map {
            TokenRegistration(
                token: $0.token,
                environment: $0.environment,
                registeredAtMilliseconds: inspection.registeredAtMilliseconds ?? 0
            )
        }
        held = inspection.held.map {
            // An older command that is kept for its alert is of no interest but for that.
            let isEnd = ended && $0.version == version
            return Held(version: $0.version, isEnd: isEnd, command: $0.command, carriesAlert: $0.carriesAlert)
        }
        answeredAlert = inspection.answeredAlert
        // Those that may not know that it left make an admission wait for a moment: what it then comes to is of interest.
        audiences.current = inspection.audiences.map(\.value)
        start = inspection.start.map {
            Start(version: $0.version, isSettled: $0.isSettled, timestamp: $0.version.timestamp, claim: nil)
        }
        pace = inspection.updatesUntilMilliseconds.map {
            ActivityPace(bornAtMilliseconds: ($0 / 1_000 - StoreLimits.updatesSeconds) * 1_000)
        }
    }

    /// What the scripts would answer to an update or an end at this time. How long it waits for its pace is not told: it would be sent.
    package func verdict(on admission: StateAdmission<[UInt8]>, nowMilliseconds: Int64) -> StoreVerdict {
        var state = self
        // Neither the spacing nor a clock that was set back matters to whether it is sent.
        state.lastSendMilliseconds = 0
        return state.command(admission, now: nowMilliseconds).0.verdict
    }

    /// What they would answer to a start that no worker has asked about.
    package func verdict(onStart version: Version, nowMilliseconds: Int64) -> StoreVerdict {
        var state = self
        return state.start(version, claim: 0, formerClaim: nil, now: nowMilliseconds).0.verdict
    }

    /// The activity after a call of ``StoreCall/Operation/reopen(version:)``.
    package func reopened(_ version: Version) -> ActivityState {
        var state = self
        _ = state.reopen(version)
        return state
    }
}

extension ActivityState {
    mutating func reopen(_ version: Version) -> (StoreReply<[UInt8]>, Lifetime) {
        guard self.version == version else { return (StoreReply(.superseded), .unchanged) }
        if standing == .settled || start?.version == version { return (StoreReply(.duplicate), .unchanged) }
        guard standing == .notShown else { return (StoreReply(.retry), .unchanged) }
        standing = .waits
        return (StoreReply(.retry), .renewed)
    }
}

extension ActivityState.Standing {
    fileprivate init(_ state: ActivityInspection.State) {
        switch state {
        case .waiting: self = .waits
        case .sending: self = .assigned
        case .startSending: self = .startAssigned
        case .held: self = .held
        case .settled: self = .settled
        case .notShown: self = .notShown
        }
    }
}
