import ActivityStore
import CausewayCommandLine
import Delivery
import LiveActivity

/// What Redis is told of an audience's newest command: the version as one that was fanned out and has been through its round, and what
/// a member that joins is sent.
struct RebuiltAudience {
    let admission: AudienceCall<[UInt8]>
    let settlement: AudienceCall<[UInt8]>
    /// Its one range is over: no round holds the number of ranges as it is.
    let finish: AudienceCall<[UInt8]>

    /// Nil if it is expired or too old, or is no command of the configuration.
    init?(_ candidate: ReplayCandidate, app: Int, scope: ReplayScope) {
        let nowSeconds = Clock.wallMilliseconds / 1_000
        let made = candidate.value.withUnsafeBytes { record -> AudienceAdmission<[UInt8]>? in
            guard let command = try? Command.decode(record),
                let policy = scope.policy(of: command, app: app, in: record),
                !AgeRules.isExpired(command.expiration, now: nowSeconds),
                !AgeRules.isOld(
                    timestamp: command.version.timestamp,
                    isEnd: command.event == .end,
                    now: nowSeconds
                )
            else { return nil }
            return ReplayJudge.audienceAdmission(of: command, record, policy: policy, nowSeconds: nowSeconds)
        }
        guard var admission = made, let name = candidate.audience, let range = SegmentRange(index: 0, count: 1) else {
            return nil
        }
        // Of no content there is this digest: the next state is sent even if it is the same.
        admission.digest = 0
        let audience = name.withUnsafeBytes { AudienceDigest(of: $0) }
        let application = Array(scope.apps[app].bundleIdentifier.utf8)
        func call(_ operation: AudienceCall<[UInt8]>.Operation) -> AudienceCall<[UInt8]> {
            AudienceCall(tag: 0, app: application, audience: audience, operation: operation)
        }
        self.admission = call(.admit(admission.withoutSpacing))
        settlement = call(.settle(version: candidate.version))
        finish = call(.finish(range, version: candidate.version, MemberCounts(), RoundTimes()))
    }
}

extension AudienceAdmission<[UInt8]> {
    /// Nothing is sent, so nothing is waited for.
    fileprivate var withoutSpacing: AudienceAdmission<[UInt8]> {
        var admission = self
        admission.pace = Policy.Pace(
            spacingMilliseconds: 0,
            throttledSpacingMaxMilliseconds: pace.throttledSpacingMaxMilliseconds,
            throttleRecoveryMilliseconds: pace.throttleRecoveryMilliseconds,
            budget: pace.budget,
            frequentBudget: pace.frequentBudget
        )
        return admission
    }
}
