import CNghttp2
import Testbed
import Testing

@testable import APNs

/// What the pool reports about responses of every kind.
@Suite(.ownThread) struct ResponseTests {
    /// Apple's table for `/3/device`, with the disposition that each row must get.
    static let deviceResponses: [(status: UInt16, reason: String, disposition: ResponseDisposition)] = [
        (400, "BadCollapseId", .providerRefused), (400, "BadDeviceToken", .tokenSuspect),
        (400, "BadExpirationDate", .rejected), (400, "BadMessageId", .rejected), (400, "BadPriority", .rejected),
        (400, "BadTopic", .providerRefused), (400, "DeviceTokenNotForTopic", .topicSuspect),
        (400, "DuplicateHeaders", .providerRefused), (400, "IdleTimeout", .retrySoon),
        (400, "InvalidPushType", .providerRefused), (400, "MissingDeviceToken", .providerRefused),
        (400, "MissingTopic", .providerRefused), (400, "PayloadEmpty", .rejected),
        (400, "TopicDisallowed", .providerRefused), (403, "BadCertificate", .providerRefused),
        (403, "BadCertificateEnvironment", .providerRefused), (403, "ExpiredProviderToken", .refreshProviderToken),
        (403, "Forbidden", .providerRefused), (403, "InvalidProviderToken", .providerRefused),
        (403, "MissingProviderToken", .providerRefused), (403, "UnrelatedKeyIdInToken", .refreshProviderToken),
        (403, "BadEnvironmentKeyIdInToken", .providerRefused), (404, "BadPath", .providerRefused),
        (405, "MethodNotAllowed", .providerRefused), (410, "ExpiredToken", .tokenDead),
        (410, "Unregistered", .tokenDead), (413, "PayloadTooLarge", .rejected),
        (429, "TooManyProviderTokenUpdates", .retryLater),
        (429, "TooManyRequests", .throttled), (500, "InternalServerError", .retryLater),
        (503, "ServiceUnavailable", .retryLater), (503, "Shutdown", .retrySoon),
    ]

    @Test func `Every reason of the table is recognized over the network`() throws {
        // Most responses are refusals, so the breaker gets high limits. It has tests of its own.
        let fixture = try PoolFixture {
            $0.breaker.providerTokenRefusalsMax = 1_000
            $0.breaker.suspectResponsesMin = 1_000
        }
        var rowIndex = 0
        fixture.server.respond = { _ in
            .status(
                Int(Self.deviceResponses[rowIndex].status),
                reason: Self.deviceResponses[rowIndex].reason,
                extra: ",\"timestamp\":1790000000123"
            )
        }
        fixture.pool.start()
        for (index, row) in Self.deviceResponses.enumerated() {
            rowIndex = index
            fixture.runLoop(until: { fixture.submit(UInt64(index)) })
            fixture.runLoop(until: { fixture.recorder.responseCount == index + 1 })
            let response = try fixture.recorder.onlyResponse(to: UInt64(index))
            #expect(response.completion == .responded)
            #expect(response.status == row.status)
            #expect(response.reasonText == row.reason)
            #expect(String(describing: response.reason.text) == row.reason)
            #expect("\(response.reason)" == row.reason, "log lines have Apple's spelling")
            #expect(response.reason.documentedStatus == row.status)
            #expect(response.disposition == row.disposition, "\(row.reason)")
            let isAccepted =
                ![403, 429, 500, 503].contains(row.status) && row.reason != "IdleTimeout"
                && row.disposition != .providerRefused
            #expect(response.showsAcceptedProviderToken == isAccepted, "\(row.reason)")
            #expect(response.invalidAtWallMilliseconds == 1_790_000_000_123)
        }
        let knownReasons = Set((Self.deviceResponses + BroadcastTests.channelOnlyResponses).map(\.reason))
        #expect(knownReasons.count == Reason.allCases.count - 2)
        // `IdleTimeout` and `Shutdown` each retire a connection. So do three reasons that concern the provider token:
        // `ExpiredProviderToken`, `UnrelatedKeyIdInToken` and `TooManyProviderTokenUpdates`.
        #expect(fixture.recorder.retirementCauses.count { $0 == .serverClosing } == 2)
        #expect(fixture.recorder.retirementCauses.count { $0 == .providerToken } == 3)
    }

    @Test func `Every response has a disposition`() {
        for completion in PushResponse.Completion.allCases {
            for status in UInt16(0)...999 {
                for reason in Reason.allCases {
                    let disposition = ResponseDisposition(completion: completion, status: status, reason: reason)
                    switch completion {
                    case .malformed: #expect(disposition == .rejected)
                    case .notProcessed: #expect(disposition == .retrySoon)
                    case .ambiguous: #expect(disposition == .ambiguous)
                    case .responded:
                        let isAccepted = disposition == .accepted
                        if isAccepted != (200...299).contains(status) { Issue.record("\(status) \(reason)") }
                        if disposition == .tokenDead, status / 100 != 4 { Issue.record("\(status) \(reason)") }
                    }
                }
            }
        }
    }

    @Test(arguments: [
        (UInt16(200), ResponseDisposition.accepted), (299, .accepted), (403, .providerRefused), (410, .tokenDead),
        (413, .rejected), (429, .throttled), (500, .retryLater), (503, .retryLater), (599, .retryLater),
    ])
    func `An unknown reason is judged by its status`(status: UInt16, expected: ResponseDisposition) {
        #expect(ResponseDisposition(completion: .responded, status: status, reason: .unknown) == expected)
        #expect(ResponseDisposition(completion: .responded, status: status, reason: .absent) == expected)
    }

    /// APNs gives a reason with each refusal. A proxy gives none, and refuses the other pushes too.
    @Test(arguments: [UInt16(301), 400, 401, 404, 405, 407, 418, 431, 600])
    func `Only a refusal with a reason is about its push`(status: UInt16) {
        #expect(ResponseDisposition(completion: .responded, status: status, reason: .unknown) == .rejected)
        #expect(ResponseDisposition(completion: .responded, status: status, reason: .absent) == .providerRefused)
    }

    @Test func `A reason that does not belong to its status is ignored`() {
        #expect(ResponseDisposition(completion: .responded, status: 500, reason: .unregistered) == .retryLater)
        #expect(ResponseDisposition(completion: .responded, status: 400, reason: .shutdown) == .rejected)
    }

    @Test func `Spellings that differ from Apple's are known`() {
        for (text, reason) in [
            ("Service Unavailable", Reason.serviceUnavailable),
            ("BadEnvironmentKeyInToken", .badEnvironmentKeyIdInToken),
            ("", .absent), ("expiredtoken", .unknown), ("ExpiredTokenX", .unknown),
        ] {
            #expect(Array(text.utf8).withUnsafeBytes { Reason(text: $0) } == reason)
        }
        #expect("\(Reason.absent), \(Reason.unknown)" == "absent, unknown")
    }

    /// Each case has the server's response to a push, and the completion, status and reason that the pool must report.
    /// After the response the connection must still accept pushes.
    @Test(arguments: [
        // A body in five DATA frames.
        ResponseCase(
            ServedResponse(
                fields: [(":status", "410")],
                body: Array(#"{"reason":"Unregistered","timestamp":1}"#.utf8),
                chunkBytes: 8
            ),
            .responded,
            410,
            "Unregistered"
        ),
        ResponseCase(
            ServedResponse(fields: [(":status", "502")], body: Array("<html>Bad gateway</html>".utf8)),
            .responded,
            502,
            ""
        ),
        ResponseCase(
            ServedResponse(fields: [(":status", "500")], body: [UInt8](repeating: 0x78, count: 1 << 20)),
            .responded,
            500,
            ""
        ),
        ResponseCase(
            ServedResponse(fields: [(":status", "400")], body: Array(#"{"reason":"BadTop"#.utf8)),
            .responded,
            400,
            ""
        ),
        ResponseCase(ServedResponse(isPrecededByHints: true), .responded, 200, ""),
        ResponseCase(ServedResponse(body: Array("{}".utf8), end: .trailers), .responded, 200, ""),
        // A response without a valid status is malformed, so its stream fails.
        ResponseCase(ServedResponse(fields: [("apns-id", "x")]), .ambiguous, 0, ""),
        ResponseCase(ServedResponse(fields: [(":status", "abc")]), .ambiguous, 0, ""),
        ResponseCase(.reset(NGHTTP2_REFUSED_STREAM.rawValue), .notProcessed, 0, ""),
        ResponseCase(.reset(NGHTTP2_INTERNAL_ERROR.rawValue), .ambiguous, 0, ""),
        ResponseCase(.reset(NGHTTP2_NO_ERROR.rawValue), .ambiguous, 0, ""),
        ResponseCase(.reset(0xFFFF_FFFF), .ambiguous, 0, ""),
        // A reset after the status does not change the status.
        ResponseCase(ServedResponse(body: [0x7B], end: .reset(NGHTTP2_INTERNAL_ERROR.rawValue)), .responded, 200, ""),
    ])
    func `Each form of a response is reported`(_ given: ResponseCase) throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        fixture.server.respond = { _ in given.response }
        #expect(fixture.submit(1))
        fixture.runLoop(until: { fixture.recorder.responsesByTag[1] != nil })
        let response = try fixture.recorder.onlyResponse(to: 1)
        #expect(response.completion == given.completion)
        #expect(response.status == given.status)
        #expect(response.reasonText == given.reason)
        // The connection still accepts pushes.
        fixture.server.respond = { _ in .accepted }
        #expect(fixture.submit(2))
        fixture.runLoop(until: { fixture.recorder.responsesByTag[2] != nil })
        #expect(try fixture.recorder.onlyResponse(to: 2).status == 200)
        #expect(fixture.server.acceptedConnectionCount == 1)
    }

    struct ResponseCase: Sendable {
        let response: ServedResponse
        let completion: PushResponse.Completion
        let status: UInt16
        let reason: String

        init(_ response: ServedResponse, _ completion: PushResponse.Completion, _ status: UInt16, _ reason: String) {
            self.response = response
            self.completion = completion
            self.status = status
            self.reason = reason
        }
    }

    @Test func `An oversized header list resets only its stream`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        let field = (name: "x-filler", value: String(repeating: "y", count: 4_000))
        fixture.server.respond = { _ in
            ServedResponse(fields: [(":status", "200")] + Array(repeating: field, count: 8))
        }
        #expect(fixture.submit(1))
        fixture.runLoop(until: { fixture.recorder.responsesByTag[1] != nil })
        #expect(fixture.pool.connections.count == 1)
    }

    @Test func `A response with another id than its push is counted`() throws {
        let fixture = try PoolFixture()
        fixture.warmUp()
        fixture.server.respond = { request in
            let id = request.value("apns-id") ?? ""
            return ServedResponse(
                fields: [(":status", "200"), ("apns-id", request.ordinal == 1 ? id : "0" + id.dropFirst())]
            )
        }
        for tag in 0..<2 { #expect(fixture.submit(UInt64(tag))) }
        fixture.runLoop(until: { fixture.pool.inFlightPushCount == 0 })
        #expect(fixture.pool.statistics.apnsIdMismatchCount == 1)
    }

    @Test(arguments: [
        (#"{"reason":"Unregistered","timestamp":1790000000123}"#, "Unregistered", Int64?(1_790_000_000_123)),
        (#" { "timestamp" : 5 , "reason" : "Shutdown" } "#, "Shutdown", 5),
        (#"{"reason":"Shutdown""#, "Shutdown", nil),
        (#"{"x":{"reason":"No"},"reason":"Yes"}"#, "Yes", nil),
        (#"{"x":[1,{"y":"}"}],"z":null,"w":-1.5e3,"reason":"Yes"}"#, "Yes", nil),
        (#"{"reason":"a\"b"}"#, #"a\"b"#, nil),
        (#"{"timestamp":99999999999999999999}"#, "", nil),
        (#"{"timestamp":12.75,"reason":"R"}"#, "R", 12),
        (#"{"timestamp":"12","reason":"R"}"#, "R", nil),
        (#"{"reason":null,"timestamp":7}"#, "", 7),
        (#"{"reason":"trunc"#, "", nil),
        (#"{"reason":"\"#, "", nil),
        ("", "", nil), ("{", "", nil), ("[]", "", nil), ("{}", "", nil), ("null", "", nil), ("{{{{", "", nil),
        (String(repeating: "{\"a\":", count: 50), "", nil), (#"{"a":]"#, "", nil), (#"{:,}"#, "", nil),
    ])
    func `The reason and the timestamp of a body are found`(text: String, reason: String, timestamp: Int64?) {
        Array(text.utf8)
            .withUnsafeBytes { bytes in
                let body = ErrorContent(bytes)
                #expect(String(decoding: body.reasonText, as: UTF8.self) == reason)
                #expect(body.timestampMilliseconds == timestamp)
            }
    }

    @Test func `The page about real Apple says what to do about each reason`() throws {
        let page = try Repository.text("Documentation/apple.md")
        for reason in Reason.allCases where reason != .absent && reason != .unknown {
            #expect(page.contains("`\(reason.text)`"), "\(reason)")
        }
    }

    /// The scanner must not trap, wherever the body is cut or changed.
    @Test func `The body scanner accepts any bytes`() {
        let text = Array(#"{"reason":"Un\"reg","timestamp":1790000000123,"x":[1,{"y":"}"}],"z":null}"#.utf8)
        for cut in 0...text.count {
            for replacement in [UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "{"), UInt8(ascii: "]"), 0, 255] {
                var bytes = Array(text.prefix(cut))
                if let last = bytes.indices.last { bytes[last] = replacement }
                bytes.withUnsafeBytes { bytes in
                    let body = ErrorContent(bytes)
                    #expect(body.reasonText.count <= bytes.count)
                }
            }
        }
    }
}
