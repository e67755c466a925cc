import Foundation
import Testbed
import Testing

@testable import APNsSimulator

/// Crowds of compact phones: the model stores only a few bytes for each phone. No service runs.
@Suite struct CompactPhoneTests {
    private static let nowSeconds: Int64 = 1_790_000_000

    /// A model with one crowd. `push` does what the simulator does with a push: it checks the token, then delivers the
    /// body.
    private struct CrowdFixture: ~Copyable {
        var model = DeviceModel(environment: .sandbox, seed: 1)
        var tape = JSONTape()
        let crowd: CompactCrowd

        init(_ count: Int, change: (inout CompactCrowd) -> Void = { _ in }) throws {
            var crowd = CompactCrowd(app: "app", name: "fan-", phoneCount: count)
            crowd.audiences = ["final"]
            change(&crowd)
            self.crowd = crowd
            try model.declareApp("app", teamId: nil, types: [])
            try model.declareApp("other", teamId: nil, types: [])
            try model.create(crowd)
        }

        mutating func push(
            _ json: String,
            token: String,
            at seconds: Int64 = 0,
            priority: UInt8 = 5,
            appIndex: Int? = 0
        ) -> (SimulatedResponse, PushEffect?) {
            let digits = Array(token.utf8)
            let bytes = stride(from: 0, to: digits.count, by: 2)
                .map { (hexDigitValue(digits[$0]) ?? 0) << 4 | (hexDigitValue(digits[$0 + 1]) ?? 0) }
            let milliseconds = (CompactPhoneTests.nowSeconds + seconds) * 1_000
            let (checkResult, tokenReference) = bytes.withUnsafeBytes {
                model.checkToken(token: $0, appIndex: appIndex, nowMilliseconds: milliseconds)
            }
            guard checkResult.response == .success else { return (checkResult.response, nil) }
            let effect = Array(json.utf8)
                .withUnsafeBytes { body in
                    model.deliver(
                        body,
                        tokenReference: tokenReference,
                        priority: priority,
                        tape: &tape,
                        nowMilliseconds: milliseconds
                    )
                }
            return (.success, effect)
        }

        func crowdObject() throws -> [String: Any] {
            let json = try model.crowdJSON(crowd.name, app: crowd.app)
            return try #require(try JSONSerialization.jsonObject(with: Data(json)) as? [String: Any])
        }

        /// Returns the number of phones that show each timestamp.
        func phoneCountByTimestamp() throws -> [Int: Int] {
            let shown = try #require(try crowdObject()["shown"] as? [[String: Any]])
            return Dictionary(
                uniqueKeysWithValues: shown.map { ($0["timestamp"] as? Int ?? -1, $0["phones"] as? Int ?? -1) }
            )
        }
    }

    private static func update(_ timestamp: Int64, score: Int = 0, alert: String? = nil, event: String = "update")
        -> String
    {
        let alert = alert.map { #","alert":{"title":"\#($0)","body":"b"}"# } ?? ""
        return
            #"{"aps":{"event":"\#(event)","timestamp":\#(nowSeconds + timestamp),"content-state":{"score":\#(score)}\#(alert)}}"#
    }

    @Test func `A phone takes at most 32 bytes, and its token none`() {
        #expect(MemoryLayout<CompactPhone>.stride <= 32)
    }

    @Test func `Every token is different, and reaches only its own phone`() throws {
        var fixture = try CrowdFixture(2_000)
        let tokens = (0..<2_000).map { fixture.crowd.token($0) }
        #expect(Set(tokens).count == 2_000 && tokens.allSatisfy { $0.utf8.count == 160 })
        #expect(fixture.push(Self.update(1), token: tokens[1_234]) == (.success, .shown))
        #expect(fixture.model.compactPhones.crowds[0].phones[1_234].pushCount == 1)
        #expect(try fixture.phoneCountByTimestamp() == [0: 1_999, Int(Self.nowSeconds) + 1: 1])
        // The same crowd in another model has the same tokens. If one digit of a token is changed, the token
        // belongs to no phone.
        #expect(CompactCrowd(app: "app", name: "fan-", phoneCount: 1).token(7) == tokens[7])
        for digit in stride(from: 0, to: 160, by: 7) {
            var digits = Array(tokens[3].utf8)
            digits[digit] = digits[digit] == UInt8(ascii: "0") ? UInt8(ascii: "1") : UInt8(ascii: "0")
            let token = String(decoding: digits, as: UTF8.self)
            #expect(fixture.push(Self.update(1), token: token) == (.badDeviceToken, nil), "digit \(digit)")
        }
        #expect(fixture.push(Self.update(1), token: fixture.crowd.token(2_000)) == (.badDeviceToken, nil))
        #expect(fixture.push(Self.update(1), token: String(tokens[3].dropLast(2))) == (.badDeviceToken, nil))
        #expect(fixture.push(Self.update(1), token: tokens[3], appIndex: 1) == (.deviceTokenNotForTopic, nil))
    }

    @Test func `A phone that gets an older state is counted, and shows the newer one`() throws {
        var fixture = try CrowdFixture(3)
        let tokens = (0..<3).map { fixture.crowd.token($0) }
        for token in tokens { #expect(fixture.push(Self.update(5, score: 5), token: token) == (.success, .shown)) }
        #expect(fixture.push(Self.update(4, score: 4), token: tokens[1]) == (.success, .ignoredOld))
        #expect(fixture.push(Self.update(5, score: 5), token: tokens[2]) == (.success, .shown))
        #expect(fixture.push(Self.update(9 * 3_600), token: tokens[2]) == (.success, .ignoredFuture))
        let response = try fixture.crowdObject()
        #expect(response["reversed"] as? Int == 1 && response["repeatedPushes"] as? Int == 1)
        #expect(
            response["pushes"] as? Int == 6 && response["pushesMax"] as? Int == 3 && response["unreached"] as? Int == 0
        )
        #expect(try fixture.phoneCountByTimestamp() == [Int(Self.nowSeconds) + 5: 3])
        let effects = try #require(response["effects"] as? [String: Int])
        #expect(effects["shown"] == 4 && effects["ignoredOld"] == 1 && effects["ignoredFuture"] == 1)
    }

    @Test func `Alerts above the limit are not kept, and share the last number`() {
        var phones = CompactPhones()
        let numbers = (1...CompactPhones.distinctAlertsMax + 2).map { phones.findOrAddAlert(Array("\($0)".utf8)) }
        #expect(numbers.first == 1 && numbers.suffix(3) == [65_535, 65_535, 65_535])
        #expect(numbers[65_533] == 65_534 && phones.findOrAddAlert(Array("2".utf8)) == 2)
        #expect(phones.alertNumbersByJSON.count == CompactPhones.distinctAlertsMax)
    }

    @Test func `An alert that a phone hears again is counted, whichever state carries it`() throws {
        var fixture = try CrowdFixture(3)
        let tokens = (0..<3).map { fixture.crowd.token($0) }
        _ = fixture.push(Self.update(1, alert: "goal 1"), token: tokens[0], priority: 10)
        _ = fixture.push(Self.update(2, score: 1, alert: "goal 1"), token: tokens[0])
        _ = fixture.push(Self.update(1, alert: "goal 1"), token: tokens[1])
        _ = fixture.push(Self.update(2, alert: "goal 2"), token: tokens[1])
        _ = fixture.push(Self.update(3, alert: "goal 1"), token: tokens[1])
        _ = fixture.push(Self.update(3, alert: "goal 3"), token: tokens[2])
        // The phone already shows timestamp 3, so it ignores this older state and its alert.
        _ = fixture.push(Self.update(2, alert: "goal 3"), token: tokens[2])
        let response = try fixture.crowdObject()
        #expect(response["alertedTwice"] as? Int == 2 && response["alerts"] as? Int == 6)
        #expect(response["priority10"] as? Int == 1)
    }

    @Test func `One response says what all phones show, and when it came`() throws {
        var fixture = try CrowdFixture(10) { $0.timestamp = Self.nowSeconds - 60 }
        for number in 0..<7 {
            _ = fixture.push(Self.update(1, score: 1), token: fixture.crowd.token(number), at: Int64(number))
        }
        for number in 0..<4 { _ = fixture.push(Self.update(2, score: 2), token: fixture.crowd.token(number), at: 10) }
        _ = fixture.push(Self.update(2, score: 3), token: fixture.crowd.token(3), at: 11)
        let shownStates = try #require(try fixture.crowdObject()["shown"] as? [[String: Any]])
        #expect(shownStates.map { $0["timestamp"] as? Int } == [2, 2, 1, -60].map { Int(Self.nowSeconds) + $0 })
        #expect(shownStates.map { $0["phones"] as? Int } == [1, 3, 3, 3])
        #expect(shownStates.map { ($0["contentState"] as? [String: Int])?["score"] } == [3, 2, 1, nil])
        #expect(shownStates[2]["firstMilliseconds"] as? Int64 == Self.nowSeconds * 1_000)
        #expect(shownStates[2]["lastMilliseconds"] as? Int64 == (Self.nowSeconds + 6) * 1_000)
        #expect(try fixture.crowdObject()["unreached"] as? Int == 3)
    }

    @Test func `Ended and dismissed activities get a 410, and so do old tokens`() throws {
        var fixture = try CrowdFixture(4)
        let tokens = (0..<4).map { fixture.crowd.token($0) }
        #expect(fixture.push(Self.update(1, event: "end"), token: tokens[0]) == (.success, .ended))
        try fixture.model.dismiss(1..<2, ofCrowd: "fan-", app: "app", nowMilliseconds: Self.nowSeconds * 1_000)
        try fixture.model.rotateTokens(2..<3, ofCrowd: "fan-", app: "app", nowMilliseconds: Self.nowSeconds * 1_000)
        for token in tokens[0..<3] { #expect(fixture.push(Self.update(2), token: token) == (.expiredToken, nil)) }
        #expect(fixture.push(Self.update(2), token: fixture.crowd.token(2, generation: 1)) == (.success, .shown))
        #expect(fixture.push(Self.update(2), token: tokens[3]) == (.success, .shown))
        #expect(fixture.push("no JSON", token: tokens[3]) == (.success, .malformed))
        #expect(fixture.push(Self.update(2, event: "start"), token: tokens[3]) == (.success, .wrongToken))
        let response = try fixture.crowdObject()
        #expect(response["refused"] as? Int == 3 && response["ended"] as? Int == 1 && response["gone"] as? Int == 1)
        #expect(try fixture.phoneCountByTimestamp() == [Int(Self.nowSeconds) + 1: 1, Int(Self.nowSeconds) + 2: 2])
    }

    @Test func `A registration has the fields that the worker reads`() throws {
        let fixture = try CrowdFixture(5) { crowd in
            (crowd.frequentUpdatesEveryNthPhone, crowd.identifierForm, crowd.timestamp) = (2, .uuid, Self.nowSeconds)
        }
        let records = try fixture.model.registrations(
            from: 3,
            limit: 9,
            ofCrowd: "fan-",
            app: "app",
            nowMilliseconds: 17
        )
        #expect(records.count == 2)
        for (number, record) in zip(3..., records) {
            let object = try #require(try JSONSerialization.jsonObject(with: Data(record.value)) as? [String: Any])
            let identifier = try #require(object["activity"] as? String)
            #expect(identifier == record.key && UUID(uuidString: identifier)?.uuidString.lowercased() == identifier)
            #expect(object["token"] as? String == fixture.crowd.token(number))
            #expect(object["audiences"] as? [String] == ["final"] && object["environment"] as? String == "sandbox")
            #expect(object["frequentUpdates"] as? Bool == (number == 4) && object["registeredAt"] as? Int == 17)
            #expect((object["shows"] as? [String: Int])?["timestamp"] == Int(Self.nowSeconds))
        }
        #expect(
            try fixture.model.registrations(from: 5, limit: .max, ofCrowd: "fan-", app: "app", nowMilliseconds: 0)
                .isEmpty
        )
        #expect(
            try fixture.model.registrations(from: .max, limit: .max, ofCrowd: "fan-", app: "app", nowMilliseconds: 0)
                .isEmpty
        )
    }

    @Test func `Impossible crowds are refused`() throws {
        var fixture = try CrowdFixture(1)
        #expect(throws: DeviceModel.Fault.crowdExists("fan-")) { try fixture.model.create(fixture.crowd) }
        #expect(throws: DeviceModel.Fault.unknownApp("none")) {
            try fixture.model.create(CompactCrowd(app: "none", name: "x", phoneCount: 1))
        }
        #expect(throws: DeviceModel.Fault.tooMany("compact phones")) {
            try fixture.model.create(CompactCrowd(app: "app", name: "x", phoneCount: 0))
        }
        #expect(throws: DeviceModel.Fault.unknownCrowd("y")) { try fixture.model.crowdJSON("y", app: "app") }
        #expect(throws: DeviceModel.Fault.self) {
            try fixture.model.dismiss(0..<2, ofCrowd: "fan-", app: "app", nowMilliseconds: 0)
        }
    }
}

/// The HTTP interface for crowds, as other programs use it.
@Suite(.ownThread) struct CrowdInterfaceTests {
    private typealias Object = [String: Any]

    @Test func `A million phones are created by one call, and queried by one`() async throws {
        try await SimulatorFixture.run { fixture in
            let residentBytesBefore = try residentBytes()
            let createdResponse = try await fixture.control(
                "POST",
                "/crowds",
                """
                {"app":"\(SimulatorFixture.app)","name":"fan-","count":1000000,"environment":"production","audiences":["final"],\
                "frequentEvery":4}
                """
            )
            #expect(createdResponse.status == 200 && createdResponse.object["phones"] as? Int == 1_000_000)
            // The limit is 100 bytes for each phone. It includes the memory that the rest of the process
            // allocates in the meantime.
            #expect(try residentBytes() - residentBytesBefore < 100_000_000)
            let page = try await fixture.control(
                "GET",
                "/crowd/registrations?app=\(SimulatorFixture.app)&name=fan-&from=999990&limit=100"
            )
            let records = try #require(page.object["registrations"] as? [Object])
            #expect(records.count == 10 && page.object["next"] as? Int == 1_000_000)
            let token = try #require((records[3]["value"] as? Object)?["token"] as? String)
            let client = try fixture.connect()
            #expect(
                try client
                    .perform(fixture.headers(token: token), body: fixture.update(home: 2, timestamp: 1_790_000_000))
                    .status == 200
            )
            let response = try await fixture.control("GET", "/crowd?app=\(SimulatorFixture.app)&name=fan-").object
            let shownStates = try #require(response["shown"] as? [Object])
            #expect(shownStates.map { $0["phones"] as? Int } == [1, 999_999])
            #expect((shownStates[0]["contentState"] as? Object)?["home"] as? Int == 2)

            let range = #"{"app":"\#(SimulatorFixture.app)","name":"fan-","from":999993,"count":1}"#
            #expect(try await fixture.control("POST", "/crowd/rotate", range).status == 200)
            let refusedResponse = try client.perform(fixture.headers(token: token), body: fixture.update(home: 3))
            #expect(refusedResponse.status == 410)
            let rotatedPage = try await fixture.control(
                "GET",
                "/crowd/registrations?app=\(SimulatorFixture.app)&name=fan-&from=999993&limit=1"
            )
            let rotatedToken = try #require(
                ((rotatedPage.object["registrations"] as? [Object])?.first?["value"] as? Object)?["token"] as? String
            )
            #expect(rotatedToken != token)
            #expect(
                try client.perform(fixture.headers(token: rotatedToken), body: fixture.update(home: 3)).status == 200
            )
            #expect(try await fixture.control("POST", "/crowd/dismiss", range).status == 200)
            #expect(
                try client.perform(fixture.headers(token: rotatedToken), body: fixture.update(home: 4)).status == 410
            )
            #expect(
                try await fixture.control("GET", "/crowd?app=\(SimulatorFixture.app)&name=fan-").object["gone"] as? Int
                    == 1
            )
        }
    }

    @Test func `The error says what is wrong`() async throws {
        try await SimulatorFixture.run { fixture async throws in
            for (body, status) in [
                (#"{"app":"\#(SimulatorFixture.app)","name":"x","count":0}"#, 400),
                (#"{"app":"\#(SimulatorFixture.app)","name":"x"}"#, 400),
                (#"{"app":"\#(SimulatorFixture.app)","name":"x","count":1,"environment":"moon"}"#, 400),
                (#"{"app":"\#(SimulatorFixture.app)","name":"x","count":1,"identifiers":"moon"}"#, 400),
                (#"{"app":"\#(SimulatorFixture.app)","name":"x","count":1,"frequentEvery":-1}"#, 400),
                (#"{"app":"\#(SimulatorFixture.app)","name":"x","count":1,"phones":1}"#, 400),
                (#"{"app":"none","name":"x","count":1}"#, 404),
                (#"{"app":"\#(SimulatorFixture.app)","name":"x","count":1}"#, 200),
                (#"{"app":"\#(SimulatorFixture.app)","name":"x","count":1}"#, 409),
            ] {
                #expect(try await fixture.control("POST", "/crowds", body).status == status, "\(body)")
            }
            #expect(try await fixture.control("GET", "/crowd?app=\(SimulatorFixture.app)&name=y").status == 404)
            let rangeBeyondCrowd = #"{"app":"\#(SimulatorFixture.app)","name":"x","from":1,"count":1}"#
            #expect(try await fixture.control("POST", "/crowd/dismiss", rangeBeyondCrowd).status == 404)
        }
    }

    private func residentBytes() throws -> Int {
        let fields = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
        return (Int(fields[1]) ?? 0) * Int(getpagesize())
    }
}
