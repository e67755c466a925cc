import LiveActivity

@testable import Audiences
@testable import Delivery

/// Commands that reach the channel side of an audience: taken by the core, with the rules of channels.
extension RoundBench {
    /// Admits one command of the audience through the core, as a lane does.
    func handOver(_ number: Int, _ event: Event, expiration: Int64 = -1) {
        let start = event == .start ? "\"activity\":\"final-{device}\"," : ""
        let attributes =
            event == .start
            ? "\"attributes-type\":\"A\",\"attributes\":{},\"alert\":{\"title\":\"t\",\"body\":\"b\"}," : ""
        let text = Array(
            "{\"app\":\"com.example.match\",\"audience\":\"match-1\",\(start)\"aps\":{\(attributes)\"timestamp\":\(now / 1_000 + Int64(number)),\"event\":\"\(event)\",\"content-state\":{\"c\":\(number)}}}"
                .utf8
        )
        text.withUnsafeBytes { text in
            guard let command = try? Command.decodeHeld(text) else { preconditionFailure("the bench's own command") }
            var body = [UInt8](repeating: 0, count: command.bodyCount)
            let layout = body.withUnsafeMutableBytes { Body.write(command, from: text, into: $0) }
            let none = UnsafeRawBufferPointer(start: nil, count: 0)
            body.withUnsafeBytes { body in
                Self.audience.withUnsafeBytes { audience in
                    core.take(
                        IncomingCommand(
                            record: UInt32(number),
                            application: 0,
                            audience: audience,
                            event: event,
                            activityTemplate: none,
                            version: command.version,
                            priority: 5,
                            policy: 0,
                            policyName: none,
                            expiration: expiration,
                            staleDate: -1,
                            alertVersion: nil,
                            identifier: none,
                            body: body,
                            layout: layout,
                            partition: 0,
                            offset: Int64(number),
                            recordMilliseconds: -1,
                            receivedMilliseconds: now,
                            trace: none
                        ),
                        now: moment
                    )
                }
            }
        }
    }

    func needs() -> [ChannelNeed] {
        var needs: [ChannelNeed] = []
        while let need = core.nextChannelNeed() { needs.append(need) }
        return needs
    }
}
