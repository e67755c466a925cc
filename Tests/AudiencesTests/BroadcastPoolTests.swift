import Delivery
import LiveActivity
import Testing

@testable import Audiences

/// Broadcasts have another host than pushes to devices, and so a pool of their own. (R22)
@Suite struct BroadcastPoolTests {
    private let pool = PoolTarget(appIndex: 0, environment: .production)

    /// Returns a harness with one member's push and one broadcast, which both may be sent now.
    private func makeHarness() throws -> RoundHarness {
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        let identifier = try #require(ChannelIdentifier("dHN0LXNyY2gtY2hubA=="))
        let channel = AudienceChannel(environment: .production, storage: .newest, identifier: identifier)
        harness.appendCommand(1, channel: channel, broadcastCount: 1)
        harness.appendCommand(1, broadcastCount: 1)
        harness.performPendingWork()
        return harness
    }

    private func takePush(_ traffic: PoolTraffic, in harness: RoundHarness) -> AudiencePush? {
        harness.core.takeNextPush(pool, traffic: traffic, pushesInFlightMax: 1, now: harness.moment)
    }

    /// How many pushes the pools for devices, for broadcasts and for everything have in flight.
    private func inFlightCounts(in harness: RoundHarness) -> [Int] {
        let traffics: [PoolTraffic] = [.devicePushes, .broadcasts, .everything]
        return traffics.map { harness.core.inFlightPushCount(of: pool, traffic: $0) }
    }

    private func accept(_ push: AudiencePush, in harness: RoundHarness) {
        harness.core.handlePushResponse(
            tag: push.tag,
            PushResult(
                disposition: .accepted,
                status: 200,
                reason: UnsafeRawBufferPointer(start: nil, count: 0),
                invalidAtWallMilliseconds: nil,
                sentAtWallMilliseconds: harness.nowMilliseconds,
                responseAtWallMilliseconds: harness.nowMilliseconds
            ),
            now: harness.moment
        )
    }

    @Test func `Each pool sends only its own pushes, and a full pool does not hold up the other one`() throws {
        let harness = try makeHarness()
        let broadcast = try #require(takePush(.broadcasts, in: harness))
        let second = takePush(.broadcasts, in: harness)
        let devicePush = try #require(takePush(.devicePushes, in: harness))
        #expect(broadcast.isBroadcast && second == nil && !devicePush.isBroadcast)
        #expect(inFlightCounts(in: harness) == [1, 1, 2])
        harness.core.putBackPush(devicePush)
        #expect(inFlightCounts(in: harness) == [0, 1, 1])
        accept(broadcast, in: harness)
        #expect(inFlightCounts(in: harness) == [0, 0, 0])
        #expect(harness.sendAndAcceptPushes().map(\.content) == [1], "the push to the member")
    }

    /// A broadcast that gets no stream is offered again, and only to the pool for broadcasts.
    @Test func `A broadcast never goes to the pool for devices`() throws {
        let harness = try makeHarness()
        let broadcast = try #require(takePush(.broadcasts, in: harness))
        harness.core.putBackPush(broadcast)
        #expect(inFlightCounts(in: harness) == [0, 0, 0])
        let devicePush = try #require(takePush(.devicePushes, in: harness))
        #expect(!devicePush.isBroadcast)
        harness.core.putBackPush(devicePush)
        let next = try #require(takePush(.broadcasts, in: harness))
        #expect(next.isBroadcast)
    }

    /// `/statusz` says whether a pool without a connection has something to send.
    @Test func `A broadcast that has no stream counts as waiting in its own pool`() throws {
        let harness = try makeHarness()
        func waitingCount(_ traffic: PoolTraffic) -> Int {
            harness.core.waitingBroadcastCount(of: pool, traffic: traffic)
        }
        let push = harness.core.takeNextPush(pool, traffic: .broadcasts, pushesInFlightMax: 0, now: harness.moment)
        #expect(push == nil, "the pool has no stream")
        #expect(waitingCount(.broadcasts) == 1 && waitingCount(.everything) == 1 && waitingCount(.devicePushes) == 0)
        let broadcast = try #require(takePush(.broadcasts, in: harness))
        #expect(waitingCount(.broadcasts) == 0)
        harness.core.putBackPush(broadcast)
        #expect(waitingCount(.broadcasts) == 1)
    }

    /// The breaker of the only pool is open, and a proxy refuses the path of broadcasts. The refusals of broadcasts
    /// would keep the breaker open although pushes to devices would succeed.
    @Test func `While broadcasts are refused, they probe a pool after all other pushes`() throws {
        let harness = try makeHarness()
        var order = ProbeOrder()
        #expect(order.trafficBeforeStarts(of: .everything, isProbing: true) == .everything)
        let broadcast = try #require(takePush(.everything, in: harness))
        #expect(broadcast.isBroadcast)
        harness.core.putBackPush(broadcast)

        order.noteBroadcastResponse(isAccepted: false, mayRefuseOnlyBroadcasts: true)
        // A 503 shows nothing about broadcasts.
        order.noteBroadcastResponse(isAccepted: false, mayRefuseOnlyBroadcasts: false)
        #expect(order.trafficBeforeStarts(of: .everything, isProbing: false) == .everything)
        #expect(order.trafficBeforeStarts(of: .broadcasts, isProbing: true) == .broadcasts)
        let traffic = order.trafficBeforeStarts(of: .everything, isProbing: true)
        let devicePush = try #require(takePush(traffic, in: harness))
        #expect(!devicePush.isBroadcast)
        let later = try #require(takePush(.broadcasts, in: harness))
        #expect(later.isBroadcast)

        order.noteBroadcastResponse(isAccepted: true, mayRefuseOnlyBroadcasts: false)
        #expect(order.trafficBeforeStarts(of: .everything, isProbing: true) == .everything)
    }
}
