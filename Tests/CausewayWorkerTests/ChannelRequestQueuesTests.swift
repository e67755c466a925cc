import Testing

@testable import CausewayWorker

/// The order of the requests for channels (R22, R32), and the limits of how many run and wait.
@Suite struct ChannelRequestQueuesTests {
    private func request(
        _ audience: String,
        _ kind: ChannelRequest.Kind = .wanted,
        app: String = "com.example.app"
    ) -> ChannelRequest {
        ChannelRequest(kind, app: app, audience: audience)
    }

    @Test func `Requests that wait for an earlier one of their audience do not delay other audiences`() {
        let queues = ChannelRequestQueues(appCount: 1)
        for _ in 0..<ChannelRequestQueues.permitsMax + 1 { queues.add(request("slow")) }
        queues.add(request("other"))
        #expect(queues.takeNextReadyRequest() == request("slow"))
        #expect(queues.takeNextReadyRequest() == request("other"))
        #expect(queues.takeNextReadyRequest() == nil)
    }

    @Test func `The requests of one audience run one after the other, in order`() {
        let queues = ChannelRequestQueues(appCount: 1)
        let requests = [
            request("a"), request("a", .ended(storedUntilWallMilliseconds: 1)), request("a", .lost(channel: "c")),
        ]
        for request in requests { queues.add(request) }
        for request in requests {
            #expect(queues.takeNextReadyRequest() == request)
            #expect(queues.takeNextReadyRequest() == nil)
            queues.finish(request)
        }
        #expect(queues.takeNextReadyRequest() == nil)
    }

    @Test func `Requests of different audiences run alternately`() {
        let queues = ChannelRequestQueues(appCount: 1)
        for audience in ["many", "many", "few"] { queues.add(request(audience)) }
        #expect(queues.takeNextReadyRequest() == request("many"))
        queues.finish(request("many"))
        #expect(queues.takeNextReadyRequest() == request("few"))
        #expect(queues.takeNextReadyRequest() == request("many"))
    }

    /// The requests of one app do not end, for example because its APNs host does not respond.
    @Test func `One app leaves half of the permits to the other app`() {
        let queues = ChannelRequestQueues(appCount: 2)
        for number in 0..<20 { queues.add(request("\(number)")) }
        let neighbourRequest = request("a", app: "com.example.neighbour")
        queues.add(neighbourRequest)
        var running: [ChannelRequest] = []
        while let next = queues.takeNextReadyRequest() { running.append(next) }
        let expectedOrder = [request("0"), neighbourRequest] + (1..<8).map { request("\($0)") }
        #expect(running == expectedOrder)
        queues.finish(neighbourRequest)
        #expect(queues.takeNextReadyRequest() == nil)
        queues.finish(request("0"))
        #expect(queues.takeNextReadyRequest() == request("8"))
        #expect(queues.takeNextReadyRequest() == nil)
    }

    @Test func `The number of permits is limited`() {
        let queues = ChannelRequestQueues(appCount: 1)
        for _ in 0..<ChannelRequestQueues.permitsMax { #expect(queues.acquirePermit()) }
        #expect(!queues.acquirePermit())
        queues.releasePermit()
        #expect(queues.acquirePermit())
    }

    @Test(.timeLimit(.minutes(1))) @MainActor func `A request without room waits until another one ends`() async {
        let queues = ChannelRequestQueues(appCount: 1)
        for _ in 0..<ChannelRequestQueues.requestsMax { queues.add(request("full")) }
        var hasEnded = false
        let ending = Task {
            hasEnded = true
            queues.finish(request("full"))
        }
        await queues.awaitRoom()
        #expect(hasEnded)
        queues.add(request("full"))
        await ending.value
    }
}
