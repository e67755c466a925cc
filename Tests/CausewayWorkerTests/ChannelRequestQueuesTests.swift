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
        let queues = ChannelRequestQueues(poolCount: 1)
        queues.add(request("slow"))
        #expect(queues.beginNextReadyRequest() == request("slow"))
        for number in 0..<Int64(ChannelRequestQueues.permitsMax) {
            queues.add(request("slow", .ended(storedUntilWallMilliseconds: number)))
        }
        queues.add(request("other"))
        #expect(queues.beginNextReadyRequest() == request("other"))
        #expect(queues.beginNextReadyRequest() == nil)
    }

    @Test func `The requests of one audience run one after the other, in order`() {
        let queues = ChannelRequestQueues(poolCount: 1)
        let requests = [
            request("a"), request("a", .ended(storedUntilWallMilliseconds: 1)), request("a", .lost(channel: "c")),
        ]
        for request in requests { queues.add(request) }
        for request in requests {
            #expect(queues.beginNextReadyRequest() == request)
            #expect(queues.beginNextReadyRequest() == nil)
            queues.finish(request)
        }
        #expect(queues.beginNextReadyRequest() == nil)
    }

    @Test func `Requests of different audiences run alternately`() {
        let queues = ChannelRequestQueues(poolCount: 1)
        let end = request("many", .ended(storedUntilWallMilliseconds: 1))
        for request in [request("many"), end, request("few")] { queues.add(request) }
        #expect(queues.beginNextReadyRequest() == request("many"))
        queues.finish(request("many"))
        #expect(queues.beginNextReadyRequest() == request("few"))
        #expect(queues.beginNextReadyRequest() == end)
    }

    /// The requests of one app do not end, for example because its APNs host does not respond.
    @Test func `One app leaves half of the permits to the other app`() {
        let queues = ChannelRequestQueues(poolCount: 2)
        for number in 0..<20 { queues.add(request("\(number)")) }
        let neighbourRequest = request("a", app: "com.example.neighbour")
        queues.add(neighbourRequest)
        var running: [ChannelRequest] = []
        while let next = queues.beginNextReadyRequest() { running.append(next) }
        let expectedOrder = [request("0"), neighbourRequest] + (1..<8).map { request("\($0)") }
        #expect(running == expectedOrder)
        queues.finish(neighbourRequest)
        #expect(queues.beginNextReadyRequest() == nil)
        queues.finish(request("0"))
        #expect(queues.beginNextReadyRequest() == request("8"))
        #expect(queues.beginNextReadyRequest() == nil)
    }

    @Test func `The number of permits is limited`() {
        let queues = ChannelRequestQueues(poolCount: 1)
        for _ in 0..<ChannelRequestQueues.permitsMax { #expect(queues.acquirePermit()) }
        #expect(!queues.acquirePermit())
        queues.releasePermit()
        #expect(queues.acquirePermit())
    }

    /// While APNs does not respond, each further command to an audience wants the same channel.
    @Test func `Of equal requests that wait one behind the other, only one is kept`() {
        let queues = ChannelRequestQueues(poolCount: 1)
        let end = request("a", .ended(storedUntilWallMilliseconds: 1))
        for _ in 0..<100 { queues.add(request("a")) }
        #expect(queues.beginNextReadyRequest() == request("a"))
        // The first request runs, and perhaps has read Redis already.
        for _ in 0..<100 { queues.add(request("a")) }
        queues.add(end)
        for _ in 0..<100 { queues.add(request("a")) }
        queues.finish(request("a"))
        for expectedRequest in [request("a"), end, request("a")] {
            #expect(queues.beginNextReadyRequest() == expectedRequest)
            queues.finish(expectedRequest)
        }
        #expect(queues.beginNextReadyRequest() == nil)
    }

    /// At kick-off, each start repeats its request until it has its channel.
    @Test func `A repeated request takes no second place while the first one has not begun`() {
        let queues = ChannelRequestQueues(poolCount: 1)
        #expect(queues.add(request("a")))
        #expect(!queues.add(request("a")))
        #expect(queues.beginNextReadyRequest() == request("a"))
        #expect(queues.add(request("a")))
        #expect(!queues.add(request("a")))
    }

    /// The requests of one app do not end, for example because its APNs host does not respond.
    @Test func `One app leaves half of the places to the other app`() {
        let queues = ChannelRequestQueues(poolCount: 2)
        let acceptedCount = (0..<ChannelRequestQueues.requestsMax).filter { queues.add(request("\($0)")) }.count
        #expect(acceptedCount == ChannelRequestQueues.requestsMax / 2)
        let neighbourRequest = request("a", app: "com.example.neighbour")
        #expect(queues.add(neighbourRequest))
        #expect(queues.beginNextReadyRequest() == request("0"))
        #expect(queues.beginNextReadyRequest() == neighbourRequest)
        // A place becomes free when a request ends.
        #expect(!queues.add(request("late")))
        queues.finish(request("0"))
        #expect(queues.add(request("late")))
    }

    @Test func `A request for one environment does not wait for the same audience in another one`() {
        let queues = ChannelRequestQueues(poolCount: 2)
        let requests = ["sandbox", "production"]
            .map {
                ChannelRequest(.wanted, app: "com.example.app", environment: $0, audience: "a")
            }
        for request in requests { queues.add(request) }
        #expect(queues.beginNextReadyRequest() == requests[0])
        #expect(queues.beginNextReadyRequest() == requests[1])
    }
}
