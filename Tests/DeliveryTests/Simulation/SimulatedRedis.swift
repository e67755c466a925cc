import Delivery
import LiveActivity
import Redis
import ScriptModel

/// The scripts' model behind the core's calls: the same mapping that the worker's lane makes onto the wire.
struct SimulatedRedis {
    static let application = "com.example.match"
    static let spacingMilliseconds: Int64 = 1_000

    var model: ScriptModel

    /// What a script answers, with the bytes that the reply points to.
    struct Reply {
        var verdict: ScriptReply.Verdict
        var number: Int64 = 0
        var token: ModelToken?
        var heldCommand: [UInt8] = []

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
                                heldCommand: held
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
            return reply(model.admit(key: device, .address(attributesType: type, registration: registration(view))))
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
                        spacingMilliseconds: Self.spacingMilliseconds,
                        registration: registration(view)
                    )
                )
            )
        case .hold:
            let command = heldCommand(view)
            return view.isStart
                ? reply(model.admit(key: device, .hold(attributesType: type, version: version, command: command)))
                : reply(model.admit(key: activity, .hold(attributesType: nil, version: version, command: command)))
        case .register:
            let token = ModelToken(
                token: Array(view.token),
                environment: .production,
                registeredAtMilliseconds: view.registeredAtMilliseconds
            )
            let shows = view.shows.flatMap {
                ScriptVersion(timestampSeconds: UInt64($0.timestamp), sequence: $0.sequence)
            }
            return type.isEmpty
                ? reply(model.admit(key: activity, .register(attributesType: nil, registration: token, shows: shows)))
                : reply(model.admit(key: device, .register(attributesType: type, registration: token, shows: nil)))
        case .unregisterActivity:
            let at = view.registeredAtMilliseconds
            return reply(model.admit(key: activity, .unregister(attributesType: nil, atMilliseconds: at)))
        case .unregisterDevice:
            let key = "d:" + text(view.activity)
            return reply(model.admit(key: key, .unregisterAll(atMilliseconds: view.registeredAtMilliseconds)))
        case .settle:
            settle(activity, view, version: version, type: nil, retires: view.retiresToken && !view.isStart)
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
            }
        let number = reply.verdict == .wait ? reply.waitMilliseconds : Int64(reply.timestampSeconds)
        return Reply(verdict: verdict, number: number, token: reply.token, heldCommand: reply.held?.command ?? [])
    }
}
