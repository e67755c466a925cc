import ActivityStore
import LiveActivity
import Testbed
import Testing

import enum CausewayRecords.JSONValue

@testable import causeway

@Suite("The text of causeway inspect", .ownThread)
struct InspectTextTests {
    /// 2026-09-21 14:13:20 UTC.
    private static let nowMilliseconds: Int64 = 1_790_000_000_000

    /// Returns the report about an activity of which Redis knows nothing, with a change.
    private func report(_ change: (inout ActivityReport) -> Void = { _ in }) -> ActivityReport {
        var report = ActivityReport(
            app: "com.example.match",
            activity: "final",
            nowMilliseconds: Self.nowMilliseconds,
            policyName: "sports",
            pace: .init(spacingMilliseconds: 5_000, spacingDoublingCount: 0, nextPushAtMilliseconds: nil),
            budget: .init(remainingDrawCount: 15, drawsMax: 15, reservedDrawCount: 5, fullAtMilliseconds: nil)
        )
        change(&report)
        return report
    }

    /// Makes a report with the change, and returns the rest of the line that begins with the label.
    private func line(_ label: String, _ change: (inout ActivityReport) -> Void = { _ in }) -> String {
        report(change).lines().first { $0.hasPrefix(label + " ") }.map { String($0.dropFirst(10)) } ?? "no such line"
    }

    private func heldCommand(_ version: Version, expirationSeconds: Int64? = nil, hasAlert: Bool = true)
        -> HeldCommand
    {
        let expirationMember = expirationSeconds.map { ",\"expiration\":\($0)" } ?? ""
        let text = """
            {"activity":"final"\(expirationMember),"aps":{"event":"update","timestamp":\(version.timestamp),
             "content-state":{"home":2,"note":"\(String(repeating: "é", count: 300))"},"alert":{"title":"Goal"}}}
            """
        let commandJSON = JSONValue(parsing: text.utf8) ?? .null
        return HeldCommand(version: version, commandJSON: commandJSON, hasAlert: hasAlert)
    }

    @Test func `An activity without any data is described`() {
        #expect(
            report().lines() == [
                "activity  final of com.example.match",
                "token     none has been registered",
                "newest    no command has been admitted",
                "shows     nothing that Causeway sent to this activity alone",
                "waits     nothing",
                "pace      one push every 5 s; the next may be sent now",
                "budget    15 of 15 pushes of priority 10 left, 5 of them for alerts and ends; policy sports",
                "life      not begun",
            ]
        )
    }

    @Test func `A token is described with its environment and time, and a missing token with its time`() {
        #expect(
            line("token") {
                $0.token = .init(fingerprint: "00ff", environment: .production)
                $0.registeredAtMilliseconds = Self.nowMilliseconds - 90_000
                $0.allowsFrequentUpdates = true
            } == "sha256 00ff, production, registered 1 min 30 s ago (14:11:50), frequent updates allowed"
        )
        #expect(
            line("token") { $0.registeredAtMilliseconds = Self.nowMilliseconds - 86_400_000 }
                == "none; the last token was unregistered 1 d ago (2026-09-20 14:13:20), or was registered then and is dead now"
        )
    }

    /// If a token was unregistered or retired, Redis keeps only the time of this event. The report must not show this
    /// time as the time of a registration.
    @Test func `A device's dead token has no time of registration`() throws {
        let fields = [
            (field: Array("t:MatchAttributes".utf8), value: Array("\(Self.nowMilliseconds - 90_000)".utf8)),
            (field: Array("t:RideAttributes".utf8), value: Array("\(Self.nowMilliseconds - 90_000)pabcd".utf8)),
        ]
        let report = DeviceReport(
            try DeviceInspection(fields: fields),
            app: InspectedApp(bundleId: "com.example.match", defaultPolicyName: "sports", policies: []),
            device: "phone-7",
            policy: Policy(name: "sports"),
            nowMilliseconds: Self.nowMilliseconds
        )
        let rows = report.lines()
        #expect(rows.first { $0.hasPrefix("MatchAttributes") }?.contains("ago") == false)
        #expect(rows.first { $0.hasPrefix("RideAttributes") }?.contains("1 min 30 s ago") == true)
        let tokens = [
            #"{"attributesType":"MatchAttributes","held":[],"sha256":null}"#,
            #"{"attributesType":"RideAttributes","environment":"production","held":[],"registeredAt":1789999910000,"#
                + #""sha256":"88d4266fd4e6"}"#,
        ]
        #expect(report.json["tokens"]?.oneLineJSON == "[\(tokens.joined(separator: ","))]")
    }

    @Test func `The newest version is described with its state`() {
        func newestLine(_ phase: ActivityInspection.VersionPhase, sequence: UInt64 = 0, isEnd: Bool = false) -> String {
            line("newest") {
                $0.newestVersion = .init(
                    version: Version(timestamp: 1_789_999_996, sequence: sequence),
                    isEnd: isEnd,
                    phase: phase
                )
            }
        }
        #expect(newestLine(.settled) == "1789999996, 4 s ago: settled")
        #expect(newestLine(.held, sequence: 7) == "1789999996, 4 s ago, sequence 7: held until a token registers")
        #expect(
            newestLine(.sending, isEnd: true)
                == "1789999996, 4 s ago, an end: being sent, no response yet"
        )
    }

    @Test func `The shown state and the waiting one are described`() {
        #expect(
            line("shows") {
                $0.lastSentVersion = .init(timestamp: 1_789_999_999, atMilliseconds: Self.nowMilliseconds - 800)
                $0.shownDigest = 0xAB
            } == "last push 800 ms ago (14:13:19) as 1789999999; digest 00000000000000ab"
        )
        #expect(
            line("shows") { $0.lastSentVersion = .init(timestamp: 1, atMilliseconds: Self.nowMilliseconds) }
                .hasSuffix("; the shown state is not known")
        )
        let version = Version(timestamp: 1_789_999_900, sequence: 0)
        func waitingLine(_ phase: ActivityInspection.VersionPhase, _ held: HeldCommand) -> String {
            line("waits") {
                $0.newestVersion = .init(version: version, isEnd: false, phase: phase)
                $0.heldCommand = held
            }
        }
        #expect(
            waitingLine(.held, heldCommand(version, expirationSeconds: 1_790_000_060))
                == "update of 1 min 40 s ago with an alert: until a token registers, or expires in 1 min (14:14:20)"
        )
        #expect(
            waitingLine(.sending, heldCommand(version, hasAlert: false))
                == "update of 1 min 40 s ago: being sent, kept until the response is known"
        )
        #expect(
            waitingLine(.waiting, heldCommand(Version(timestamp: 1_789_999_800, sequence: 0)))
                == "update of 3 min 20 s ago with an alert: until the newest command, which carries its alert, is known to be sent"
        )
        #expect(
            line("waits") { $0.newestVersion = .init(version: version, isEnd: false, phase: .waiting) }
                == "the newest command, in a worker"
        )
        let lines = report { $0.heldCommand = heldCommand(version) }.lines()
        #expect(lines.contains { $0.contains("content-state {\"home\":2") && $0.hasSuffix("--json prints all)") })
        #expect(lines.contains("          alert {\"title\":\"Goal\"}"))
        #expect(lines.allSatisfy { $0.count < 260 })
    }

    @Test func `The audiences of an activity are counted, and a state that came through them is not denied`() throws {
        // The value of an activity that is in two audiences, and has no token and no command of its own.
        var value = [UInt8](repeating: 0, count: 50)
        value[5] = 0x40  // The part about audiences follows.
        value[13] = UInt8(ascii: "n")  // No version has been admitted.
        value += [2, 0] + [UInt8](repeating: 7, count: 16)
        let report = ActivityReport(
            try ActivityInspection(value: value),
            app: InspectedApp(bundleId: "com.example.match", defaultPolicyName: "sports", policies: []),
            activity: "final",
            policy: Policy(name: "sports"),
            nowMilliseconds: Self.nowMilliseconds
        )
        #expect(
            Array(report.lines()[3...4]) == [
                "shows     nothing that Causeway sent to this activity alone",
                "audiences 2; what came through an audience is not listed here: causeway inspect --audience NAME",
            ]
        )
        #expect(report.json(results: nil)["audiences"]?.integerValue == 2)
        #expect(line("audiences") == "no such line")
    }

    @Test func `The pace, the budget and the life of an activity are described`() {
        #expect(
            line("pace") {
                $0.pace = .init(
                    spacingMilliseconds: 40_000,
                    spacingDoublingCount: 3,
                    nextPushAtMilliseconds: Self.nowMilliseconds + 12_000
                )
            } == "one push every 40 s (doublings after 429 responses: 3); the next in 12 s"
        )
        func budget(_ remainingDrawCount: Int, reservedDrawCount: Int = 5) -> String {
            line("budget") {
                $0.budget = .init(
                    remainingDrawCount: remainingDrawCount,
                    drawsMax: 15,
                    reservedDrawCount: reservedDrawCount,
                    fullAtMilliseconds: Self.nowMilliseconds + 3_660_000
                )
            }
        }
        let end = "; full in 1 h 1 min; policy sports"
        #expect(budget(9) == "9 of 15 pushes of priority 10 left, 5 of them for alerts and ends" + end)
        #expect(budget(5) == "5 of 15 pushes of priority 10 left, all for alerts and ends" + end)
        #expect(budget(0) == "0 of 15 pushes of priority 10 left" + end)
        #expect(budget(3, reservedDrawCount: 0) == "3 of 15 pushes of priority 10 left" + end)
        #expect(
            line("life") { $0.updatesUntilMilliseconds = Self.nowMilliseconds + 28_740_000 }
                == "began 1 min ago (14:12:20); updates until 22:12:20, for 7 h 59 min"
        )
        #expect(
            line("life") {
                $0.updatesUntilMilliseconds = Self.nowMilliseconds + 28_740_000
                $0.lifetimeEndsAtMilliseconds = Self.nowMilliseconds + 28_140_000
            } == "began 1 min ago (14:12:20); its lifetime ends at 22:02:20"
        )
        #expect(
            line("life") { $0.updatesUntilMilliseconds = Self.nowMilliseconds - 1 }
                == "began 8 h ago (06:13:19); its 8 hours are over, only an end can be sent"
        )
        #expect(
            line("life") {
                $0.updatesUntilMilliseconds = Self.nowMilliseconds + 1_000
                $0.newestVersion = .init(version: Version(timestamp: 1, sequence: 0), isEnd: true, phase: .settled)
            } == "began 7 h 59 min ago (06:13:21); ended, only a start can begin it again"
        )
    }

    @Test func `Durations and times are printed, also extreme ones`() {
        for (milliseconds, text) in [
            (Int64(0), "0 s"), (999, "999 ms"), (1_000, "1 s"), (59_999, "59 s"), (60_000, "1 min"),
            (61_000, "1 min 1 s"), (601_000, "10 min"), (3_600_000, "1 h"), (86_399_000, "23 h 59 min"),
            (90_000_000, "1 d 1 h"), (-5, "0 s"),
        ] {
            #expect(TimeText.duration(milliseconds) == text)
        }
        for moment in [Int64.min, -1, 0, .max, UnixSeconds.milliseconds(ofSeconds: .max)] {
            #expect(!TimeText.relative(moment, to: Self.nowMilliseconds).isEmpty)
            #expect(!TimeText.timeOfDay(moment, nowMilliseconds: Self.nowMilliseconds).isEmpty)
        }
        #expect(TimeText.relative(.max, to: -1).hasPrefix("in "))
        #expect(UnixSeconds.milliseconds(ofSeconds: .min) == .min)
    }

    @Test
    func `The overview counts, and lists the ten activities that spent most; among equals the last pushed one first`() {
        var overview = AppOverview()
        for index in 0..<30 {
            overview.add(
                report {
                    $0.activity = "a\(index)"
                    $0.budget.remainingDrawCount = 15 - index % 16
                    if index < 28 {
                        $0.lastSentVersion = .init(
                            timestamp: 1,
                            atMilliseconds: Self.nowMilliseconds - Int64(index) * 1_000
                        )
                    }
                    if index % 2 == 0 { $0.token = .init(fingerprint: "0", environment: .sandbox) }
                    if index % 10 == 0 { $0.pace.spacingDoublingCount = 1 }
                    if index == 3 { $0.heldCommand = heldCommand(Version(timestamp: 1, sequence: 0)) }
                    if index < 4 {
                        $0.newestVersion = .init(
                            version: Version(timestamp: 1, sequence: 0),
                            isEnd: true,
                            phase: .settled
                        )
                    }
                }
            )
        }
        overview.countUnreadableActivity()
        #expect(overview.activityCount == 31)
        #expect(overview.activitiesWithTokenCount == 15)
        #expect(overview.throttledActivityCount == 3)
        #expect(overview.activitiesWithHeldCommandCount == 1)
        #expect(overview.endedActivityCount == 4)
        #expect(overview.outOfBudgetActivityCount == 10)
        #expect(
            overview.busiestActivities.map(\.activity)
                == ["a15", "a14", "a13", "a12", "a11", "a27", "a10", "a26", "a9", "a25"]
        )
        let app = InspectedApp(bundleId: "com.example.match", defaultPolicyName: "sports", policies: [])
        let lines = overview.lines(
            app: app,
            policy: Policy(name: "sports"),
            nowMilliseconds: Self.nowMilliseconds,
            isComplete: false
        )
        #expect(lines[1] == "activities     31, and more: not all were counted")
        #expect(lines.contains("unreadable     1"))
        #expect(lines.contains("a15                 15 of 15  15 s ago   -"))
    }

    @Test func `A token's fingerprint is the beginning of its SHA-256`() {
        // The digest of "abc" in FIPS 180-2, appendix B.1.
        #expect(TokenFingerprint.text(of: Array("abc".utf8)) == "ba7816bf8f01")
    }

    @Test func `The Redis keys of an app are parsed as they are written`() {
        let app = InspectedApp(
            bundleId: "com.example.match",
            defaultPolicyName: "b",
            policies: [Policy(name: "a"), Policy(name: "b")]
        )
        #expect(app.activityKey("x:{y}") == Array("{com.example.match=x:{y}}".utf8))
        #expect(app.activity(ofKey: app.activityKey("x:{y}")) == "x:{y}")
        let activity = "0C6EF1F2-8F5E-4D0D-9E0C-000000000001"
        #expect(app.activityKey(activity).count == 36)
        #expect(app.activity(ofKey: app.activityKey(activity)) == activity)
        #expect(app.deviceKey("d") == Array("{com.example.match/d}".utf8))
        #expect(app.policyOrDefault(named: nil).name == "b")
        #expect(app.policyOrDefault(named: "a").name == "a")
        #expect(app.policyOrDefault(named: "gone").name == "b")
    }

    @Test func `JSON is printed unchanged`() {
        let text = #"{"a":[1,2.5,true,null,"x/y"],"b":{"c":-9007199254740993}}"#
        #expect(JSONValue(parsing: text.utf8)?.oneLineJSON == text)
        #expect(JSONValue(parsing: "nonsense".utf8) == nil)
    }
}
