import Foundation
import Testbed
import Testing

@testable import APNsSimulator

/// Tests what a viewer of the phones' Lock Screens gets. Each test sets the time itself.
@Suite("Screens", .ownThread) struct ScreenTests {
    private static let startSeconds: Int64 = 1_790_000_000

    /// One response of `DeviceModel.screensJSON`.
    private struct Response {
        var object: [String: Any]

        func number(_ name: String) -> Int { object[name] as? Int ?? -1 }
        var tints: [String] { object["tints"] as? [String] ?? [] }
        var focus: [[String: Any]] { object["focus"] as? [[String: Any]] ?? [] }
        /// The bytes of each phone's screen, by the phone's number: state, alerts, tint and shade.
        var screens: [Int: [UInt8]] {
            let bytes = Data(base64Encoded: object["screens"] as? String ?? "").map { Array($0) } ?? []
            let records = stride(from: 0, to: bytes.count, by: DeviceModel.screenByteCount)
                .map {
                    (Int(bytes[$0]) | Int(bytes[$0 + 1]) << 8, Array(bytes[$0 + 2..<$0 + DeviceModel.screenByteCount]))
                }
            return Dictionary(records, uniquingKeysWith: { first, _ in first })
        }
    }

    /// Three phones; the first two have an activity.
    private struct ScreenFixture: ~Copyable {
        var model: DeviceModel
        var tape = JSONTape()
        var cursor = 0

        init() throws {
            model = DeviceModel(environment: .production, seed: 1)
            let ride = DeviceModel.TypeDeclaration(
                name: "Ride",
                attributes: try Shape(json: #"{"id":"string"}"#),
                contentState: try Shape(json: #"{"driver":"string","status":"string"}"#),
                identifierAttribute: "id"
            )
            try model.declareApp("app", teamId: nil, types: [ride])
            for phone in 0..<3 {
                try model.install(app: "app", device: "phone-\(phone)", nowMilliseconds: startSeconds * 1_000)
            }
            for phone in 0..<2 {
                try model.start(
                    .init(
                        activity: "ride-\(phone)",
                        device: "phone-\(phone)",
                        attributesType: "Ride",
                        attributes: #"{"id":"ride-\#(phone)"}"#,
                        contentState: #"{"driver":"Ann","status":"coming"}"#
                    ),
                    app: "app",
                    nowMilliseconds: startSeconds * 1_000
                )
            }
        }

        /// Returns what has changed since the last request.
        mutating func screens(at seconds: Int64 = 10, focus: [Int] = []) throws -> Response {
            let json = model.screensJSON(since: cursor, focus: focus, nowMilliseconds: (startSeconds + seconds) * 1_000)
            let object = try #require(try JSONSerialization.jsonObject(with: Data(json)) as? [String: Any])
            cursor = object["next"] as? Int ?? 0
            return Response(object: object)
        }

        @discardableResult
        mutating func push(
            _ status: String,
            at seconds: Int64 = 10,
            timestamp: Int64? = nil,
            event: String = "update",
            priority: UInt8 = 5,
            extraMembers: String = ""
        ) throws -> PushEffect? {
            let token = try #require(try model.token(ofActivity: "ride-0", app: "app"))
            let digits = Array(token.utf8)
            let bytes = stride(from: 0, to: digits.count, by: 2)
                .map { (hexDigitValue(digits[$0]) ?? 0) << 4 | (hexDigitValue(digits[$0 + 1]) ?? 0) }
            let nowMilliseconds = (startSeconds + seconds) * 1_000
            let body =
                #"{"aps":{"event":"\#(event)","timestamp":\#(startSeconds + (timestamp ?? seconds)),"#
                + #""content-state":{"driver":"Ann","status":"\#(status)"}\#(extraMembers)}}"#
            let (checkResult, tokenReference) = bytes.withUnsafeBytes {
                model.checkToken(token: $0, appIndex: 0, nowMilliseconds: nowMilliseconds)
            }
            guard checkResult.response == .success else { return nil }
            return Array(body.utf8)
                .withUnsafeBytes {
                    model.deliver(
                        $0,
                        tokenReference: tokenReference,
                        priority: priority,
                        tape: &tape,
                        nowMilliseconds: nowMilliseconds
                    )
                }
        }
    }

    @Test func `The first request shows every phone`() throws {
        var fixture = try ScreenFixture()
        let response = try fixture.screens(focus: [1, 2, 7])
        #expect(response.number("phones") == 3 && response.number("active") == 2 && response.number("empty") == 1)
        #expect(response.tints == ["coming"])
        #expect(Set(response.screens.keys) == [0, 1, 2])
        #expect(response.screens[0] == response.screens[1], "they show the same")
        #expect(response.screens[2] == [ScreenState.empty.rawValue, 0, 0, 0])
        #expect(response.focus.compactMap { $0["device"] as? String } == ["phone-1", "phone-2"])
        #expect((response.focus.first?["content"] as? [String: Any])?["status"] as? String == "coming")
    }

    @Test func `Later requests show only what has changed`() throws {
        var fixture = try ScreenFixture()
        _ = try fixture.screens()
        #expect(try fixture.screens(focus: [0, 1]).screens.isEmpty)
        #expect(
            try fixture.push("here", priority: 10, extraMembers: #","alert":{"title":"Here","body":"Now"}"#) == .shown
        )
        let response = try fixture.screens(focus: [0, 1])
        #expect(response.tints == ["coming", "here"])
        let screen = try #require(response.screens[0])
        #expect(response.screens.count == 1)
        #expect(screen[0] == ScreenState.active.rawValue | DeviceModel.priority10Bit)
        #expect(screen[1] == 1 && screen[2] == 1)
        #expect(response.focus.count == 1 && response.focus.first?["priority"] as? Int == 10)
        #expect((response.focus.first?["alert"] as? [String: Any])?["title"] as? String == "Here")
    }

    @Test func `Time alone changes what is shown`() throws {
        var fixture = try ScreenFixture()
        try fixture.push("here", extraMembers: #","stale-date":\#(Self.startSeconds + 20)"#)
        #expect(try fixture.screens(at: 19).number("stale") == 0)
        let staleScreens = try fixture.screens(at: 20)
        #expect(staleScreens.number("stale") == 1 && staleScreens.screens[0]?[0] == ScreenState.stale.rawValue)
        #expect(
            try fixture.push(
                "over",
                at: 21,
                event: "end",
                extraMembers: #","dismissal-date":\#(Self.startSeconds + 30)"#
            )
                == .ended
        )
        #expect(try fixture.screens(at: 22).screens[0]?[0] == ScreenState.ended.rawValue)
        #expect(try fixture.screens(at: 29).screens.isEmpty)
        let goneScreens = try fixture.screens(at: 30)
        #expect(goneScreens.number("gone") == 1 && goneScreens.screens[0]?[0] == ScreenState.gone.rawValue)
    }

    @Test func `The screen shows a phone that goes offline or loses its app`() throws {
        var fixture = try ScreenFixture()
        _ = try fixture.screens()
        try fixture.model.takeOffline(device: "phone-0", app: "app")
        let offlineScreens = try fixture.screens()
        #expect(offlineScreens.number("offline") == 1 && offlineScreens.screens.keys.elementsEqual([0]))
        #expect(offlineScreens.screens[0]?[0] == ScreenState.offline.rawValue)
        try fixture.model.bringOnline(device: "phone-0", app: "app", nowMilliseconds: Self.startSeconds * 1_000)
        try fixture.model.uninstall(app: "app", device: "phone-1", nowMilliseconds: Self.startSeconds * 1_000)
        let response = try fixture.screens()
        #expect(Set(response.screens.keys) == [0, 1])
        #expect(response.number("active") == 1 && response.number("empty") == 2)
    }

    @Test func `Events that must never happen are counted`() throws {
        var fixture = try ScreenFixture()
        let alert = #","alert":{"title":"Here","body":"Now"}"#
        try fixture.push("here", extraMembers: alert)
        #expect(try fixture.push("late", timestamp: 9) == .ignoredOld)
        try fixture.push("here", at: 11, extraMembers: #","alert":{"title":"Gone","body":"Now"}"#)
        #expect(try fixture.screens().number("rangTwice") == 0)
        try fixture.push("here", at: 12, extraMembers: alert)
        let response = try fixture.screens()
        #expect(response.number("backInTime") == 1 && response.number("rangTwice") == 1)
        #expect(response.number("startedTwice") == 0)
        let summary = fixture.model.summary(nowMilliseconds: Self.startSeconds * 1_000)
        #expect(summary.repeatedAlertCount == 1 && summary.effects[.ignoredOld] == 1)
    }

    @Test(arguments: [(lostAt: 9, 1, 0), (lostAt: 10, 0, 1), (lostAt: 12, 0, 1), (lostAt: 13, 1, 0)])
    func `An alert whose response may be lost may ring again`(lostAt: Int64, twiceCount: Int, inDoubtCount: Int) throws
    {
        var fixture = try ScreenFixture()
        let alert = #","alert":{"title":"Here","body":"Now"}"#
        try fixture.push("here", at: 10, extraMembers: alert)
        fixture.model.noteLostResponses(atMilliseconds: (Self.startSeconds + lostAt) * 1_000)
        try fixture.push("here", at: 20, extraMembers: alert)
        let response = try fixture.screens(at: 20)
        #expect(response.number("rangTwice") == twiceCount && response.number("rangInDoubt") == inDoubtCount)
    }

    @Test func `The number of colour names is limited`() {
        var tints = StateNameTable()
        for number in 0..<300 { _ = tints.nameNumberAndHash(of: Array(#"{"status":"s\#(number)"}"#.utf8)) }
        #expect(tints.names.count == StateNameTable.namesMax)
        #expect(
            tints.nameNumberAndHash(of: Array(#"{"status":"new"}"#.utf8)).number == UInt8(StateNameTable.namesMax - 1)
        )
        #expect(
            tints.nameNumberAndHash(of: Array(#"{"a":1,"b":"first word"}"#.utf8)).number
                == UInt8(StateNameTable.namesMax - 1)
        )
        #expect(tints.nameNumberAndHash(of: Array("no JSON".utf8)).number == UInt8(StateNameTable.namesMax - 1))
    }
}
