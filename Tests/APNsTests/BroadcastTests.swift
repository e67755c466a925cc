import Testbed
import Testing

@testable import APNs

/// Broadcasts: one request to a channel of the app.
@Suite(.ownThread) struct BroadcastTests {
    /// A valid channel id. Apple's ids are Base64.
    static let channel = "dHN0LXNyY2gtY2hubA=="

    /// APNs' responses to broadcasts and requests about channels, and what each means. A push to a device does not get
    /// these responses, or they mean something else for it.
    static let channelOnlyResponses: [(status: UInt16, reason: String, disposition: ResponseDisposition)] = [
        (400, "FeatureNotEnabled", .rejected), (400, "MissingChannelId", .providerRefused),
        (400, "BadChannelId", .channelGone), (400, "ChannelNotRegistered", .channelGone),
        (400, "BadRequestParams", .rejected), (400, "BadRequestPayload", .rejected),
        (400, "MissingPushType", .providerRefused), (400, "CannotCreateChannelConfig", .rejected),
        (403, "TopicMismatch", .providerRefused),
    ]
    /// APNs' responses to broadcasts and requests about channels, with the same meaning as for a push to a device. The
    /// last ones are refusals that concern device tokens.
    static let sharedResponses: [(status: UInt16, reason: String, disposition: ResponseDisposition)] = [
        (400, "PayloadEmpty", .rejected), (400, "BadMessageId", .rejected), (400, "InvalidPushType", .providerRefused),
        (400, "BadExpirationDate", .rejected), (400, "TopicDisallowed", .providerRefused),
        (400, "BadPriority", .rejected),
        (403, "BadCertificate", .providerRefused), (403, "BadCertificateEnvironment", .providerRefused),
        (403, "MissingProviderToken", .providerRefused), (403, "ExpiredProviderToken", .refreshProviderToken),
        (403, "InvalidProviderToken", .providerRefused), (404, "BadPath", .providerRefused),
        (405, "MethodNotAllowed", .providerRefused), (413, "PayloadTooLarge", .rejected),
        (429, "TooManyRequests", .throttled),
        (429, "TooManyProviderTokenUpdates", .retryLater), (500, "InternalServerError", .retryLater),
        (503, "Service Unavailable", .retryLater), (503, "ServiceUnavailable", .retryLater),
        (503, "Shutdown", .retrySoon),
        // Refusals that concern device tokens say nothing about the channel. So the channel stays, and only the
        // broadcast is rejected.
        (410, "Unregistered", .rejected), (400, "BadDeviceToken", .rejected),
        (400, "DeviceTokenNotForTopic", .rejected), (410, "", .rejected),
    ]

    @Test func `A request has the headers that Apple requires`() throws {
        let fixture = try PoolFixture(bodyBytes: 5_120)
        var requests: [ServedRequest] = []
        fixture.server.respond = {
            requests.append($0)
            return .accepted
        }
        fixture.warmUp()
        #expect(fixture.submit(0xab, toChannel: Self.channel, priority: 10, expirationSeconds: 1_790_000_000))
        fixture.runLoop(until: { requests.count == 2 })
        let request = requests[1]
        #expect(
            request.fields.map(\.name) == [
                ":method", ":scheme", ":authority", ":path", "authorization", "apns-push-type", "apns-channel-id",
                "apns-priority", "apns-expiration", "apns-request-id",
            ]
        )
        #expect(request.value(":method") == "POST")
        #expect(request.value(":scheme") == "https")
        #expect(request.value(":authority") == "localhost:\(fixture.server.port)")
        #expect(request.value(":path") == "/4/broadcasts/apps/com.example.scores")
        #expect(request.value("apns-channel-id") == Self.channel)
        #expect(request.value("apns-push-type") == "liveactivity")
        #expect(request.value("apns-priority") == "10")
        #expect(request.value("apns-expiration") == "1790000000")
        #expect(request.value("apns-request-id") == "12345678-9abc-def0-0000-0000000000ab")
        #expect(request.value("authorization")?.hasPrefix("bearer ey") == true)
        #expect(request.body == fixture.bodyContent)
    }

    /// The header table keeps the entries of the pushes, so that the header blocks of later pushes stay short.
    @Test func `Broadcasts do not change the header table of the pushes between them`() throws {
        let fixture = try PoolFixture()
        var tableBytes: Set<Int> = []
        fixture.server.respond = {
            tableBytes.insert($0.connection.headerTableBytes)
            return .accepted
        }
        fixture.warmUp()
        for tag in 0..<50 {
            let isPush = tag.isMultiple(of: 2)
            #expect(isPush ? fixture.submit(UInt64(tag)) : fixture.submit(UInt64(tag), toChannel: Self.channel))
        }
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(tableBytes.count == 1)
        for tag in 0..<50 { #expect(try fixture.recorder.onlyResponse(to: UInt64(tag)).disposition == .accepted) }
    }

    @Test func `Every reason of the table is recognized over the network`() throws {
        let fixture = try PoolFixture {
            $0.breaker.providerTokenRefusalsMax = 1_000
            $0.breaker.suspectResponsesMin = 1_000
        }
        let table = Self.channelOnlyResponses + Self.sharedResponses
        var rowIndex = 0
        fixture.server.respond = { _ in .status(Int(table[rowIndex].status), reason: table[rowIndex].reason) }
        fixture.pool.start()
        for (index, row) in table.enumerated() {
            rowIndex = index
            fixture.runLoop(until: { fixture.submit(UInt64(index), toChannel: Self.channel) })
            fixture.runLoop(until: { fixture.recorder.responseCount == index + 1 })
            let response = try fixture.recorder.onlyResponse(to: UInt64(index))
            #expect(response.status == row.status && response.reasonText == row.reason)
            #expect(response.disposition == row.disposition, "\(row.reason)")
        }
    }

    /// An accepted broadcast does not prove that the device tokens are for this environment.
    @Test func `An accepted broadcast proves nothing about tokens`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        #expect(fixture.pool.trustsTokenRefusals)
        fixture.server.respond = { request in
            request.value("apns-channel-id") == nil ? .status(400, reason: "BadDeviceToken") : .accepted
        }
        #expect(fixture.submit(1))
        fixture.runLoop(until: { fixture.recorder.responsesByTag[1] != nil })
        #expect(fixture.submit(2, toChannel: Self.channel))
        fixture.runLoop(until: { fixture.recorder.responsesByTag[2] != nil })
        #expect(!fixture.pool.trustsTokenRefusals)
    }

    @Test(arguments: ["", "a b", "abc\n", "äöüß", "YWJj-_", String(repeating: "x", count: 65)])
    func `A broadcast to an invalid channel is never sent`(channel: String) throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        #expect(fixture.submit(1, toChannel: channel))
        fixture.runLoop(until: { fixture.recorder.responsesByTag[1] != nil })
        #expect(try fixture.recorder.onlyResponse(to: 1).completion == .malformed)
    }

    @Test func `A broadcast's response with another id is counted`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        fixture.server.respond = { request in
            let identifier = request.value("apns-request-id") ?? ""
            let isFirst = request.ordinal == 1
            let response = isFirst ? identifier : "0" + identifier.dropFirst()
            return ServedResponse(fields: [(":status", "200"), ("apns-request-id", response)])
        }
        for tag in 0..<2 { #expect(fixture.submit(UInt64(tag), toChannel: Self.channel)) }
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(fixture.pool.statistics.apnsIdMismatchCount == 1)
    }

    /// The connection's window has 65,535 bytes. The warm-up and eleven broadcasts leave 4,215 bytes, too few for the
    /// largest broadcast of 5,120 bytes. The caller keeps this broadcast, so a newer state can still replace it.
    @Test func `A broadcast that does not fit the flow-control window is not taken`() throws {
        let fixture = try PoolFixture(bodyBytes: 5_120)
        fixture.warmUp()
        fixture.server.respond = { _ in nil }
        fixture.server.connections[0].isMute = true
        #expect(fixture.submit(0, toChannel: Self.channel, bodyBytes: 5_000))
        for tag in 1...10 { #expect(fixture.submit(UInt64(tag), toChannel: Self.channel)) }
        #expect(fixture.pool.connections.map(\.sendWindowBytes) == [4_215])
        #expect(!fixture.submit(11, toChannel: Self.channel) && fixture.pool.freeStreamCount == 0)
        fixture.pool.close()
    }
}
