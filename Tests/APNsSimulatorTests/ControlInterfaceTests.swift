import APNsSimulator
import Foundation
import FoundationNetworking
import Testbed
import Testing

/// The simulator's control interface over real sockets, with an independent HTTP client.
@Suite(.ownThread) struct ControlInterfaceTests {
    private typealias Object = [String: Any]

    private static let shop = """
        {"app":"com.example.shop","attributesTypes":[{"name":"Order","attributes":{},"contentState":{"minutes":"int"}}]}
        """

    @Test func `A thousand phones are created and queried in one call each`() async throws {
        try await SimulatorFixture.run { fixture in
            #expect(try await fixture.control("POST", "/apps", Self.shop).status == 200)
            let phones = try await fixture.control(
                "POST",
                "/phones",
                #"{"app":"com.example.shop","prefix":"p-","count":1000}"#
            )
            #expect(phones.object["installed"] as? Int == 1_000)
            let started = try await fixture.control(
                "POST",
                "/activities",
                #"{"app":"com.example.shop","count":1000,"devicePrefix":"p-","prefix":"o-","attributesType":"Order","contentState":{"minutes":9}}"#
            )
            let records = try #require(started.object["registrations"] as? [Object])
            #expect(records.count == 1_000 && records.last?["key"] as? String == "o-999")
            let token = try #require((records[7]["value"] as? Object)?["token"] as? String)
            #expect((records[7]["value"] as? Object)?["shows"] == nil, "no command brought the content")
            let headers = fixture.headers(["apns-topic": "com.example.shop.push-type.liveactivity"], token: token)
            let push = "{\"aps\":{\"event\":\"update\",\"timestamp\":\(time(nil)),\"content-state\":{\"minutes\":3}}}"
            #expect(try fixture.connect().perform(headers, body: push).status == 200)

            let expected = (0..<1_000).map { "\"o-\($0)\":{ \"minutes\" : \($0 == 8 ? 3 : $0 == 7 ? 3 : 9) }" }
                .joined(separator: ",")
            let comparison = try await fixture.control(
                "POST",
                "/expect",
                "{\"app\":\"com.example.shop\",\"activities\":{\(expected),\"none\":null}}"
            )
            #expect(comparison.object["matching"] as? Int == 999)
            let mismatches = try #require(comparison.object["mismatches"] as? [Object])
            #expect(mismatches.map { $0["activity"] as? String } == ["o-8", "none"])
            #expect((mismatches.first?["shows"] as? Object)?["minutes"] as? Int == 9)
            #expect(mismatches.last?["state"] as? String == "unknown")

            let page = try await fixture.control("GET", "/activities?app=com.example.shop&limit=10")
            let nextCursor = try #require(page.object["next"] as? Int)
            #expect((page.object["activities"] as? [Object])?.count == 10)
            let otherActivities = try await fixture.control(
                "GET",
                "/activities?app=com.example.shop&since=\(nextCursor)&limit=5000"
            )
            #expect((otherActivities.object["activities"] as? [Object])?.count == 990)
            let summary = try await fixture.control("GET", "/summary")
            #expect((summary.object["activities"] as? Object)?["active"] as? Int == 1_001)
            #expect((summary.object["effects"] as? Object)?["shown"] as? Int == 1)
        }
    }

    @Test func `Registrations are read by cursor and awaited`() async throws {
        try await SimulatorFixture.run { fixture in
            let firstPage = try await fixture.control("GET", "/registrations?limit=1")
            #expect(
                (firstPage.object["registrations"] as? [Object])?.count == 1 && firstPage.object["next"] as? Int == 1
            )
            let secondPage = try await fixture.control("GET", "/registrations?since=1&waitMilliseconds=60000")
            #expect(
                ((secondPage.object["registrations"] as? [Object])?.first?["value"] as? Object)?["activity"] as? String
                    == "m1"
            )
            let emptyPage = try await fixture.control("GET", "/registrations?since=2&waitMilliseconds=1")
            #expect(
                (emptyPage.object["registrations"] as? [Object])?.isEmpty == true
                    && emptyPage.object["next"] as? Int == 2
            )
            #expect(try await fixture.control("GET", "/registrations?since=3").status == 400)
            // This request waits until there is a registration: a push-to-start makes the app register a token.
            async let awaited = fixture.control("GET", "/registrations?since=2&waitMilliseconds=60000")
            let start = """
                {"aps":{"event":"start","timestamp":\(time(nil)),"attributes-type":"MatchAttributes","attributes":{"matchId":"m2"},\
                "content-state":{"home":0,"away":0},"alert":{"title":"t","body":"b"}}}
                """
            #expect(
                try fixture.connect().perform(fixture.headers(token: fixture.startToken), body: start).status == 200
            )
            let record = try #require((try await awaited.object["registrations"] as? [Object])?.first)
            #expect(record["key"] as? String == "m2")
        }
    }

    @Test func `Phones change on request`() async throws {
        try await SimulatorFixture.run { fixture in
            let app = "\"app\":\"\(SimulatorFixture.app)\""
            #expect(
                try await fixture
                    .control("POST", "/rotate", "{\(app),\"activity\":\"m1\",\"oldToken\":\"acceptedWithoutEffect\"}")
                    .status
                    == 200
            )
            #expect(try fixture.connect().perform(fixture.headers(), body: fixture.update(home: 5)).status == 200)
            let activity = try await fixture.control("GET", "/activity?app=\(SimulatorFixture.app)&activity=m1").object
            #expect((activity["contentState"] as? Object)?["home"] as? Int == 0)
            #expect(activity["token"] as? String != fixture.token)
            let oldToken = fixture.startToken
            let rotation = "{\(app),\"device\":\"phone\",\"attributesType\":\"MatchAttributes\"}"
            #expect(try await fixture.control("POST", "/rotate", rotation).status == 200)
            #expect(try fixture.connect().perform(fixture.headers(token: oldToken), body: "{}").status == 410)
            #expect(try await fixture.control("POST", "/dismiss", "{\(app),\"activity\":\"m1\"}").status == 200)
            #expect(try await fixture.control("POST", "/uninstall", "{\(app),\"device\":\"phone\"}").status == 200)
            let phone = try await fixture.control("GET", "/phone?app=\(SimulatorFixture.app)&device=phone").object
            #expect(phone["installed"] as? Bool == false)
            #expect((phone["activities"] as? [Object])?.first?["state"] as? String == "gone")
        }
    }

    @Test func `Faults, statistics, the clock and the reset are controlled over HTTP`() async throws {
        try await SimulatorFixture.run { fixture in
            let put = try await fixture.control(
                "PUT",
                "/faults",
                #"{"serviceUnavailableShare":1,"concurrentStreams":9}"#
            )
            #expect(
                put.object["serviceUnavailableShare"] as? Double == 1 && put.object["concurrentStreams"] as? Int == 9
            )
            let client = try fixture.connect()
            #expect(try client.perform(fixture.headers(), body: fixture.update(home: 1)).status == 503)
            #expect(try await fixture.control("DELETE", "/faults").object["serviceUnavailableShare"] as? Double == 0)
            #expect(try client.perform(fixture.headers(), body: fixture.update(home: 1)).status == 200)
            let stats = try await fixture.control("GET", "/stats").object
            #expect(stats["requests"] as? Int == 2 && stats["accepted"] as? Int == 1)
            #expect((stats["refused"] as? Object)?["503 ServiceUnavailable"] as? Int == 1)
            #expect(try await fixture.control("POST", "/goaway").status == 200)
            try client.run { $0.goAway != nil }
            let otherClient = try fixture.connect()
            _ = try otherClient.perform(fixture.headers(), body: fixture.update(home: 1))
            let goAwayBody = #"{"code":11,"reason":"IdleTimeout","lastStream":0}"#
            #expect(try await fixture.control("POST", "/goaway", goAwayBody).status == 200)
            try otherClient.run { $0.goAway != nil }
            #expect(otherClient.goAway == .init(lastStream: 0, reason: #"{"reason":"IdleTimeout"}"#, code: 11))

            // The simulator's clock stops at its maximum, even if a request advances it further. The provider token is
            // then too old, so the simulator responds with 403.
            for _ in 0..<2 {
                let advance = #"{"advanceMilliseconds":9223372036854775807}"#
                #expect(try await fixture.control("POST", "/clock", advance).status == 200)
            }
            #expect(try fixture.connect().perform(fixture.headers(), body: fixture.update(home: 1)).status == 403)
            #expect(try await fixture.control("POST", "/reset").status == 200)
            #expect(try await fixture.control("GET", "/summary").object["phones"] as? Int == 0)
            #expect(try await fixture.control("GET", "/stats").object["requests"] as? Int == 0)
            #expect(try await fixture.control("GET", "/registrations?waitMilliseconds=1").object["next"] as? Int == 0)
            #expect(try await fixture.control("POST", "/apps", Self.shop).status == 200)
        }
    }

    /// A GET returns the faults that a PUT has set. A DELETE removes them all.
    @Test func `Every fault is read and shown`() async throws {
        try await SimulatorFixture.run { fixture in
            let text = """
                {"latencyMillisecondsMin":1,"latencyMillisecondsMax":2,"internalServerErrorShare":0.01,\
                "serviceUnavailableShare":0.02,"tooManyRequestsShare":0.03,\
                "reasonShares":{"BadDeviceToken":0.04,"Unregistered":0.05},"unknownReasonShare":0.06,"notJSONShare":0.07,\
                "lateShare":0.08,"lateMilliseconds":9,"refusedShare":0.1,"resetShare":0.11,"resetCode":4294967295,\
                "noResponseShare":0.12,"requestsWithoutResponseTakeEffect":false,"requestsSubjectToFaultsMax":13,"informationalShare":0.14,\
                "goAwayAfterRequests":15,"goAwayUnprocessedRequests":14,"goAwayCode":11,"goAwayReason":"IdleTimeout",\
                "goAwayGraceMilliseconds":0,"cutAfterRequests":16,"silentAfterRequests":17,"silentStopsReading":true,\
                "concurrentStreams":18,"connectionWindowBytes":19}
                """
            let sentFaults = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? NSDictionary)
            let put = try await fixture.control("PUT", "/faults", text)
            #expect(put.status == 200)
            #expect(NSDictionary(dictionary: put.object) == sentFaults)
            #expect(NSDictionary(dictionary: try await fixture.control("GET", "/faults").object) == sentFaults)
            _ = try await fixture.control("DELETE", "/faults")
            #expect(try await fixture.simulator.faults() == Faults())
        }
    }

    @Test func `Connections can be cut and silenced`() async throws {
        try await SimulatorFixture.run { fixture in
            let client = try fixture.connect()
            _ = try client.perform(fixture.headers(), body: fixture.update(home: 1))
            #expect(try await fixture.control("POST", "/cut").status == 200)
            #expect(throws: H2Client.Failure.self) { try client.run { _ in false } }
            #expect(client.hasEnded && !client.wasEndAnnounced)
            let otherClient = try fixture.connect()
            _ = try otherClient.perform(fixture.headers(), body: fixture.update(home: 1))
            #expect(try await fixture.control("POST", "/silence", #"{"stopsReading":true}"#).status == 200)
            let stats = try await fixture.control("GET", "/stats").object
            #expect(stats["connectionsCut"] as? Int == 1 && stats["connectionsSilenced"] as? Int == 1)
            #expect(stats["connectionsOpen"] as? Int == 1)
        }
    }

    @Test(
        arguments: [
            ("GET", "/nothing", nil, 404, "notFound", "no such endpoint: GET /nothing"),
            ("POST", "/apps", "{", 400, "invalidRequest", "body: not JSON: it ends before the value is complete"),
            (
                "POST", "/apps", "{a", 400, "invalidRequest", "body: not JSON: JSON does not allow the byte at offset 1"
            ),
            ("POST", "/apps", "[]", 400, "invalidRequest", "body: not an object"),
            ("POST", "/apps", #"{"app":1}"#, 400, "invalidRequest", "app is not a string"),
            (
                "POST", "/apps", "{\"app\":\"\(SimulatorFixture.app)\"}", 409, "conflict",
                "app \(SimulatorFixture.app) exists"
            ),
            (
                "POST", "/apps",
                #"{"app":"a","attributesTypes":[{"name":"n","attributes":{"x":"text"},"contentState":{}}]}"#, 400,
                "invalidRequest", "attributes: x: unknown type text"
            ),
            ("POST", "/phones", #"{"app":"no","count":1}"#, 404, "notFound", "no app no"),
            (
                "POST", "/phones", #"{"app":"no","count":0}"#, 400, "invalidRequest",
                "devices, or count from 1 to 1000000, is missing"
            ),
            (
                "POST", "/activities", #"{"app":"no","activities":[1]}"#, 400, "invalidRequest",
                "activities: not objects"
            ),
            (
                "POST", "/activities",
                "{\"app\":\"\(SimulatorFixture.app)\",\"devices\":[\"phone\"],\"attributesType\":\"MatchAttributes\",\"attributes\":{\"matchId\":\"x\"},\"contentState\":{\"home\":1}}",
                400, "invalidRequest", "away: missing"
            ),
            ("GET", "/activity?app=\(SimulatorFixture.app)", nil, 400, "invalidRequest", "query: activity is missing"),
            ("GET", "/phone?app=\(SimulatorFixture.app)&device=x", nil, 404, "notFound", "no device x"),
            ("GET", "/registrations?since=-1", nil, 400, "invalidRequest", "query: since is not a whole number from 0"),
            (
                "GET", "/registrations?since=99999999999999999999", nil, 400, "invalidRequest",
                "query: since is not a whole number from 0"
            ),
            (
                "POST", "/rotate", #"{"app":"a","oldToken":"burnt"}"#, 400, "invalidRequest",
                "oldToken is not retired or acceptedWithoutEffect"
            ),
            ("PUT", "/faults", #"{"resetShares":1}"#, 400, "invalidRequest", "no such fault: resetShares"),
            ("PUT", "/faults", #"{"resetShare":2}"#, 400, "invalidRequest", "a share is a number from 0 to 1"),
            (
                "PUT", "/faults", #"{"concurrentStreams":4294967296}"#, 400, "invalidRequest",
                "concurrentStreams does not fit"
            ),
            (
                "PUT", "/faults", #"{"goAwayAfterRequests":-1}"#, 400, "invalidRequest",
                "goAwayAfterRequests is negative"
            ),
            (
                "PUT", "/faults", #"{"goAwayAfterRequests":2,"goAwayUnprocessedRequests":3}"#, 400, "invalidRequest",
                "goAwayUnprocessedRequests is from 0 to goAwayAfterRequests"
            ),
            (
                "PUT", "/faults", #"{"goAwayGraceMilliseconds":600001}"#, 400, "invalidRequest",
                "goAway: graceMilliseconds is from 0 to 600000"
            ),
            (
                "PUT", "/faults",
                #"{"goAwayAfterRequests":2,"goAwayUnprocessedRequests":1,"goAwayGraceMilliseconds":1}"#, 400,
                "invalidRequest",
                "goAwayUnprocessedRequests cannot be set with graceMilliseconds: in two steps every request is processed"
            ),
            ("PUT", "/faults", #"{"resetCode":-1}"#, 400, "invalidRequest", "resetCode does not fit"),
            (
                "PUT", "/faults", #"{"requestsSubjectToFaultsMax":-1}"#, 400, "invalidRequest",
                "requestsSubjectToFaultsMax is negative"
            ),
            ("PUT", "/faults", #"{"cutAfterRequests":-1}"#, 400, "invalidRequest", "cutAfterRequests is negative"),
            (
                "PUT", "/faults", #"{"silentAfterRequests":-1}"#, 400, "invalidRequest",
                "silentAfterRequests is negative"
            ),
            (
                "PUT", "/faults", #"{"lateMilliseconds":600001}"#, 400, "invalidRequest",
                "lateMilliseconds is from 0 to 600000"
            ),
            (
                "PUT", "/faults", #"{"connectionWindowBytes":0}"#, 400, "invalidRequest",
                "a connection's window is from 1 to 16777216 bytes"
            ),
            (
                "PUT", "/faults", #"{"reasonShares":{"TooManyRequest":1}}"#, 400, "invalidRequest",
                "reasonShares: APNs has no reason TooManyRequest"
            ),
            ("PUT", "/faults", #"{"reasonShares":[]}"#, 400, "invalidRequest", "reasonShares is not an object"),
            (
                "PUT", "/faults", #"{"reasonShares":{"BadTopic":"x"}}"#, 400, "invalidRequest",
                "reasonShares: BadTopic is not a number"
            ),
            (
                "PUT", "/faults", #"{"reasonShares":{"BadTopic":0.6},"lateShare":0.6}"#, 400, "invalidRequest",
                "the shares together are more than 1"
            ),
            ("PUT", "/faults", #"{"informationalShare":2}"#, 400, "invalidRequest", "a share is a number from 0 to 1"),
            (
                "POST", "/goaway", #"{"lastStream":2}"#, 400, "invalidRequest",
                "lastStream is 0 or a client's stream, an odd number up to 2147483647"
            ),
            ("POST", "/goaway", #"{"code":4294967296}"#, 400, "invalidRequest", "code does not fit"),
            ("POST", "/goaway", #"{"cod":1}"#, 400, "invalidRequest", "no such part of a GOAWAY: cod"),
            (
                "POST", "/goaway", #"{"lastStream":1,"graceMilliseconds":1}"#, 400, "invalidRequest",
                "lastStream cannot be set with graceMilliseconds: in two steps it is the last that has arrived"
            ),
            ("POST", "/silence", #"{"stopsReading":1}"#, 400, "invalidRequest", "stopsReading is not true or false"),
            (
                "POST", "/clock", #"{"advanceMilliseconds":-1}"#, 400, "invalidRequest",
                "advanceMilliseconds is not a whole number from 0"
            ),
        ] as [(String, String, String?, Int, String, String)]
    )
    func `The error says what is wrong`(
        _ method: String,
        _ path: String,
        _ body: String?,
        _ status: Int,
        _ code: String,
        _ reason: String
    ) async throws {
        try await SimulatorFixture.run { fixture in
            let response = try await fixture.control(method, path, body)
            #expect(response.status == status)
            #expect(response.object["error"] as? String == code)
            #expect(response.object["reason"] as? String == reason)
        }
    }
}
