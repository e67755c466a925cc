import Foundation
import LiveActivity
import RecordTestbed
import Testing

@Suite("Request bodies")
struct BodyTests {
    static let bodies: [(record: RecordText, body: String)] = [
        (.end, "{\"aps\":\(RecordText.endAps.text)}"),
        (.end.with("payload", "{}"), "{\"aps\":\(RecordText.endAps.text)}"),
        (.end.with("payload", " {\n} "), "{\"aps\":\(RecordText.endAps.text)}"),
        (.end.with("payload", "{ \"a\" : [1, 2] }"), "{\"aps\":\(RecordText.endAps.text),\"a\" : [1, 2]}"),
        (.end.with("payload", "{\"a\":1,\"b\":{}}"), "{\"aps\":\(RecordText.endAps.text),\"a\":1,\"b\":{}}"),
    ]

    @Test(arguments: bodies)
    func `Bodies hold Apple's dictionary and the custom keys unchanged`(_ text: RecordText, _ body: String) throws {
        let record = Record(text.text)
        let (bytes, _) = record.body(try record.command())
        #expect(String(decoding: bytes, as: UTF8.self) == body)
    }

    @Test(arguments: [RecordText.update, .start, .end])
    func `A body's timestamp is replaced in place`(_ text: RecordText) throws {
        let record = Record(text.text)
        var (bytes, layout) = record.body(try record.command())
        bytes.withUnsafeMutableBytes { PushBody.setTimestamp(1_790_000_017, in: $0, layout) }
        let raised = Record(text.with("aps.timestamp", "1790000017").text)
        #expect(bytes == raised.body(try raised.command()).text)
    }

    @Test func `A timestamp without ten digits is replaced by the nearest one with ten`() {
        var target = Array("xx1234567890yy".utf8)
        var layout = PushBody.Layout.none
        layout.timestampDigits = ByteRange(offset: 2, count: 10)
        for (timestamp, text) in [
            (Int64(9_999_999_999), "9999999999"), (10_000_000_000, "9999999999"), (.max, "9999999999"),
            (0, "1000000000"), (.min, "1000000000"),
        ] {
            target.withUnsafeMutableBytes { PushBody.setTimestamp(timestamp, in: $0, layout) }
            #expect(String(decoding: target, as: UTF8.self) == "xx\(text)yy")
        }
    }
}

@Suite("Digests")
struct DigestTests {
    func digest(_ text: String) throws -> UInt64 {
        let record = Record(text)
        return record.digest(try record.command())
    }

    @Test func `Digests do not change with content that is not displayed`() throws {
        let digest = try digest(RecordText.update.text)
        for (path, value) in [
            ("aps.timestamp", "1790000001"), ("aps.timestamp", "9999999999"), ("sequence", "43"), ("priority", "5"),
            ("expiration", "1790000901"), ("activity", #""other""#), ("id", #""other""#),
            ("environment", #""production""#),
            ("payload", #"{ "match":"m1","live":true }"#),
        ] {
            #expect(try self.digest(RecordText.update.with(path, value).text) == digest, "\(path)")
        }
        #expect(try self.digest(" \(RecordText.update.text)\n") == digest)
        #expect(
            try self.digest(RecordText.end.with("payload", "{}").text) == self.digest(RecordText.end.text)
        )
    }

    /// Redis stores digests. If a release changed them, the first update of each activity would not be
    /// recognized as unchanged.
    @Test func `Digests stay the same from release to release`() throws {
        #expect(try digest(RecordText.update.text) == 0x977A_4B9C_F031_0ECF)
        #expect(try digest(RecordText.end.text) == 0xFAA5_5728_1627_10B9)
    }

    @Test func `Digests change with each bit of the displayed content`() throws {
        let text = Array(RecordText.update.text.utf8)
        let record = Record(text)
        let command = try record.command()
        let digest = record.digest(command)
        var seenDigests: Set<UInt64> = [digest]
        var changedCount = 0
        var differingBitCount = 0
        let displayedPositions =
            Array(Int(command.aps.offset)..<command.aps.end)
            + Array(Int(command.payloadMembers.offset)..<command.payloadMembers.end)
        for position in displayedPositions
        where !(Int(command.timestampDigits.offset)..<command.timestampDigits.end).contains(position) {
            for bit in 0..<8 {
                var changedText = text
                changedText[position] ^= 1 << bit
                let changedRecord = Record(changedText)
                guard let changedCommand = try? changedRecord.command(), changedCommand.aps == command.aps else {
                    continue
                }
                let changedDigest = changedRecord.digest(changedCommand)
                changedCount += 1
                differingBitCount += (changedDigest ^ digest).nonzeroBitCount
                #expect(seenDigests.insert(changedDigest).inserted, "bit \(bit) of byte \(position)")
            }
        }
        #expect(changedCount > 300)
        // A change of one bit should change 32 of the 64 bits on average. The range allows for chance over hundreds of
        // samples.
        #expect((30.0...34.0).contains(Double(differingBitCount) / Double(changedCount)))
    }

    @Test func `Digests differ for contents that differ in a counter or in the position of a boundary`() throws {
        var seenDigests: Set<UInt64> = []
        for counter in 0..<20_000 {
            let text = RecordText.end.with("aps.content-state", "{\"n\":\(counter)}").text
            #expect(try seenDigests.insert(digest(text)).inserted)
        }
        for length in 0..<300 {
            let filler = String(repeating: "a", count: length)
            #expect(try seenDigests.insert(digest(RecordText.end.with("aps.x", "\"\(filler)\"").text)).inserted)
            #expect(
                try seenDigests.insert(digest(RecordText.end.with("payload", "{\"x\":\"\(filler)\"}").text)).inserted
            )
        }
        #expect(
            try digest(RecordText.end.with("payload", #"{"a":1}"#).text)
                != digest(RecordText.end.with("aps.a", "1").text)
        )
    }

    @Test func `Digests do not depend on where the record is in memory`() throws {
        let digest = try digest(RecordText.update.text)
        for shift in 1..<16 {
            let record = Record(RecordText.update.text)
            let (body, layout) = record.body(try record.command())
            let moved = Array(repeating: 0, count: shift) + body
            #expect(
                moved.withUnsafeBytes { PushBody.digest(UnsafeRawBufferPointer(rebasing: $0[shift...]), layout) }
                    == digest
            )
        }
    }
}
