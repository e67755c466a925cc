import Foundation
import LiveActivity
import Testing

@testable import Audiences
@testable import Delivery

/// Commands that the core itself admits and fans out, and commands that use an audience's channel.
extension RoundHarness {
    /// Gives the core a command to the audience, or to the channel with the id `channel`, as a lane does. The next
    /// ``performPendingWork()`` lets the core admit it.
    ///
    /// - Parameter number: Command 3 has the record number 3, the id `3` and the content state `{"c":3}`. Its timestamp
    ///   is three seconds after the clock.
    func handOver(
        _ number: Int,
        _ event: Event,
        hasAlert: Bool = false,
        expirationSeconds: Int64 = -1,
        requestsChannel: Bool = false,
        channel: String? = nil,
        policy: UInt8 = 0,
        record: Int? = nil
    ) {
        let start = event == .start ? "\"activity\":\"final-{device}\"," : ""
        let attributes =
            event == .start
            ? "\"attributes-type\":\"A\",\"attributes\":{}," : ""
        let alert = event == .start || hasAlert ? "\"alert\":{\"title\":\"t\",\"body\":\"b\"}," : ""
        let text = Array(
            "{\"app\":\"com.example.match\",\"audience\":\"match-1\",\"id\":\"\(number)\",\(start)\"aps\":{\(attributes)\(alert)\"timestamp\":\(nowMilliseconds / 1_000 + Int64(number)),\"event\":\"\(event)\",\"content-state\":{\"c\":\(number)}}}"
                .utf8
        )
        text.withUnsafeBytes { text in
            guard let command = try? Command.decodeWrittenByCauseway(text) else {
                preconditionFailure("the harness's own command")
            }
            var body = [UInt8](repeating: 0, count: command.bodyByteCount)
            let layout = body.withUnsafeMutableBytes { PushBody.write(command, from: text, into: $0) }
            let none = UnsafeRawBufferPointer(start: nil, count: 0)
            body.withUnsafeBytes { body in
                (channel.map { Array($0.utf8) } ?? Self.audience)
                    .withUnsafeBytes { audience in
                        core.receiveCommand(
                            IncomingCommand(
                                record: RecordIndex(rawValue: UInt32(record ?? number)),
                                appIndex: 0,
                                audience: audience,
                                channelEnvironment: channel == nil ? nil : .production,
                                requestsChannel: requestsChannel,
                                event: event,
                                activityTemplate: none,
                                version: command.version,
                                priority: 5,
                                policyIndex: policy,
                                policyName: none,
                                ownExpirationSeconds: expirationSeconds,
                                staleDateSeconds: -1,
                                identifier: command.identifier.range.bytes(in: text),
                                body: body,
                                bodyLayout: layout,
                                partition: 0,
                                offset: Int64(number),
                                recordTimestampMilliseconds: -1,
                                receivedAtWallMilliseconds: nowMilliseconds,
                                trace: none
                            )
                        )
                    }
            }
        }
    }

    /// Appends the fan-out record of a start, as another worker would have written it.
    ///
    /// - Parameters:
    ///   - members: further members of the `aps` dictionary.
    ///   - absence: why a channel that the audience should have is missing; nil: none is missing.
    func appendStart(
        _ number: Int,
        _ members: String = "",
        on channels: AudienceChannels,
        absence: ChannelAbsence? = nil
    ) throws {
        let timestamp = Self.startSeconds + Int64(number)
        let value =
            #"{"app":"com.example.match","audience":"match-1","activity":"final-{device}","id":"\#(number)","aps":{\#(members)"timestamp":\#(timestamp),"event":"start","attributes-type":"A","attributes":{},"content-state":{"c":\#(number)},"alert":{"title":"t","body":"b"}}}"#
        let instruction = FanoutInstruction(
            range: try #require(SegmentRange(index: 0, rangeCount: 1)),
            grant: AudienceGrant(
                timestamp: timestamp,
                priority: 10,
                frequentUpdatesPriority: 10,
                isDemoted: false,
                rangeCount: 1
            ),
            partition: 0,
            offset: Int64(number),
            admittedAtMilliseconds: nowMilliseconds,
            channelsForStarts: channels,
            channelAbsence: absence
        )
        log.append(SimulatedFanout(value: Array(value.utf8), instruction: instruction))
        readLog()
    }

    func takeChannelRequests() -> [CoreChannelRequest] {
        var requests: [CoreChannelRequest] = []
        while let request = core.takeChannelRequest() { requests.append(request) }
        return requests
    }

    /// Returns the last result of the command's only range.
    func result(of command: Int) -> String? {
        producedRecords.last {
            let record = try? JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]
            return record?["command"] as? String == "\(command)" && record?["segments"] != nil
        }
    }
}
