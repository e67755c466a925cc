import ActivityStore
import CausewayCommandLine
import Delivery
import LiveActivity

/// The calls that restore an audience's newest command. They record the command's fan-out as finished, although no push
/// is sent. Members that join later get the command's state.
struct AudienceRebuildCalls {
    let admissionCall: AudienceCall<[UInt8]>
    let settlementCall: AudienceCall<[UInt8]>
    /// The key of the audience's hash in Redis.
    let redisKey: [UInt8]
    private let version: Version

    /// The digest in the admissions of a rebuild. No content has this digest, so no worker writes it. For the same
    /// reason, Redis does not find the audience's next state unchanged, and a worker sends it.
    private static let digest: UInt64 = 0

    /// Makes the calls. Returns nil if the command is expired, too old, or not valid under this configuration.
    init?(_ candidate: ReplayCandidate, redisKey: [UInt8], appIndex: Int, scope: ReplayScope) {
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
        guard var admission = builtAdmission, let audienceName = candidate.audience else { return nil }
        admission.digest = Self.digest
        let audience = audienceName.withUnsafeBytes { AudienceDigest(of: $0) }
        let app = Array(scope.apps[appIndex].bundleId.utf8)
        func makeCall(_ operation: AudienceCall<[UInt8]>.Operation) -> AudienceCall<[UInt8]> {
            AudienceCall(tag: 0, app: app, audience: audience, operation: operation)
        }
        admissionCall = makeCall(.admit(admission.withoutSpacing))
        settlementCall = makeCall(.settle(version: candidate.version))
        version = candidate.version
        self.redisKey = redisKey
    }

    /// Whether the rebuild must finish the fan-out of its command (``makeFinishCalls(_:)``). False if a worker has
    /// admitted the same command: workers then finish its fan-out. The admission's digest shows who admitted it.
    ///
    /// True even if a newer command has replaced the rebuild's command. Otherwise the unfinished fan-out would set the
    /// number of ranges of later commands for hours.
    func mustFinish(in audience: AudienceInspection) -> Bool {
        audience.admittedVersion.map { $0.version != version || $0.digest == Self.digest } ?? false
    }

    /// Makes the calls that finish all ranges and broadcasts of the command's fan-out. Their order does not matter.
    /// Without them, Redis would count the fan-out as unfinished for up to 12 hours, and give the next commands its
    /// number of ranges: usually one, so that only one lane could work on them.
    ///
    /// - Parameter admissionReply: the reply `send` to the admission. It grants one range or, if Redis has an
    ///   unfinished command, that command's number of ranges.
    func makeFinishCalls(_ admissionReply: AudienceReply<[UInt8]>) -> [AudienceCall<[UInt8]>] {
        guard let rangeCount = admissionReply.grant?.rangeCount else { return [] }
        var operations = (0..<Int(rangeCount))
            .compactMap { SegmentRange(index: $0, rangeCount: Int(rangeCount)) }
            .map { range in
                AudienceCall<[UInt8]>.Operation
                    .finishRange(range, version: version, MemberOutcomeCounts(), ResponseTimes())
            }
        for environment in APNsEnvironment.allCases where admissionReply.channels[environment] != nil {
            let broadcast = FinishedBroadcast(
                environment: environment,
                rangeCount: rangeCount,
                broadcastCount: UInt8(admissionReply.channels.count)
            )
            operations.append(.finishBroadcast(broadcast, version: version, .superseded, ResponseTimes()))
        }
        return operations.map { operation in
            var call = admissionCall
            call.operation = operation
            return call
        }
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
