import LiveActivity
import RecordTestbed
import Testing

@Suite("Commands to a channel that the producer manages")
struct ProducerChannelTests {
    @Test(arguments: ["production", "sandbox", nil])
    func `Commands name the channel and its environment, production by default`(_ environment: String?) throws {
        let text = RecordText.toChannel.without("environment")
        let record = Record((environment.map { text.with("environment", "\"\($0)\"") } ?? text).text)
        let command = try record.command()
        #expect(record.string(command.channel) == "dHN0LXNyY2gtY2hubA==")
        #expect(command.audience.isAbsent && command.activity.isAbsent && !command.requestsChannel)
        #expect(command.environment.map { "\($0.name)" } == environment)
    }

    @Test func `A command may write the channel's id with escapes`() throws {
        let record = Record(RecordText.toChannel.with("channel", #""ab\/\u002b""#).text)
        #expect(record.string(try record.command().channel) == "ab/+")
    }

    @Test(arguments: [(RecordText.toChannel, 5_120), (.toAudience, 4_096)])
    func `Bodies to a channel may be 5,120 bytes long, others 4,096`(_ template: RecordText, _ limit: Int) throws {
        func record(_ count: Int) -> Record {
            Record(template.with("payload", "{\"x\":\"\(String(repeating: "x", count: count))\"}").text)
        }
        let rest = try record(0).command().bodyByteCount
        #expect(try record(limit - rest).command().bodyByteCount == limit)
        let tooLong = record(limit - rest + 1)
        do throws(Fault) {
            _ = try tooLong.command()
            Issue.record("a body of \(limit + 1) bytes is taken")
        } catch {
            #expect(error.code == .bodyTooLarge && error.valueAboveLimit == UInt32(limit + 1))
            #expect(error.message(in: tooLong.bytes).contains("has \(limit + 1) bytes, \(limit) are allowed"))
        }
    }

    @Test
    func `Commands to a channel are admitted separately from an audience of the same name, and in each environment`() {
        let digests = Array("YWI=".utf8)
            .withUnsafeBytes { name in
                [AudienceDigest(of: name)]
                    + APNsEnvironment.allCases.map { AudienceDigest(ofChannel: name, in: $0) }
            }
        #expect(Set(digests).count == 3)
    }
}
