import ActivityStore
import LiveActivity
import Testing

@testable import Audiences
@testable import Delivery

/// The start of each device says how its activity gets updates: by the audience's channel, by an update token, or by
/// what the producer's `aps` dictionary names.
@Suite struct StartChannelTests {
    private static let identifier = "Y2hhbm5lbA=="

    private func channels(_ environments: APNsEnvironment...) throws -> AudienceChannels {
        let identifier = try #require(ChannelIdentifier(Self.identifier))
        func makeChannel(_ environment: APNsEnvironment) -> AudienceChannel? {
            guard environments.contains(environment) else { return nil }
            return AudienceChannel(environment: environment, storage: .newest, identifier: identifier)
        }
        return AudienceChannels(production: makeChannel(.production), sandbox: makeChannel(.sandbox))
    }

    /// Returns the addresses that the start of each device names, by device.
    private func addresses(_ members: String = "", on channels: AudienceChannels, absence: ChannelAbsence? = nil) throws
        -> [String: [String]]
    {
        let harness = RoundHarness()
        for (device, environment, supportsChannels) in [
            ("new", APNsEnvironment.production, true), ("old", .production, false), ("test-new", .sandbox, true),
            ("test-old", .sandbox, false),
        ] {
            harness.join(device, kind: .device, environment: environment, supportsChannels: supportsChannels)
        }
        try harness.appendStart(1, members, on: channels, absence: absence)
        harness.performPendingWork()
        var addresses: [String: [String]] = [:]
        for start in harness.producedRecords where start.contains(#""device":""#) {
            let device = try #require(start.split(separator: #""device":""#).last?.split(separator: "\"").first)
            addresses[String(device)] = ["input-push-token", "input-push-channel"]
                .filter { start.contains("\"\($0)\"") }
            // The worker must accept the start when it reads the commands topic.
            try Array(start.utf8)
                .withUnsafeBytes { text in
                    let command = try Command.decode(text)
                    #expect(command.event == .start && command.bodyByteCount <= Limits.bodyBytesMax)
                }
        }
        return addresses
    }

    private let token = ["input-push-token"]
    private let channel = ["input-push-channel"]

    @Test func `Devices that accept channels start on their channel`() throws {
        let both = try channels(.production, .sandbox)
        for members in ["", #""input-push-token":1,"#] {
            #expect(
                try addresses(members, on: both) == [
                    "new": channel, "old": token, "test-new": channel, "test-old": token,
                ]
            )
        }
    }

    @Test func `Without a channel the start stays unchanged`() throws {
        let production = try channels(.production)
        #expect(
            try addresses(on: production) == ["new": channel, "old": token, "test-new": [], "test-old": []]
        )
        #expect(
            try addresses(#""input-push-token":1,"#, on: channels()) == [
                "new": token, "old": token, "test-new": token, "test-old": token,
            ]
        )
    }

    /// The audience should have a channel, but it was not created in time. Nothing else would reach the activities.
    @Test func `A start whose channel is missing asks for a token`() throws {
        let allTokens = ["new": token, "old": token, "test-new": token, "test-old": token]
        for members in ["", #""input-push-token":1,"#] {
            #expect(try addresses(members, on: channels(), absence: .notInTime) == allTokens)
        }
        let production = try addresses(on: channels(.production), absence: .refused)
        #expect(production == allTokens.merging(["new": channel]) { $1 })
    }

    @Test(arguments: [nil, .notInTime] as [ChannelAbsence?])
    func `A channel that a start names itself stays`(absence: ChannelAbsence?) throws {
        let audienceChannels = try absence == nil ? channels(.production, .sandbox) : channels()
        let own = try addresses(#""input-push-channel":"b3du","#, on: audienceChannels, absence: absence)
        #expect(own == ["new": channel, "old": channel, "test-new": channel, "test-old": channel])
    }

    @Test func `A channel that does not fit is left out, and a token is used`() throws {
        let production = try channels(.production)
        func makeFiller(_ byteCount: Int) -> String { "\"x\":\"\(String(repeating: "x", count: byteCount))\"," }
        // For each of the two addresses: the longest body that has room for the address, and a body that is one byte
        // longer.
        let bodyByteCountMin = try bodyByteCount(makeFiller(0))
        let identifier = try #require(ChannelIdentifier(Self.identifier))
        let fillerBytesMax = Limits.bodyBytesMax - bodyByteCountMin + 1
        let besideChannelMax = fillerBytesMax - StartedActivityAddress.channel(identifier).byteCount
        let besideTokenMax = fillerBytesMax - StartedActivityAddress.token.byteCount
        #expect(try addresses(makeFiller(besideChannelMax), on: production)["new"] == channel)
        #expect(try addresses(makeFiller(besideChannelMax + 1), on: production)["new"] == token)
        #expect(try addresses(makeFiller(besideTokenMax), on: production)["new"] == token)
        #expect(try addresses(makeFiller(besideTokenMax + 1), on: production)["new"] == [])
    }

    private func bodyByteCount(_ members: String) throws -> Int {
        let harness = RoundHarness()
        harness.join("new", kind: .device)
        try harness.appendStart(1, members, on: AudienceChannels())
        harness.performPendingWork()
        let start = try #require(harness.producedRecords.first { $0.contains(#""device":""#) })
        return try Array(start.utf8).withUnsafeBytes { try Command.decode($0).bodyByteCount }
    }

    /// Redis knows the audience's channels when it admits the start. The fan-out records bring them to the
    /// worker that writes each device's start.
    @Test func `The fan-out records of a start name the channels`() throws {
        let harness = RoundHarness()
        let channels = try channels(.production)
        harness.store.setChannel(channels.production, in: .production, of: RoundHarness.digest, app: RoundHarness.app)
        harness.handOver(1, .start)
        harness.performPendingWork()
        #expect(!harness.instructions.isEmpty)
        #expect(harness.instructions.allSatisfy { $0.channelsForStarts == channels && $0.channel == nil })
        harness.instructions.removeAll()
        harness.advanceClock(milliseconds: 30_000)
        harness.handOver(2, .update)
        harness.performPendingWork()
        #expect(harness.instructions.contains { $0.channel == channels.production })
        #expect(harness.instructions.allSatisfy { $0.channelsForStarts.count == 0 })
    }
}
