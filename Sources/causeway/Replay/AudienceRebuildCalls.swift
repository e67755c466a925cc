import ActivityStore
import CausewayCommandLine
import Delivery
import LiveActivity

/// The calls that restore an audience's newest command. They record the command's fan-out as finished, although no push
/// is sent. Members that join later get the command's state.
struct AudienceRebuildCalls {
    let admissionCall: AudienceCall<[UInt8]>
    let settlementCall: AudienceCall<[UInt8]>
    /// Finishes the only range of the command's fan-out. Otherwise Redis would count the fan-out as unfinished for up
    /// to 12 hours, and give the next command only one range too, so that only one lane could work on it.
    let finishRangeCall: AudienceCall<[UInt8]>

    /// Makes the calls. Returns nil if the command is expired, too old, or not valid under this configuration.
    init?(_ candidate: ReplayCandidate, appIndex: Int, scope: ReplayScope) {
        let nowSeconds = Clock.wallMilliseconds / 1_000
        let builtAdmission = candidate.value.withUnsafeBytes { record -> AudienceAdmission<[UInt8]>? in
            guard let command = try? Command.decode(record),
                let policy = scope.policy(of: command, appIndex: appIndex, in: record),
                !AgeRules.isExpired(command.expirationSeconds, nowSeconds: nowSeconds),
                !AgeRules.isStateTooOld(
                    timestamp: command.version.timestamp,
                    isEnd: command.event == .end,
                    nowSeconds: nowSeconds
                )
            else { return nil }
            return ReplayDecider.audienceAdmission(of: command, record, policy: policy)
        }
        guard var admission = builtAdmission, let audienceName = candidate.audience,
            let range = SegmentRange(index: 0, rangeCount: 1)
        else {
            return nil
        }
        // No content has the digest 0. So Redis does not take the audience's next state for unchanged, and a worker
        // sends it.
        admission.digest = 0
        let audience = audienceName.withUnsafeBytes { AudienceDigest(of: $0) }
        let app = Array(scope.apps[appIndex].bundleId.utf8)
        func makeCall(_ operation: AudienceCall<[UInt8]>.Operation) -> AudienceCall<[UInt8]> {
            AudienceCall(tag: 0, app: app, audience: audience, operation: operation)
        }
        admissionCall = makeCall(.admit(admission.withoutSpacing))
        settlementCall = makeCall(.settle(version: candidate.version))
        finishRangeCall = makeCall(
            .finishRange(range, version: candidate.version, MemberOutcomeCounts(), ResponseTimes())
        )
    }
}

extension AudienceAdmission<[UInt8]> {
    /// The admission without spacing, because nothing is sent.
    fileprivate var withoutSpacing: AudienceAdmission<[UInt8]> {
        var admission = self
        admission.pace = Policy.Pace(
            spacingMilliseconds: 0,
            throttledSpacingMillisecondsMax: pace.throttledSpacingMillisecondsMax,
            throttleRecoveryMilliseconds: pace.throttleRecoveryMilliseconds,
            budget: pace.budget,
            frequentBudget: pace.frequentBudget
        )
        return admission
    }
}
