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

    /// Each size of blocks has chunks of its own. Here the chunks use up their memory, and not the blocks in them.
    @Test func `A lane whose chunks use too many bytes receives no more records until chunks are free`() {
        let core = CoreHarness {
            $0.blockChunkBytes = DeliveryConfiguration.blockChunkBytesMin
            $0.allocatedBlockBytesMax = 8 * DeliveryConfiguration.blockChunkBytesMin
        }
        var receivedCount = 0
        while core.canReceive, receivedCount < 2_000 {
            let state = String(repeating: "y", count: [10, 100, 300, 700, 1_500, 3_000][receivedCount % 6])
            core.receive(CommandText.update(1, of: "a\(receivedCount)", inside: #","x":"\#(state)""#))
            receivedCount += 1
        }
        #expect((6..<2_000).contains(receivedCount))
        while !core.outstandingCalls.isEmpty { core.reply(.unchanged) }
        core.acknowledgeAll()
        core.elapse(1_000)
        #expect(core.inProgressRecordCount == 0 && core.canReceive)
    }

    /// A held command needs several times the bytes of the registration that releases it.
    @Test func `A lane whose records use too many bytes releases few held commands at a time`() {
        let core = makeCoreWithHeldBackRegistrations()
        let state = String(repeating: "y", count: 2_000)
        var (releasedCount, callsMax) = (0, 0)
        func releaseNext() {
            let inside = #","x":"\#(releasedCount)\#(state)""#
            core.reply(.registered, held: CommandText.update(1, of: "a\(releasedCount)", inside: inside))
            releasedCount += 1
        }
        for _ in 0..<64 { releaseNext() }
        #expect(core.outstandingCalls == (0..<64).map { "admit a\($0).u1" })
        #expect(!core.canReceive)
        while let call = core.calls.first {
            callsMax = max(callsMax, core.calls.count)
            if call.ticket.purpose == .registerToken { releaseNext() } else { core.admitAndRespond() }
            core.acknowledgeAll()
        }
        #expect(callsMax == 64, "a released command and a registration's call take the same room")
        #expect(core.outcomes.count == 100 && core.inProgressRecordCount == 0)
    }

    /// Many registrations that release nothing need no room.
    @Test func `Registrations that wait for room continue with each reply`() {
        let core = makeCoreWithHeldBackRegistrations()
        for number in 0..<100 {
            #expect(core.outstandingCalls.first == "registerToken a\(number)")
            core.reply(.registered)
        }
        #expect(core.inProgressRecordCount == 0 && core.recordsAwaitingStoreCount == 0)
    }

    /// The lane drops what the registrations of a revoked partition release.
    @Test func `Registrations that wait for room do not delay a revocation`() {
        let core = makeCoreWithHeldBackRegistrations()
        core.beginRevoking(core.registrationsPartition)
        #expect(core.outstandingCalls.count == 100)
        for number in 0..<100 { core.reply(.registered, held: .update(1, of: "a\(number)")) }
        #expect(core.isDrained(core.registrationsPartition) && core.inProgressRecordCount == 0)
    }

    /// Returns a core with 100 registrations, for whose held commands it has too few bytes.
    private func makeCoreWithHeldBackRegistrations() -> CoreHarness {
        let core = CoreHarness { ($0.recordsMax, $0.usedBlockBytesMax) = (256, 64 << 10) }
        for number in 0..<100 { core.register(CommandText.registration(of: "a\(number)")) }
        #expect(core.canReceive && core.outstandingCalls.count == 64 && core.recordsAwaitingStoreCount == 64)
        return core
    }

    /// An activity without a command may be kept because of its spacing. But a lane keeps no more such activities than
    /// it can have records.
    @Test func `The spacing of an app's activities does not stop other apps`() {
        let core = CoreHarness(apps: [CommandText.app, "com.example.other"]) {
            $0.recordsMax = 64
            $0.reloadable.policies[0].spacingMilliseconds = 3_600_000
            $0.reloadable.policies[0].throttledSpacingMillisecondsMax = 3_600_000
        }
        for number in 0..<200 {
            core.receive(.update(1, of: "a\(number)"))
            core.admitAndRespond()
            core.acknowledgeAll()
            guard core.canReceive else { break }
        }
        #expect(core.outcomes.count == 200 && core.canReceive)
        core.receive(CommandText.update(1, of: "x", app: "com.example.other"))
        #expect(core.outstandingCalls == ["admit x.u1"])
    }

    @Test func `A lane that has too many activities leaves their spacing to Redis`() {
        let core = CoreHarness { $0.recordsMax = 64 }
        for number in 0...64 {
            core.receive(.update(1, of: "a\(number)"))
            core.admitAndRespond()
            core.acknowledgeAll()
        }
        core.receive(.update(2, of: "a63"), .update(2, of: "a64"))
        #expect(core.outstandingCalls == ["admit a64.u2"], "the lane has kept 64 activities, but not the last one")
        core.reply(.wait, waitMilliseconds: 500)
        core.elapse(500 + PaceTests.timerPrecisionMilliseconds)
        #expect(core.outstandingCalls == ["admit a64.u2"])
    }

    /// A registration needs an activity's slot only when Redis' reply releases a held command.
    @Test func `A released command finds room for its activity`() {
        let core = CoreHarness { $0.recordsMax = 64 }
        for number in 0..<64 {
            core.receive(.update(1, of: "a\(number)"))
            core.admitAndRespond()
            core.acknowledgeAll()
        }
        for number in 0..<32 { core.register(CommandText.registration(of: "held\(number)")) }
        for number in 0..<32 { core.receive(.update(1, of: "b\(number)")) }
        #expect(!core.canReceive)
        for number in 0..<32 { core.reply(.registered, held: .update(1, of: "held\(number)")) }
        #expect(core.outstandingCalls.count == 64)
    }

    /// Each registration releases one start after another. Each start is of another activity, which has its spacing
    /// when the next start comes.
    @Test func `Starts that are released one after another find room for their activities`() {
        let core = CoreHarness { $0.recordsMax = 64 }
        for _ in 0..<64 { core.register(CommandText.deviceRegistration()) }
        for round in 0..<4 {
            for number in 0..<64 { core.reply(.registered, held: .start(1, of: "\(round)/\(number)")) }
            for _ in 0..<64 { core.reply(.tokenFound) }
            for _ in 0..<64 { core.admitAndRespond() }
            core.acknowledgeAll()
        }
        #expect(core.outcomes.count == 256)
        #expect(core.inProgressRecordCount == 64 && core.outstandingCalls.count == 64)
    }

    /// A tombstone names no app, so it concerns each app of the lane.
    @Test func `A tombstone in a lane with many apps makes few calls at a time`() {
        let core = CoreHarness(apps: (0..<100).map { "com.example.app\($0)" }) { $0.recordsMax = 64 }
        for number in 0..<64 { core.unregister(key: "a\(number)") }
        #expect(!core.canReceive)
        var (callsMax, callCounts) = (0, [Int](repeating: 0, count: 100))
        while let call = core.calls.first {
            callsMax = max(callsMax, core.calls.count)
            callCounts[Int(call.ticket.appIndex)] += 1
            core.reply(.unregistered)
        }
        #expect(callsMax <= 64 * 4)
        #expect(callCounts == [Int](repeating: 64 * 2, count: 100))
        #expect(core.committableOffset(core.registrationsPartition) == 64 && core.inProgressRecordCount == 0)
    }

    @Test func `A partition accepts no offset beyond the span of its ledger`() {
        let core = CoreHarness { $0.ledgerSpanOffsetCount = 64 }
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
