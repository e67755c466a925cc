import LiveActivity
import RecordTestbed
import Testing

@Suite("Commands to audiences")
struct AudienceTests {
    @Test func `Commands to audiences have an audience and no activity`() throws {
        let record = Record(RecordText.toAudience.text)
        let command = try record.command()
        #expect(record.string(command.audience) == "m1")
        #expect(command.activity.isAbsent && command.device.isAbsent && command.token.isAbsent)
        #expect(try Record(RecordText.update.text).command().audience.isAbsent)
    }

    @Test(arguments: [("true", true), ("false", false), (nil, false)])
    func `Commands to audiences may ask for a channel`(_ value: String?, _ requestsChannel: Bool) throws {
        for text in [RecordText.toAudience, .startOfAudience] {
            let record = Record((value.map { text.with("channel", $0) } ?? text).text)
            let command = try record.command()
            #expect(command.requestsChannel == requestsChannel)
            var written = CommandRecord(
                app: command.app.range.bytes(in: record.bytes),
                audience: command.audience.range.bytes(in: record.bytes),
                aps: command.aps.bytes(in: record.bytes)
            )
            if command.event == .start { written.activity = command.activity.range.bytes(in: record.bytes) }
            written.requestsChannel = requestsChannel
            var writer = JSONWriter()
            written.write(to: &writer)
            #expect(try Record(writer.bytes).command().requestsChannel == requestsChannel)
        }
    }

    @Test(arguments: ["m1:{device}", "{device}", "{{device}", "{de{device}-x"])
    func `Commands to audiences may start an activity on each device`(_ template: String) throws {
        let record = Record(RecordText.startOfAudience.with("activity", "\"\(template)\"").text)
        let command = try record.command()
        #expect(record.string(command.audience) == "m1")
        #expect(record.string(command.activity) == template)
    }

    @Test func `Commands to audiences may write the placeholder with escapes`() throws {
        let record = Record(RecordText.startOfAudience.with("activity", #""m1:\u007bdevice}""#).text)
        #expect(record.string(try record.command().activity) == "m1:{device}")
    }

    @Test func `Commands to audiences come out unchanged when they are written again`() throws {
        for text in [RecordText.toAudience.text, RecordText.startOfAudience.text] {
            let record = Record(text)
            let command = try record.command()
            var written = CommandRecord(
                app: command.app.range.bytes(in: record.bytes),
                audience: command.audience.range.bytes(in: record.bytes),
                aps: command.aps.bytes(in: record.bytes)
            )
            if command.event == .start { written.activity = command.activity.range.bytes(in: record.bytes) }
            var writer = JSONWriter()
            written.write(to: &writer)
            let writtenRecord = Record(writer.bytes)
            let readCommand = try writtenRecord.command()
            #expect(writtenRecord.string(readCommand.audience) == "m1")
            #expect(writtenRecord.string(readCommand.activity) == record.string(command.activity))
        }
    }

    private static func expand(_ template: String, _ device: String) -> String? {
        let target = UnsafeMutableRawBufferPointer.allocate(byteCount: Limits.identifierBytesMax, alignment: 1)
        defer { target.deallocate() }
        return Array(template.utf8)
            .withUnsafeBytes { template in
                Array(device.utf8)
                    .withUnsafeBytes { ActivityIdentifierTemplate.expand(template, device: $0, into: target) }
            }
            .map { String(decoding: target[..<$0], as: UTF8.self) }
    }

    @Test func `The placeholder of a template is replaced by the device's id`() {
        #expect(Self.expand("m1:{device}", "7f") == "m1:7f")
        #expect(Self.expand("{device}/{device}.{dev", "7f") == "7f/7f.{dev")
        #expect(Self.expand("{device}", "{device}") == "{device}")
        let longest = String(repeating: "d", count: Limits.identifierBytesMax)
        #expect(Self.expand("{device}", longest) == longest)
        #expect(Self.expand("{device}x", longest) == nil)
    }

    @Test func `The store's text about audiences that were left is read`() throws {
        #expect([UInt8](repeating: 0, count: 6).withUnsafeBytes { AudienceDepartures($0) == nil })
        #expect([UInt8](repeating: 0, count: 13).withUnsafeBytes { AudienceDepartures($0) == nil })
        // The time of the leave, 258 ms (six bytes), and the digest of one audience (eight bytes), little-endian.
        let bytes: [UInt8] = [2, 1, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 1]
        try bytes.withUnsafeBytes {
            let departures = try #require(AudienceDepartures($0))
            #expect(departures.leftAtMilliseconds == 258)
            #expect(Array(departures.audiences) == [AudienceDigest(value: 0x0100_0000_0000_0007)])
        }
    }
}
