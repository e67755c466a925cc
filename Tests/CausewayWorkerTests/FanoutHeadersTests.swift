import LiveActivity
import Testing

@testable import CausewayWorker

@Suite struct FanoutHeadersTests {
    private static func makeInstruction(range: (index: Int, count: Int)) throws -> FanoutInstruction {
        FanoutInstruction(
            range: try #require(SegmentRange(index: range.index, rangeCount: range.count)),
            grant: AudienceGrant(
                timestamp: 1_790_000_001,
                priority: 5,
                frequentUpdatesPriority: 10,
                isDemoted: true,
                rangeCount: UInt16(range.count)
            ),
            partition: 7,
            offset: 1 << 40,
            recordTimestampMilliseconds: 1_790_000_000_001,
            receivedAtMilliseconds: 1_790_000_000_002,
            admittedAtMilliseconds: 1_790_000_000_003,
            carriedAlertVersion: Version(timestamp: 1_790_000_000, sequence: .max),
            wasAlertRemovedByAge: true
        )
    }

    private static func makeInstructionWithAbsentValues() throws -> FanoutInstruction {
        var instruction = try makeInstruction(range: (0, 1))
        instruction.grant.isDemoted = false
        (instruction.recordTimestampMilliseconds, instruction.carriedAlertVersion, instruction.wasAlertRemovedByAge) = (
            -1, nil, false
        )
        return instruction
    }

    @Test func `Headers keep what the reader of the range needs`() throws {
        for instruction in [
            try Self.makeInstruction(range: (255, 256)), try Self.makeInstruction(range: (0, 2)),
            try Self.makeInstructionWithAbsentValues(),
        ] {
            #expect(FanoutHeaders.parseInstruction(FanoutHeaders.makeStateText(of: instruction)) == instruction)
        }
    }

    @Test(arguments: [APNsEnvironment.production, .sandbox], [ChannelStoragePolicy.none, .newest])
    func `Headers keep what the sender of a broadcast needs`(
        environment: APNsEnvironment,
        storage: ChannelStoragePolicy
    )
        throws
    {
        let identifier = try #require(ChannelIdentifier("dHN0LXNyY2gtY2hubA=="))
        var instruction = try Self.makeInstruction(range: (0, 4))
        let channel = AudienceChannel(environment: environment, storage: storage, identifier: identifier)
        instruction.channel = channel
        instruction.grant.broadcastCount = 2
        let state = FanoutHeaders.makeStateText(of: instruction)
        let text = FanoutHeaders.makeText(of: channel, broadcastCount: 2)
        #expect(FanoutHeaders.parseInstruction(state, channel: text) == instruction)
        // A broadcast's record must have the header that names the channel. Without this header the record cannot be
        // read. It must not count as the record of a range.
        #expect(FanoutHeaders.parseInstruction(state) == nil)
        let otherTexts = [text.replacing("=", with: "-"), text.replacing(" 2 ", with: " 3 ")]
        for wrong in ["", "production", "\(text) x"] + otherTexts {
            #expect(FanoutHeaders.parseInstruction(state, channel: wrong) == nil)
        }
        instruction.channel = nil
        #expect(FanoutHeaders.parseInstruction(FanoutHeaders.makeStateText(of: instruction), channel: text) == nil)
    }

    @Test func `A start brings the channels of its audience`() throws {
        let identifier = try #require(ChannelIdentifier("dHN0LXNyY2gtY2hubA=="))
        var instruction = try Self.makeInstruction(range: (0, 4))
        instruction.channelsForStarts.sandbox = AudienceChannel(
            environment: .sandbox,
            storage: .none,
            identifier: identifier
        )
        let state = FanoutHeaders.makeStateText(of: instruction)
        let oneChannelText = FanoutHeaders.makeText(of: instruction.channelsForStarts)
        #expect(FanoutHeaders.parseInstruction(state, channelsForStarts: oneChannelText) == instruction)
        instruction.channelsForStarts.production =
            AudienceChannel(environment: .production, storage: .newest, identifier: identifier)
        let twoChannelsText = FanoutHeaders.makeText(of: instruction.channelsForStarts)
        #expect(FanoutHeaders.parseInstruction(state, channelsForStarts: twoChannelsText) == instruction)
        for wrong in [
            "", ";", "\(twoChannelsText);", "\(twoChannelsText);\(oneChannelText)",
            "\(oneChannelText);\(oneChannelText)", twoChannelsText.replacing("=", with: "-"),
        ] {
            #expect(FanoutHeaders.parseInstruction(state, channelsForStarts: wrong) == nil, "\(wrong)")
        }
    }

    @Test(arguments: ChannelAbsence.allCases)
    func `Headers keep the reason why there is no channel`(absence: ChannelAbsence) throws {
        var instruction = try Self.makeInstruction(range: (0, 4))
        let state = FanoutHeaders.makeStateText(of: instruction)
        #expect(FanoutHeaders.parseInstruction(state, absence: "later") == instruction)
        instruction.channelAbsence = absence
        #expect(FanoutHeaders.parseInstruction(state, absence: "\(absence.name)") == instruction)
    }

    @Test func `Headers that no lane has written are refused`() throws {
        var numbers = FanoutHeaders.makeStateText(of: try Self.makeInstruction(range: (3, 16))).split(separator: " ")
            .map(String.init)
        #expect(FanoutHeaders.parseInstruction(numbers.joined(separator: " ")) != nil)
        #expect(FanoutHeaders.parseInstruction(numbers.dropLast().joined(separator: " ")) == nil)
        #expect(FanoutHeaders.parseInstruction((numbers + ["0"]).joined(separator: " ")) == nil)
        #expect(FanoutHeaders.parseInstruction("") == nil)
        #expect(FanoutHeaders.parseInstruction(String(repeating: " ", count: 100_000)) == nil)
        for position in numbers.indices {
            for invalidNumber in ["", "x", "-2", "\(Int64.min)", "99999999999999999999", "1\u{0}", "١"] {
                let validNumber = numbers[position]
                numbers[position] = invalidNumber
                #expect(
                    FanoutHeaders.parseInstruction(numbers.joined(separator: " ")) == nil,
                    "number \(position): \(invalidNumber)"
                )
                numbers[position] = validNumber
            }
        }
        // Each case: a position in the header, and a number that is too small or too large there, or that does not fit
        // the other numbers.
        for (position, invalidNumber) in [
            (0, "16"), (1, "3"), (1, "0"), (1, "15"), (1, "512"), (2, "0"), (2, "999999999"), (2, "10000000000"),
            (3, "0"), (3, "7"), (4, "9"), (5, "2"), (6, "2147483648"), (7, "4611686018427387905"),
            (8, "9007199254740993"), (10, "9223372036854775807"), (11, "10000000000"), (13, "2"), (14, "2"),
        ] {
            let validNumber = numbers[position]
            numbers[position] = invalidNumber
            #expect(
                FanoutHeaders.parseInstruction(numbers.joined(separator: " ")) == nil,
                "number \(position): \(invalidNumber)"
            )
            numbers[position] = validNumber
        }
    }
}
