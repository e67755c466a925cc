import RedisTestbed
import Testbed
import Testing

@testable import CausewayWorker

/// A primary of a cluster loses the hashes of audiences. The registry of their channels, on another primary, stays
/// complete.
@Suite(.ownThread) struct LostHashTests {
    /// Neither the configuration nor a later command requests the channel.
    @Test func `A channel that only the audience's hash has lost is written to it again`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            let entry = try await worker.create("final", ChannelKeeperFixture.appEnvironment)
            fixture.preventDailyReconciliation()
            fixture.preventHashRefresh()
            try fixture.expireAudienceHash(of: "final")
            worker.possibleHashLoss.noteMembers(areMissing: true)
            let requests = AsyncStream.makeStream(of: ChannelRequest.self)
            let run = Task { await worker.run(requests.stream, respond: { _, _ in }) }
            defer { run.cancel() }
            try await eventuallyInTask("the channel in the hash") {
                try fixture.channelInAudienceHash(of: "final") == entry.channelFieldValue
            }
            requests.continuation.finish()
            run.cancel()
            await run.value
        }
    }

    /// The next call tries again, as long as Redis fails.
    @Test func `Hashes are written when Redis works again`() async throws {
        try await ChannelKeeperFixture.run { fixture in
            let worker = try await fixture.makeKeeper()
            _ = try await worker.create("final", ChannelKeeperFixture.appEnvironment)
            try fixture.expireAudienceHash(of: "final")
            worker.possibleHashLoss.noteMembers(areMissing: true)
            // The keeper writes to hashes with HSET.
            fixture.server.command("ACL", "SETUSER", "default", "-hset")
            await #expect(throws: ChannelFailure.self) { try await worker.rewritePossiblyLostHashes() }
            fixture.server.command("ACL", "SETUSER", "default", "+hset")
            try await worker.rewritePossiblyLostHashes()
            #expect(try fixture.channelInAudienceHash(of: "final") != nil)
        }
    }

    @Test func `A loss is noted when members begin to be missing, and when they are back`() {
        let possibleHashLoss = PossibleHashLoss()
        var takenNotes: [Bool] = []
        for areMissing in [false, true, true, false, false] {
            possibleHashLoss.noteMembers(areMissing: areMissing)
            takenNotes.append(possibleHashLoss.takeNote())
        }
        #expect(takenNotes == [false, true, false, true, false])
    }
}
