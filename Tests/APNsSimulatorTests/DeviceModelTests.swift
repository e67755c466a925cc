import Foundation
import Testbed
import Testing

@testable import APNsSimulator

/// Tests ActivityKit's rules on the model of phones, without the service and without sockets. Each test sets the time
/// itself.
@Suite(.ownThread) struct DeviceModelTests {
    private static let hour: Int64 = 3_600
    /// The UNIX second at which every test begins, and the timestamp of its activity's first state.
    private static let startSeconds: Int64 = 1_790_000_000

    struct Step: Sendable {
        /// When the push arrives, seconds after the beginning.
        var atSeconds: Int64 = 10
        var event = "update"
        /// The push's timestamp, seconds after the beginning; nil: equal to `atSeconds`.
        var timestamp: Int64?
        var home: Int? = 1
        var extraMembers = ""
        var priority: UInt8 = 5

        var json: String {
            let state = home.map { ",\"content-state\":{\"home\":\($0)}" } ?? ""
            let timestampSeconds = startSeconds + (timestamp ?? atSeconds)
            return "{\"aps\":{\"event\":\"\(event)\",\"timestamp\":\(timestampSeconds)\(state)\(extraMembers)}}"
        }
    }

    /// An app with one phone on which one activity runs, and the pushes that reach it.
    private struct ModelledPhone: ~Copyable {
        var model: DeviceModel
        var tape = JSONTape()

        init(rules: DeviceRules = DeviceRules()) throws {
            model = DeviceModel(environment: .production, rules: rules, seed: 1)
            let match = DeviceModel.TypeDeclaration(
                name: "Match",
                attributes: try Shape(json: #"{"id":"string"}"#),
                contentState: try Shape(json: #"{"home":"int","eta":"dateRange?","at":"date?"}"#),
                identifierAttribute: "id"
            )
            try model.declareApp("app", teamId: nil, types: [match])
            try model.install(app: "app", device: "phone", nowMilliseconds: startSeconds * 1_000)
            try model.start(
                .init(
                    activity: "m",
                    device: "phone",
                    attributesType: "Match",
                    attributes: #"{"id":"m"}"#,
                    contentState: #"{"home":0}"#
                ),
                app: "app",
                nowMilliseconds: startSeconds * 1_000
            )
        }

        /// Sends a push as the service does. Returns APNs' response, and the effect on the phone if APNs
        /// accepts the push.
        mutating func push(_ json: String, token: String, at seconds: Int64, priority: UInt8 = 5) -> (
            SimulatedResponse, PushEffect?
        ) {
            let digits = Array(token.utf8)
            let bytes = stride(from: 0, to: digits.count, by: 2)
                .map { index in
                    (hexDigitValue(digits[index]) ?? 0) << 4 | (hexDigitValue(digits[index + 1]) ?? 0)
                }
            let nowMilliseconds = (startSeconds + seconds) * 1_000
            let (checkResult, tokenReference) = bytes.withUnsafeBytes {
                model.checkToken(token: $0, appIndex: 0, nowMilliseconds: nowMilliseconds)
            }
            guard checkResult.response == .success else { return (checkResult.response, nil) }
            let effect = Array(json.utf8)
                .withUnsafeBytes { body in
                    model.deliver(
                        body,
                        tokenReference: tokenReference,
                        priority: priority,
                        tape: &tape,
                        nowMilliseconds: nowMilliseconds
                    )
                }
            return (.success, effect)
        }

        mutating func push(_ step: Step) throws -> (SimulatedResponse, PushEffect?) {
            let token = try #require(try model.token(ofActivity: "m", app: "app"))
            return push(step.json, token: token, at: step.atSeconds, priority: step.priority)
        }

        mutating func start(_ json: String, at seconds: Int64 = 10) throws -> PushEffect? {
            let token = try model.pushToStartToken(ofDevice: "phone", attributesType: "Match", app: "app")
            return push(json, token: token, at: seconds).1
        }

        mutating func state(_ identifier: String = "m", at seconds: Int64) throws -> String {
            let json = try model.activityJSON(identifier, app: "app", nowMilliseconds: (startSeconds + seconds) * 1_000)
            let object = try JSONSerialization.jsonObject(with: Data(json)) as? [String: Any]
            let home = (object?["contentState"] as? [String: Any])?["home"] as? Int ?? -1
            return "\(object?["state"] as? String ?? "") \(home)"
        }
    }

    struct Row: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var steps: [Step]
        var effect: PushEffect?
        var reason = SimulatedResponse.success
        var state: String

        init(
            _ name: String,
            _ steps: [Step],
            _ effect: PushEffect?,
            _ state: String,
            reason: SimulatedResponse = .success
        ) {
            (testDescription, self.steps, self.effect, self.state, self.reason) = (name, steps, effect, state, reason)
        }
    }

    /// Each row has the steps, the effect of the last step, and the phone's state after it.
    static let rows: [Row] = [
        Row("newer", [Step(timestamp: 1)], .shown, "active 1"),
        Row("equal: the last to arrive is shown", [Step(timestamp: 0)], .shown, "active 1"),
        Row("older", [Step(timestamp: -1)], .ignoredOld, "active 0"),
        Row("older than the one before", [Step(timestamp: 5), Step(timestamp: 4, home: 2)], .ignoredOld, "active 1"),
        Row("8 h ahead", [Step(timestamp: 10 + 8 * hour)], .shown, "active 1"),
        Row("more than 8 h ahead", [Step(timestamp: 11 + 8 * hour)], .ignoredFuture, "active 0"),
        Row("without content", [Step(home: nil)], .undecodable, "active 0"),
        Row(
            "content of another type",
            [Step(home: nil, extraMembers: #","content-state":{"home":"1"}"#)],
            .undecodable,
            "active 0"
        ),
        Row(
            "a range as an object",
            [Step(home: nil, extraMembers: #","content-state":{"home":1,"eta":{"lowerBound":1,"upperBound":2}}"#)],
            .undecodable,
            "active 0"
        ),
        Row("a start", [Step(event: "start")], .wrongToken, "active 0"),
        Row("another event", [Step(event: "stop")], .malformed, "active 0"),
        Row("an end", [Step(event: "end")], .ended, "ended 1"),
        Row("an end without content", [Step(event: "end", home: nil)], .ended, "ended 0"),
        Row(
            "an old end ends, and shows nothing",
            [Step(timestamp: 5), Step(event: "end", timestamp: 4, home: 2)],
            .ended,
            "ended 1"
        ),
        Row(
            "an end of another type",
            [Step(event: "end", home: nil, extraMembers: #","content-state":{}"#)],
            .undecodable,
            "active 0"
        ),
        Row(
            "an update after the end",
            [Step(event: "end"), Step(atSeconds: 11, home: 2)],
            nil,
            "ended 1",
            reason: .expiredToken
        ),
        Row("dismissed at once", [Step(event: "end", extraMembers: ",\"dismissal-date\":0")], .ended, "gone 1"),
        Row("just before 8 h", [Step(atSeconds: 8 * hour - 1)], .shown, "active 1"),
        Row("at 8 h", [Step(atSeconds: 8 * hour)], nil, "ended 0", reason: .expiredToken),
    ]

    @Test func `The phone keeps the alerts and the pace of pushes`() throws {
        var phone = try ModelledPhone()
        let alert = ",\"alert\":{\"title\":\"Goal\",\"body\":\"1-0\",\"sound\":\"default\"}"
        _ = try phone.push(Step(atSeconds: 10, extraMembers: alert, priority: 10))
        _ = try phone.push(Step(atSeconds: 13))
        _ = try phone.push(Step(atSeconds: 15, timestamp: -1, extraMembers: alert, priority: 10))
        let alerts = try phone.model.alerts(ofActivity: "m", app: "app")
        #expect(alerts.map(\.timestamp) == [Self.startSeconds + 10], "a push that is too old rings no bell")
        #expect(String(decoding: alerts[0].json, as: UTF8.self) == String(alert.dropFirst(9)))
        #expect(alerts[0].priority == 10 && alerts[0].rangAtMilliseconds == (Self.startSeconds + 10) * 1_000)
        let json = try phone.model.activitiesJSON(
            app: "app",
            since: 0,
            limit: 9,
            includesAlerts: true,
            nowMilliseconds: (Self.startSeconds + 20) * 1_000
        )
        let list = try JSONSerialization.jsonObject(with: Data(json)) as? [String: Any]
        let activity = try #require((list?["activities"] as? [[String: Any]])?.first)
        #expect((activity["alerts"] as? [[String: Any]])?.count == 1)
        #expect(activity["pushesByPriority"] as? [String: Int] == ["5": 1, "10": 2])
        #expect(activity["leastDistanceMilliseconds"] as? Int == 2_000)
        let summary = phone.model.summary(nowMilliseconds: (Self.startSeconds + 20) * 1_000)
        #expect(summary.busiestActivityPriority10PushCount == 2 && summary.shortestGapMilliseconds == 2_000)
    }

    @Test(arguments: rows) func `A phone's rules for updates hold`(_ row: Row) throws {
        var phone = try ModelledPhone()
        var lastResult: (SimulatedResponse, PushEffect?) = (.success, nil)
        for step in row.steps { lastResult = try phone.push(step) }
        #expect(lastResult.0 == row.reason)
        #expect(lastResult.1 == row.effect)
        let lastAtSeconds = row.steps.last?.atSeconds ?? 0
        #expect(try phone.state(at: lastAtSeconds) == row.state)
        let summary = phone.model.summary(nowMilliseconds: (Self.startSeconds + lastAtSeconds) * 1_000)
        #expect(summary.timestampRegressionCount == 0)
        // Every push that APNs accepted had one effect.
        #expect(summary.effects.total == row.steps.count - (row.reason == .success ? 0 : 1))
    }

    /// A push ends the activity 1 h after the beginning. Each case: the push's dismissal date, and when the phone
    /// removes the activity: on that date, but at most 4 h after the end. Both are seconds after the beginning.
    @Test(
        arguments: [
            (nil, 5 * hour), (2 * hour, 2 * hour), (hour + 1, hour + 1), (5 * hour, 5 * hour), (9 * hour, 5 * hour),
            (Int64.max - startSeconds, 5 * hour),
        ] as [(Int64?, Int64)]
    ) func `An ended activity is gone when due or after 4 h`(dismissalSeconds: Int64?, removalSeconds: Int64) throws {
        var phone = try ModelledPhone()
        let extraMembers = dismissalSeconds.map { ",\"dismissal-date\":\(Self.startSeconds + $0)" } ?? ""
        #expect(try phone.push(Step(atSeconds: Self.hour, event: "end", extraMembers: extraMembers)).1 == .ended)
        #expect(try phone.state(at: removalSeconds - 1) == "ended 1")
        #expect(try phone.state(at: removalSeconds) == "gone 1")
    }

    @Test func `No activity stays longer than twelve hours`() throws {
        var phone = try ModelledPhone()
        #expect(try phone.state(at: 8 * Self.hour) == "ended 0")
        #expect(try phone.state(at: 12 * Self.hour - 1) == "ended 0")
        #expect(try phone.state(at: 12 * Self.hour) == "gone 0")
        var lateEndingPhone = try ModelledPhone()
        #expect(try lateEndingPhone.push(Step(atSeconds: 8 * Self.hour - 1, event: "end")).1 == .ended)
        #expect(try lateEndingPhone.state(at: 12 * Self.hour - 2) == "ended 1")
        #expect(try lateEndingPhone.state(at: 12 * Self.hour) == "gone 1")
    }

    @Test func `Within the grace period nothing is applied after the end`() throws {
        var phone = try ModelledPhone(rules: DeviceRules(retiredTokenGraceMilliseconds: 60_000))
        _ = try phone.push(Step(event: "end"))
        #expect(try phone.push(Step(atSeconds: 69, home: 2)) == (.success, .ignoredAfterEnd))
        #expect(try phone.push(Step(atSeconds: 70, home: 3)) == (.expiredToken, nil))
        #expect(try phone.state(at: 70) == "ended 1")
    }

    @Test func `A UNIX date in the content is noticed`() throws {
        var phone = try ModelledPhone()
        let day = Self.startSeconds + 86_400
        for content in ["\"at\":\(day)", "\"eta\":[\(day),\(day + 60)]", "\"at\":\(day - 978_307_200)"] {
            #expect(
                try phone.push(Step(home: nil, extraMembers: ",\"content-state\":{\"home\":1,\(content)}")).1 == .shown
            )
        }
        #expect(phone.model.summary(nowMilliseconds: Self.startSeconds * 1_000).suspiciousDateCount == 2)
    }

    @Test func `Pushes of priority 10 over the budget are dropped without an error`() throws {
        var phone = try ModelledPhone(
            rules: DeviceRules(updateBudget: .init(capacity: 2, refillIntervalMilliseconds: 60_000))
        )
        let effects = try (0..<3).map { try phone.push(Step(atSeconds: 1, home: $0, priority: 10)).1 }
        #expect(effects == [.shown, .shown, .overBudget])
        #expect(try phone.push(Step(atSeconds: 2, home: 7)).1 == .shown)
        #expect(try phone.push(Step(atSeconds: 61, home: 8, priority: 10)).1 == .shown)
        #expect(try phone.push(Step(atSeconds: 62, home: 9, priority: 10)).1 == .overBudget)
    }

    @Test func `After a rotation the old token is refused, or accepted without effect`() throws {
        for (replacedTokenBehavior, expectedResult) in [
            (DeviceModel.ReplacedTokenBehavior.retired, (SimulatedResponse.expiredToken, PushEffect?.none)),
            (.acceptedWithoutEffect, (.success, .acceptedForDeadToken)),
        ] {
            var phone = try ModelledPhone()
            let token = try #require(try phone.model.token(ofActivity: "m", app: "app"))
            try phone.model.rotateToken(
                ofActivity: "m",
                app: "app",
                replacedTokenBehavior: replacedTokenBehavior,
                nowMilliseconds: Self.startSeconds * 1_000
            )
            #expect(phone.push(Step().json, token: token, at: 10) == expectedResult)
            #expect(try phone.state(at: 10) == "active 0")
            #expect(try phone.push(Step()).1 == .shown)
        }
    }

    @Test func `If there are no more tokens, a rotation fails and the old token remains valid`() throws {
        var phone = try ModelledPhone()
        phone.model.tokens.tokensMax = phone.model.tokens.entries.count
        #expect(throws: DeviceModel.Fault.tooMany("tokens")) {
            try phone.model.rotateToken(
                ofActivity: "m",
                app: "app",
                replacedTokenBehavior: .acceptedWithoutEffect,
                nowMilliseconds: Self.startSeconds * 1_000
            )
        }
        #expect(try phone.push(Step()) == (.success, .shown))
    }

    @Test func `If there are too few tokens for a phone, it is not installed`() throws {
        var phone = try ModelledPhone()
        phone.model.tokens.tokensMax = phone.model.tokens.entries.count
        func install() throws(DeviceModel.Fault) {
            try phone.model.install(app: "app", device: "other", nowMilliseconds: Self.startSeconds * 1_000)
        }
        #expect(throws: DeviceModel.Fault.tooMany("tokens")) { try install() }
        phone.model.tokens.tokensMax += 1
        try install()
        #expect(try !phone.model.pushToStartToken(ofDevice: "other", attributesType: "Match", app: "app").isEmpty)
    }

    @Test func `A push to an app that was uninstalled is refused as unregistered`() throws {
        var phone = try ModelledPhone()
        try phone.model.uninstall(app: "app", device: "phone", nowMilliseconds: Self.startSeconds * 1_000)
        #expect(try phone.push(Step()) == (.unregistered, nil))
        #expect(try phone.state(at: 1) == "gone 0")
    }

    private static func start(_ changes: [String: String?] = [:]) -> String {
        var members = [
            "event": "\"start\"", "timestamp": "\(startSeconds)", "attributes-type": "\"Match\"",
            "attributes": #"{"id":"n"}"#,
            "content-state": #"{"home":5}"#, "alert": #"{"title":"t","body":{"loc-key":"k"}}"#,
        ]
        for (key, value) in changes { members[key] = value }
        return "{\"aps\":{" + members.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}}"
    }

    @Test(
        arguments: [
            ([:], .started), (["alert": nil], .incompleteAlert), (["alert": "\"t\""], .incompleteAlert),
            (["alert": #"{"title":"t"}"#], .incompleteAlert),
            (["alert": #"{"title":"t","body":""}"#], .incompleteAlert),
            (["attributes-type": nil], .wrongAttributesType), (["attributes-type": "\"Other\""], .wrongAttributesType),
            (["attributes": nil], .undecodable), (["attributes": "{}"], .undecodable),
            (["content-state": nil], .undecodable),
            (["content-state": #"{"home":1.5}"#], .undecodable), (["event": "\"update\""], .wrongToken),
            (["event": "\"end\""], .wrongToken), (["timestamp": nil], .malformed), (["timestamp": "1.5"], .malformed),
        ] as [([String: String?], PushEffect)]
    ) func `A push starts an activity if it is complete`(_ changes: [String: String?], _ effect: PushEffect) throws {
        var phone = try ModelledPhone()
        let registrationsBefore = phone.model.registrationCount
        #expect(try phone.start(Self.start(changes)) == effect)
        guard effect == .started else {
            #expect(throws: DeviceModel.Fault.unknownActivity("n")) {
                try phone.model.token(ofActivity: "n", app: "app")
            }
            return
        }
        #expect(try phone.state("n", at: 10) == "active 5")
        // The app registers the new activity's update token. Later updates use this token.
        let record = try #require(phone.model.registrations(since: registrationsBefore, limit: 9)?.first)
        let value = try #require(try JSONSerialization.jsonObject(with: Data(record.value)) as? [String: Any])
        #expect(
            record.key == "n" && value["activity"] as? String == "n" && value["environment"] as? String == "production"
        )
        #expect(phone.push(Step(home: 6).json, token: try #require(value["token"] as? String), at: 11).1 == .shown)
    }

    @Test func `A start on a channel gets no token, and a repeated one is noticed`() throws {
        var phone = try ModelledPhone(
            rules: DeviceRules(startBudget: .init(capacity: 2, refillIntervalMilliseconds: 60_000))
        )
        let channel = try phone.model.createChannel(
            app: "app",
            storesNewestMessage: true,
            nowMilliseconds: Self.startSeconds * 1_000
        )
        #expect(try phone.start(Self.start(["input-push-channel": "\"\(channel)\""])) == .started)
        #expect(try phone.model.token(ofActivity: "n", app: "app") == nil)
        #expect(try phone.start(Self.start()) == .started)
        #expect(try phone.start(Self.start(["attributes": #"{"id":"o"}"#])) == .overBudget)
        let summary = phone.model.summary(nowMilliseconds: Self.startSeconds * 1_000)
        #expect(summary.duplicateStartCount == 1)
        #expect(summary.effects[.started] == 2)
    }

    @Test(
        arguments: [
            ([:], 1),
            // The same start from another worker. Admission may have raised its timestamp, and its state may be newer.
            (["timestamp": "\(startSeconds + 1)", "content-state": #"{"home":6}"#], 1),
            (["attributes": #"{ "id" : "n" }"#], 1),
            // A different start: its alert, its attributes or a much later timestamp shows that it starts
            // another activity.
            (["alert": #"{"title":"other","body":"b"}"#], 0),
            (["timestamp": "\(startSeconds + 60)"], 0), (["timestamp": "\(Int64.min + 1)"], 0),
            (["attributes": #"{"id":"o"}"#], 0),
        ] as [([String: String?], Int)]
    )
    func `Only the same start counts as repeated`(_ changes: [String: String?], _ repeatedCount: Int) throws {
        var phone = try ModelledPhone()
        #expect(try phone.start(Self.start()) == .started)
        #expect(try phone.start(Self.start(changes)) == .started)
        #expect(phone.model.summary(nowMilliseconds: Self.startSeconds * 1_000).duplicateStartCount == repeatedCount)
    }
}
