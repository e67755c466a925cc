import Delivery
import LiveActivity
import Testing

/// If the token of a command is not known, Redis holds the command as the record that ``RecordView`` writes. Decoding
/// this record gives a command with the same meaning.
@Suite struct RecordViewTests {
    @Test(arguments: [
        CommandText.update(1),
        CommandText.update(1, alert: true, beside: #""payload":{ "x" : [1, {"y":"z"}] },"#),
        CommandText.update(1, beside: #""payload":{},"sequence":18446744073709551615,"priority":10,"#),
        CommandText.end(2, beside: #""expiration":1790000600,"#),
        CommandText.start(3, beside: #""sequence":4,"#),
        CommandText.update(1, id: #"an \"id\" \/ \u00fc \ud83c\udfcf"#),
    ])
    func `A held command is a record with the meaning of the original one`(text: String) throws {
        let core = CoreHarness()
        core.receive(text)
        core.reply(.noToken)
        let heldCommand = try #require(try core.oldestCall.heldCommand)
        let original = Array(text.utf8)
        try heldCommand.withUnsafeBytes { written in
            try original.withUnsafeBytes { original in
                let decodedHeldCommand = try Command.decode(written)
                let decodedOriginal = try Command.decode(original)
                #expect(decodedHeldCommand.event == decodedOriginal.event)
                #expect(decodedHeldCommand.version == decodedOriginal.version)
                #expect(
                    decodedHeldCommand.expirationSeconds
                        == (decodedOriginal.event == .start
                            ? decodedOriginal.version.timestamp + 600 : decodedOriginal.expirationSeconds)
                )
                #expect(
                    decodedHeldCommand.priority == (try core.oldestCallView.priority),
                    "the held command has the priority that its policy gave"
                )
                #expect(
                    bytes(decodedHeldCommand.identifier, in: written) == bytes(decodedOriginal.identifier, in: original)
                )
                #expect(
                    bytes(decodedHeldCommand.activity, in: written) == bytes(decodedOriginal.activity, in: original)
                )
                #expect(bytes(decodedHeldCommand.device, in: written) == bytes(decodedOriginal.device, in: original))
                #expect(
                    Array(decodedHeldCommand.aps.bytes(in: written)) == Array(decodedOriginal.aps.bytes(in: original))
                )
                #expect(
                    Array(decodedHeldCommand.payloadMembers.bytes(in: written))
                        == Array(decodedOriginal.payloadMembers.bytes(in: original))
                )
            }
        }
    }

    @Test func `A default id that is longer than an id may be is not held`() throws {
        let core = CoreHarness { $0.commandsTopic = Array(String(repeating: "t", count: 249).utf8) }
        core.receive(CommandText.update(1).replacing(#""id":"u1","#, with: ""))
        core.reply(.noToken)
        let view = try core.oldestCallView
        #expect(view.commandIdentifier.count == 249 + 4)
        let heldCommandText = String(decoding: try #require(try core.oldestCall.heldCommand), as: UTF8.self)
        #expect(!heldCommandText.contains(#""id""#))
    }

    @Test func `A command without an id is deferred with its default id`() throws {
        let core = CoreHarness {
            $0.reloadable.deferAfterMilliseconds = 10_000
            $0.reloadable.deferredDelayMilliseconds = 30_000
        }
        core.receive(CommandText.update(1).replacing(#""id":"u1","#, with: ""))
        core.reply(.send)
        core.elapseInSteps(DeferralTests.overdueMilliseconds)
        let deferredCommand = try #require(core.deferrals.first)
        core.acknowledgeAll()
        core.elapseInSteps(DeferralTests.delayMilliseconds)
        core.receive(deferredCommand)
        core.admitAndRespond()
        core.acknowledgeAll()
        #expect(core.results.count == 1 && core.results.first?.outcome == "accepted")
    }

    /// Returns the text without JSON escapes, as the core compares it and writes it into results.
    private func bytes(_ text: TextRange, in record: UnsafeRawBufferPointer) -> [UInt8] {
        guard !text.isAbsent else { return [] }
        return Array(unsafeUninitializedCapacity: Int(text.range.count)) { buffer, count in
            count = unescape(text, from: record, into: UnsafeMutableRawBufferPointer(buffer))
        }
    }
}
