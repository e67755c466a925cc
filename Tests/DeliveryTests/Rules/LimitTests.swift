import Delivery
import LiveActivity
import Testing

/// A lane has room for a limited number of records, activities and bytes. A full lane takes no more records. Each pool
/// has a limit of pushes in flight. (R4)
@Suite struct LimitTests {
    @Test func `A full lane receives no more records until one is settled`() {
        let core = CoreHarness { $0.recordsMax = 64 }
        for number in 0..<64 {
            #expect(core.canReceive)
            core.receive(.update(1, of: "a\(number)"))
        }
        #expect(!core.canReceive)
        core.reply(.unchanged)
        #expect(!core.canReceive, "the record's result is not acknowledged yet")
        core.acknowledgeAll()
        #expect(core.canReceive)
    }

    @Test func `A lane whose records use too many bytes receives no more records`() {
        let core = CoreHarness { $0.usedBlockBytesMax = 64 << 10 }
        var receivedCount = 0
        while core.canReceive {
            let state = String(repeating: "y", count: 2_000 + receivedCount)
            core.receive(CommandText.update(1, of: "a\(receivedCount)", inside: #","x":"\#(state)""#))
            receivedCount += 1
            guard receivedCount < 64 else { break }
        }
        #expect((8..<32).contains(receivedCount), "each record uses 2 to 4 KiB: \(receivedCount)")
        core.reply(.unchanged)
        core.acknowledgeAll()
        #expect(core.canReceive)
    }

    @Test func `Activities without a command count towards the limit`() {
        let core = CoreHarness { $0.recordsMax = 64 }
        // A lane stops receiving when it has twice as many activities as it can have records.
        for number in 0..<128 {
            #expect(core.canReceive)
            core.receive(.update(1, of: "a\(number)"))
            core.admitAndRespond()
            core.acknowledgeAll()
        }
        #expect(!core.canReceive)
        core.elapseSpacing()
        #expect(core.canReceive)
    }

    /// A registration needs an activity's slot only when Redis' reply releases a held command.
    @Test func `A released command finds room for its activity`() {
        let core = CoreHarness { $0.recordsMax = 64 }
        for number in 0..<32 { core.register(CommandText.registration(of: "held\(number)")) }
        let registrationCount = core.calls.count
        for number in 0..<128 where core.canReceive {
            core.receive(.update(1, of: "a\(number)"))
            core.reply(.send, toNewest: true)
            core.push()
            core.respond(.accepted)
            core.acknowledgeAll()
        }
        #expect(!core.canReceive)
        for number in 0..<registrationCount { core.reply(.registered, held: .update(1, of: "held\(number)")) }
        #expect(core.outstandingCalls.count == registrationCount)
    }

    @Test func `A partition accepts no offset beyond the window of its ledger`() {
        let core = CoreHarness { $0.ledgerWindowOffsetCount = 64 }
        for number in 0..<64 {
            #expect(core.hasRoom(for: Int64(number), partition: core.commandsPartition) == true)
            core.receive(.update(1, of: "a\(number)"))
        }
        #expect(!core.hasRoom(for: 64, partition: core.commandsPartition))
        core.reply(.unchanged)
        core.acknowledgeAll()
        #expect(core.hasRoom(for: 64, partition: core.commandsPartition))
        #expect(!core.hasRoom(for: 65, partition: core.commandsPartition))
    }

    @Test func `The number of an app's pushes in flight is limited`() {
        let core = CoreHarness { $0.creditsPerPoolMax = 2 }
        core.receive(.update(1, of: "b"), .update(1, of: "c"), .update(1, of: "d"), .update(1, of: "e"))
        #expect(core.outstandingCalls == ["admit b.u1", "admit c.u1"])
        core.receive(.update(2, of: "e"))
        #expect(core.outcomes == ["e.u1 superseded"], "a newer state still replaces a command that waits")
        core.admitAndRespond()
        #expect(
            core.outstandingCalls == ["admit c.u1", "admit d.u1"],
            "commands get their credits in the order of their receipt"
        )
        core.reply(.unchanged)
        #expect(core.outstandingCalls == ["admit d.u1", "admit e.u2"])
    }

    @Test func `An app does not wait for another app`() {
        let core = CoreHarness(apps: [CommandText.app, "com.example.other"]) {
            $0.creditsPerPoolMax = 1
        }
        core.receive(
            .update(1, of: "b"),
            .update(1, of: "c"),
            CommandText.update(1, of: "x", app: "com.example.other"),
            CommandText.update(1, of: "y", app: "com.example.other")
        )
        #expect(core.outstandingCalls == ["admit b.u1", "admit x.u1"])
        core.reply(.unchanged)
        #expect(core.outstandingCalls == ["admit x.u1", "admit c.u1"])
    }

    @Test func `A command that expires while it waits for a credit makes room for the next`() {
        let core = CoreHarness { $0.creditsPerPoolMax = 1 }
        core.receive(
            .update(1, of: "b"),
            .update(1, of: "c", beside: ExpirationTests.expirationAtStart),
            .update(1, of: "d")
        )
        core.elapse(1_000)
        core.reply(.unchanged)
        #expect(core.outcomes == ["b.u1 unchanged", "c.u1 expired"])
        #expect(core.outstandingCalls == ["admit d.u1"])
    }

    @Test(arguments: [PushResult.Disposition.retryLater, .ambiguous])
    func `A command that waits for readmission does not count as in flight`(disposition: PushResult.Disposition) {
        let core = CoreHarness { $0.creditsPerPoolMax = 1 }
        core.receive(.update(1, of: "b"), .update(1, of: "c"))
        core.admitAndRespond(disposition)
        #expect(core.outstandingCalls == ["admit c.u1"])
    }

    @Test func `A retry that is cancelled makes room for the next command`() {
        let core = CoreHarness { $0.creditsPerPoolMax = 1 }
        core.receive(.update(1, of: "b"), .update(1, of: "c"))
        core.admitAndRespond(.retrySoon)
        #expect(core.outstandingCalls == [], "b's push backs off and is still on its way")
        core.receive(.update(2, of: "b"))
        #expect(core.outstandingCalls == ["admit c.u1"])
    }
}
