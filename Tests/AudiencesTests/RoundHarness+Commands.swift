import ActivityStore
import LiveActivity

@testable import Audiences
@testable import Delivery

extension RoundHarness {
    /// Appends a fan-out record of the only range or of a channel, as another worker would write it, and reads it.
    ///
    /// - Parameter number: Command 3 has the id `3`, the timestamp ``startSeconds`` + 3 and the content state
    ///   `{"c":3}`. Its alert has the title `alert-3`.
    func appendCommand(
        _ number: Int,
        event: Event = .update,
        hasAlert: Bool = false,
        _ audience: String = "match-1",
        appIndex: Int = 0,
        channel: AudienceChannel? = nil,
        broadcastCount: UInt8 = 0,
        grantedTimestamp: Int64? = nil
    ) {
        let app = String(decoding: Self.apps[appIndex], as: UTF8.self)
        let alert = hasAlert ? "\"alert\":{\"title\":\"alert-\(number)\",\"body\":\"b\"}," : ""
        let timestamp = Self.startSeconds + Int64(number)
        let value = Array(
            "{\"app\":\"\(app)\",\"audience\":\"\(audience)\",\"id\":\"\(number)\",\"priority\":10,\"aps\":{\(alert)\"timestamp\":\(timestamp),\"event\":\"\(event)\",\"content-state\":{\"c\":\(number)}}}"
                .utf8
        )
        guard let range = SegmentRange(index: 0, rangeCount: 1) else { return }
        let grant = AudienceGrant(
            timestamp: grantedTimestamp ?? timestamp,
            priority: 5,
            frequentUpdatesPriority: 10,
            isDemoted: false,
            rangeCount: 1,
            broadcastCount: broadcastCount
        )
        let instruction = FanoutInstruction(
            range: range,
            channel: channel,
            grant: grant,
            partition: 0,
            offset: Int64(number),
            admittedAtMilliseconds: nowMilliseconds
        )
        log.append(SimulatedFanout(value: value, instruction: instruction))
        readLog()
    }

    /// Admits and settles a version in the store's model, which then keeps its body for members that join.
    func admit(
        _ number: Int,
        timestamp: Int64,
        hasAlert: Bool = false,
        isEnd: Bool = false,
        audience: String = "match-1",
        appIndex: Int = 0
    ) {
        let alert = hasAlert ? "\"alert\":{\"title\":\"alert-\(number)\",\"body\":\"b\"}," : ""
        let text = Array(
            "{\"app\":\"com.example.match\",\"audience\":\"\(audience)\",\"sequence\":\(number),\"aps\":{\(alert)\"timestamp\":\(timestamp),\"event\":\"\(isEnd ? "end" : "update")\",\"content-state\":{\"c\":\(number)}}}"
                .utf8
        )
        text.withUnsafeBytes { text in
            guard let command = try? Command.decodeWrittenByCauseway(text) else { return }
            var body = [UInt8](repeating: 0, count: command.bodyByteCount)
            let layout = body.withUnsafeMutableBytes { PushBody.write(command, from: text, into: $0) }
            let (alertlessBody, alertlessLayout) = body.withUnsafeBytes { Audiences.bodyWithoutAlert($0, layout) }
            let stored = JoinerBody.storedBody(alertlessBody.bytes, alertlessLayout)
            let admission = AudienceAdmission<[UInt8]>(
                version: command.version,
                digest: UInt64(number),
                pace: Policy(name: "default").pace,
                isEnd: isEnd,
                isStart: false,
                requestsHighPriority: false,
                mayUseReserve: false,
                rangeCount: 1,
                body: Array(stored.bytes),
                expirationSeconds: AgeRules.stateExpirationSeconds(
                    timestamp: timestamp,
                    isEnd: isEnd,
                    ownExpirationSeconds: -1
                )
            )
            store.nowMilliseconds = nowMilliseconds
            for operation in [AudienceCall<[UInt8]>.Operation.admit(admission), .settle(version: command.version)] {
                var call = makeCall(operation, about: Self.digest(of: audience))
                call.app = Self.apps[appIndex]
                _ = store.perform(call)
            }
            alertlessBody.free()
            stored.free()
        }
    }

    /// Sends and accepts pushes until none are left.
    @discardableResult
    func sendAndAcceptPushes(appIndex: UInt16 = 0) -> [SentPush] {
        var all: [SentPush] = []
        var idleIterationCount = 0
        // `send` may return no push and still make the core read a parked member again. The next iteration returns this
        // member's push. So the loop ends only after two iterations without a push.
        while idleIterationCount < 2 {
            performPendingWork()
            let sent = send(appIndex: appIndex)
            idleIterationCount = sent.isEmpty ? idleIterationCount + 1 : 0
            all += sent
            respondToPushes()
        }
        return all
    }
}
