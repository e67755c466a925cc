import Testing

@testable import CausewayWorker

/// The order of the requests for channels. (R32)
@Suite struct AudienceQueuesTests {
    private func request(_ audience: String, _ kind: ChannelRequest.Kind = .wanted) -> ChannelRequest {
        ChannelRequest(kind, app: "com.example.app", audience: audience)
    }

    @Test func `Requests that wait for their audience's first one leave the slots to others`() {
        let lines = AudienceQueues()
        for _ in 0..<AudienceQueues.slotsMax + 1 { lines.add(request("slow")) }
        lines.add(request("other"))
        #expect(lines.nextReady() == request("slow"))
        #expect(lines.nextReady() == request("other"))
        #expect(lines.nextReady() == nil)
    }

    @Test func `The requests of one audience run one after the other, in order`() {
        let lines = AudienceQueues()
        let requests = [
            request("a"), request("a", .ended(storedUntilMilliseconds: 1)), request("a", .lost(channel: "c")),
        ]
        for request in requests { lines.add(request) }
        for request in requests {
            #expect(lines.nextReady() == request)
            #expect(lines.nextReady() == nil)
            lines.end(request)
        }
        #expect(lines.nextReady() == nil)
    }

    @Test func `An audience with many requests takes turns with the others`() {
        let lines = AudienceQueues()
        for audience in ["many", "many", "few"] { lines.add(request(audience)) }
        #expect(lines.nextReady() == request("many"))
        lines.end(request("many"))
        #expect(lines.nextReady() == request("few"))
        #expect(lines.nextReady() == request("many"))
    }

    @Test func `No more slots are given than there are`() {
        let lines = AudienceQueues()
        for _ in 0..<AudienceQueues.slotsMax { #expect(lines.acquireSlot()) }
        #expect(!lines.acquireSlot())
        lines.releaseSlot()
        #expect(lines.acquireSlot())
    }

    @Test(.timeLimit(.minutes(1))) @MainActor func `A request without room waits until another one ends`() async {
        let lines = AudienceQueues()
        for _ in 0..<AudienceQueues.requestsMax { lines.add(request("full")) }
        var hasEnded = false
        let ending = Task {
            hasEnded = true
            lines.end(request("full"))
        }
        await lines.awaitRoom()
        #expect(hasEnded)
        lines.add(request("full"))
        await ending.value
    }
}
