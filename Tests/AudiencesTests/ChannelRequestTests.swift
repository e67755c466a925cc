import ActivityStore
import LiveActivity
import Testing

@testable import Audiences
@testable import Delivery

/// What the core requests from the `ChannelKeeper`.
@Suite struct ChannelRequestTests {
    private func makeRule(_ patterns: String...) -> AudienceChannelRule {
        AudienceChannelRule(patterns: patterns, environments: [.production])
    }

    private func makeChannel(_ storage: ChannelStoragePolicy = .newest) throws -> AudienceChannel {
        let identifier = try #require(ChannelIdentifier("Y2hhbm5lbA=="))
        return AudienceChannel(environment: .production, storage: storage, identifier: identifier)
    }

    /// Returns what the core requests when Redis admits a command to `match-1`.
    private func channelRequests(
        _ event: Event,
        _ rule: AudienceChannelRule?,
        _ channel: AudienceChannel? = nil,
        expirationSeconds: Int64 = -1
    ) -> [CoreChannelRequest.Kind] {
        let harness = RoundHarness(channelRule: rule)
        if let channel {
            harness.store.setChannel(channel, in: .production, of: RoundHarness.digest, app: RoundHarness.app)
        }
        harness.handOver(1, event, expirationSeconds: expirationSeconds)
        harness.performPendingWork()
        return harness.takeChannelRequests().map(\.kind)
    }

    @Test func `A star in a pattern matches any text that follows`() {
        for (pattern, matches) in [
            ("match-*", true), ("match-1", true), ("*", true), ("match-", false), ("match-10", false),
        ] {
            #expect((channelRequests(.update, makeRule(pattern)) == [.wanted]) == matches, "\(pattern)")
        }
        #expect(channelRequests(.update, makeRule("cup-*", "match-1")) == [.wanted])
        #expect(channelRequests(.update, makeRule()).isEmpty && channelRequests(.update, nil).isEmpty)
    }

    @Test func `No channel is requested if there is one`() throws {
        #expect(channelRequests(.update, makeRule("*"), try makeChannel()).isEmpty)
        let both = AudienceChannelRule(patterns: ["*"], environments: [.production, .sandbox])
        #expect(channelRequests(.update, both, try makeChannel()) == [.wanted])
    }

    /// The audience may have ended before, so the deletion of its channel may already be scheduled.
    @Test func `A start requests a channel even if there is one`() throws {
        #expect(channelRequests(.start, nil, try makeChannel()) == [.wanted])
        #expect(channelRequests(.start, nil).isEmpty)
    }

    @Test func `An end says until when APNs may deliver it`() throws {
        let nowSeconds = RoundHarness().nowMilliseconds / 1_000
        #expect(
            channelRequests(.end, makeRule("*"), try makeChannel(), expirationSeconds: nowSeconds + 60) == [
                .ended(storedUntilWallMilliseconds: (nowSeconds + 60) * 1_000)
            ]
        )
        let storageEndSeconds = nowSeconds + ChannelStoragePolicy.storedSecondsMax
        #expect(
            channelRequests(.end, nil, try makeChannel(), expirationSeconds: nowSeconds + 86_400) == [
                .ended(storedUntilWallMilliseconds: storageEndSeconds * 1_000)
            ]
        )
        #expect(
            channelRequests(.end, nil, try makeChannel(.none), expirationSeconds: nowSeconds + 60) == [
                .ended(storedUntilWallMilliseconds: 0)
            ]
        )
        // The core knows no channel, but the rule matches, so the keeper may be creating one now.
        #expect(channelRequests(.end, makeRule("*")) == [.ended(storedUntilWallMilliseconds: 0)])
        #expect(
            channelRequests(.end, makeRule("cup-*")).isEmpty && channelRequests(.end, nil).isEmpty,
            "there is no channel to be deleted"
        )
    }

    /// A later command repeats a request that the core dropped. (R4)
    @Test func `The number of channel requests is limited`() throws {
        let harness = RoundHarness(channelRule: makeRule("*"))
        let audience = RoundHarness.audience
        for _ in 0..<Audiences.channelRequestsMax + 10 {
            audience.withUnsafeBytes { _ = harness.core.appendChannelRequest(.wanted, appIndex: 0, audience: $0) }
        }
        #expect(harness.takeChannelRequests().count == Audiences.channelRequestsMax)
    }
}
