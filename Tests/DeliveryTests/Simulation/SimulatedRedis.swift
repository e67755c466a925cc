import Delivery
import LiveActivity
import Redis
import ScriptModel

/// The scripts' model behind the core's calls: the same mapping that the worker's lane makes onto the wire.
struct SimulatedRedis {
    static let application = "com.example.match"

    var model: ScriptModel
    /// One for each policy of the core.
    let paces: [PaceNumbers]
    let startBudgets: [BucketNumbers]

    init(policies: [Policy], nowMilliseconds: Int64) {
        model = ScriptModel(nowMilliseconds: nowMilliseconds)
        paces = policies.map { PaceNumbers($0) }
        startBudgets = policies.map { BucketNumbers($0.startBudget) }
    }

    /// What a script answers, with the bytes that the reply points to.
    struct Reply {
        var verdict: ScriptReply.Verdict
        var number: Int64 = 0
        var token: ModelToken?
        var heldCommand: [UInt8] = []
        var priority: UInt8 = 0
        var isDemoted = false
        var budgetLeft = 0

        func with<Result>(_ body: (ScriptReply) -> Result) -> Result {
            (token?.token ?? [])
                .withUnsafeBytes { token in
                    heldCommand.withUnsafeBytes { held in
                        body(
                            ScriptReply(
                                verdict,
                                number: number,
                                environment: self.token?.environment == .sandbox ? .sandbox : .production,
                                registeredAtMilliseconds: self.token?.registeredAtMilliseconds ?? 0,
                                token: token,
                                heldCommand: held,
                                priority: priority,
                                isDemoted: isDemoted,
                                budgetLeft: budgetLeft
                            )
                        )
                    }
                }
        }
    }

    mutating func perform(_ call: RedisCall, _ view: RecordView) -> Reply {
        let activity = "a:" + text(view.activity)
        let device = "d:" + text(view.device)
        let type = text(view.attributesType)
        guard
            let version = ScriptVersion(
                timestampSeconds: UInt64(view.version.timestamp),
                sequence: view.version.sequence
            )
        else { return Reply(verdict: .superseded) }
        switch call.kind {
        case .address:
            let budget = startBudgets[view.policy]
            return reply(
                model.admit(
                    key: device,
                    .address(attributesType: type, startBudget: budget, registration: registration(view))
                )
            )
        case .admit where view.isStart:
            return reply(model.admit(key: activity, .start(version: version, claim: view.claim)))
        case .admit:
            return reply(
                model.admit(
                    key: activity,
                    .command(
                        event: view.event == .end ? .end : .update,
                        version: version,
                        digest: view.digest,
                        pace: paces[view.policy],
                        request: PushRequest(
                            isHigh: view.asksForHighPriority,
                            mayUseReserve: view.mayUseReserve,
                            carriesAlert: view.carriesAlert
                        ),
                        registration: registration(view)
                    )
                )
            )
        case .hold:
            let command = heldCommand(view)
            return reply(
                model.admit(
                    key: view.isStart ? device : activity,
                    .hold(
                        attributesType: view.isStart ? type : nil,
                        activity: text(view.activity),
                        version: version,
                        command: command,
                        carriesAlert: view.carriesAlert
                    )
                )
            )
        case .register:
            let token = ModelToken(
                token: Array(view.token),
                environment: .production,
                registeredAtMilliseconds: view.registeredAtMilliseconds
            )
            let shows = view.shows.flatMap {
                ScriptVersion(timestampSeconds: UInt64($0.timestamp), sequence: $0.sequence)
            }
            return reply(
                model.admit(
                    key: type.isEmpty ? activity : device,
                    .register(
                        attributesType: type.isEmpty ? nil : type,
                        registration: token,
                        frequentUpdates: view.frequentUpdates,
                        shows: shows,
                        after: view.followsHeldStart ? .init(activity: text(view.activity), version: version) : nil
                    )
                )
            )
        case .unregisterActivity:
            let at = view.registeredAtMilliseconds
            return reply(model.admit(key: activity, .unregister(attributesType: nil, atMilliseconds: at)))
        case .unregisterDevice:
            let key = "d:" + text(view.activity)
            return reply(model.admit(key: key, .unregisterAll(atMilliseconds: view.registeredAtMilliseconds)))
        case .settle:
            settle(activity, view, version: version, type: nil, retires: view.retiresToken && !view.isStart)
            return Reply(verdict: .settled)
        case .limit:
            _ = model.settle(
                key: activity,
                SettleCall(version: version, outcome: .limited, digest: 0, pace: paces[view.policy])
            )
            return Reply(verdict: .settled)
        case .refundStart:
            model.refundStart(key: device, startBudget: startBudgets[view.policy], draw: view.startDraw)
            return Reply(verdict: .settled)
        case .settleDevice:
            settle(device, view, version: version, type: type, retires: view.retiresToken)
            return Reply(verdict: .settled)
        }
    }

    private mutating func settle(
        _ key: String,
        _ view: RecordView,
        version: ScriptVersion,
        type: String?,
        retires: Bool
    ) {
        let outcome: SettledOutcome =
            switch view.settlement {
            case .accepted: .accepted
            case .unknown: .unknown
            case .final, .none: .notShown
            }
        let retirement = SettleCall.Retirement(
            token: Array(view.token),
            environment: .production,
            invalidAtMilliseconds: view.invalidAtMilliseconds
        )
        _ = model.settle(
            key: key,
            SettleCall(
                attributesType: type,
                activity: text(view.activity),
                version: version,
                outcome: outcome,
                digest: view.digest,
                retirement: retires ? retirement : nil
            )
        )
    }

    private func registration(_ view: RecordView) -> ModelToken? {
        guard view.suppliesToken else { return nil }
        return ModelToken(
            token: Array(view.token),
            environment: .production,
            registeredAtMilliseconds: view.registeredAtMilliseconds
        )
    }

    private func heldCommand(_ view: RecordView) -> [UInt8] {
        var writer = JSONWriter()
        Array(Self.application.utf8)
            .withUnsafeBytes { app in
                view.commandRecord(app: app).write(to: &writer)
            }
        return Array(writer.bytes)
    }

    private func text(_ bytes: UnsafeRawBufferPointer) -> String { String(decoding: bytes, as: UTF8.self) }

    private func number(of reply: ModelReply) -> Int64 {
        switch reply.verdict {
        case .wait: reply.waitMilliseconds
        case .address: reply.draw
        default: Int64(reply.timestampSeconds)
        }
    }

    private func reply(_ reply: ModelReply) -> Reply {
        let verdict: ScriptReply.Verdict =
            switch reply.verdict {
            case .send: .send
            case .wait: .wait
            case .noToken: .noToken
            case .held: .held
            case .retry: .retry
            case .duplicate: .duplicate
            case .superseded: .superseded
            case .ended: .ended
            case .unchanged: .unchanged
            case .unknown: .unknown
            case .registered: .registered
            case .stale: .stale
            case .unregistered: .unregistered
            case .address: .address
            case .overtaken: .overtaken
            case .alertHeld: .alertHeld
            case .tooOld: .tooOld
            case .full: .full
            }
        return Reply(
            verdict: verdict,
            number: number(of: reply),
            token: reply.token,
            heldCommand: reply.held?.command ?? [],
            priority: reply.priority,
            isDemoted: reply.isDemoted,
            budgetLeft: reply.budgetLeft
        )
    }
}

extension PaceNumbers {
    init(_ policy: Policy) {
        self.init(
            spacingMilliseconds: policy.spacingMilliseconds,
            throttledSpacingMaxMilliseconds: policy.throttledSpacingMaxMilliseconds,
            throttleRecoveryMilliseconds: policy.throttleRecoveryMilliseconds,
            budget: BucketNumbers(policy.budget),
            frequentBudget: BucketNumbers(policy.frequentBudget)
        )
    }
}

extension BucketNumbers {
    init(_ bucket: Policy.Bucket) {
        self.init(
            intervalMilliseconds: bucket.intervalMilliseconds,
            pushes: bucket.pushes,
            reserved: bucket.reservedForAlerts
        )
    }
}
