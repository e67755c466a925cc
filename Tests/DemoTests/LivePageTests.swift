import Testbed
import Testing

@testable import CausewayLab

@Suite("The live page", .ownThread)
struct LivePageTests {
    @Test func `A fault ends by itself, or when it is pressed again`() {
        var troubles = PageTroubles()
        #expect(troubles.press(.answer503, nowMilliseconds: 1_000) == .begin(.answer503))
        #expect(troubles.faults == #"{"serviceUnavailableShare":1}"#)
        #expect(troubles.press(.blackHole, nowMilliseconds: 2_000) == .begin(.blackHole))
        #expect(troubles.faults == #"{"serviceUnavailableShare":1,"silentAfterRequests":0,"silentStopsReading":true}"#)
        #expect(troubles.press(.answer503, nowMilliseconds: 3_000) == .end(.answer503))
        #expect(troubles.expire(nowMilliseconds: 16_999, ofService: true) == [])
        #expect(troubles.expire(nowMilliseconds: 17_000, ofService: false) == [])
        #expect(troubles.expire(nowMilliseconds: 17_000, ofService: true) == [.end(.blackHole)])
        #expect(troubles == PageTroubles() && troubles.faults == "{}")
    }

    @Test func `An action that happens at once is not switched on`() {
        var troubles = PageTroubles()
        for action in [PageAction.killWorker, .cutConnections] {
            #expect(troubles.press(action, nowMilliseconds: 0) == .begin(action))
            #expect(!troubles.isOn(action))
        }
    }

    @Test func `The desk gives each side its own steps`() {
        let desk = PageDesk()
        #expect(!desk.press(.killWorker), "nothing is allowed at first")
        desk.allow([.killWorker, .cutConnections])
        #expect(desk.press(.killWorker) && desk.press(.cutConnections))
        #expect(!desk.press(.takeRedisAway))
        #expect(desk.takeSteps(nowMilliseconds: 0) == [.begin(.killWorker)])
        #expect(desk.takeSteps(nowMilliseconds: 0) == [])
        #expect(desk.takeServiceSteps(nowMilliseconds: 0) == [.begin(.cutConnections)])
    }

    @Test func `The number of presses is limited`() {
        let desk = PageDesk()
        desk.allow([.killWorker])
        for _ in 0..<PageDesk.pressesMax { #expect(desk.press(.killWorker)) }
        #expect(!desk.press(.killWorker))
    }

    @Test func `Redis returns by itself`() {
        let desk = PageDesk()
        desk.allow([.takeRedisAway])
        #expect(desk.press(.takeRedisAway))
        #expect(desk.takeSteps(nowMilliseconds: 5) == [.begin(.takeRedisAway)])
        desk.allow([])
        #expect(desk.takeSteps(nowMilliseconds: 10_004) == [])
        #expect(desk.takeSteps(nowMilliseconds: 10_005) == [.end(.takeRedisAway)])
    }

    @Test func `Commands without a result after the time limit are late`() {
        var late = LateCommands()
        for second in 0...29 { late.note(commands: 100 * second, nowMilliseconds: Int64(second) * 1_000) }
        #expect(late.count(results: 0, nowMilliseconds: 29_000) == 0, "none is that old")
        for second in 30...90 { late.note(commands: 100 * second, nowMilliseconds: Int64(second) * 1_000) }
        #expect(late.count(results: 6_000, nowMilliseconds: 90_000) == 0)
        #expect(late.count(results: 5_900, nowMilliseconds: 90_000) == 100)
    }

    @Test func `The wall shows phones spread over all`() {
        #expect(PageFrame.wall(of: 0) == [])
        #expect(PageFrame.wall(of: 3) == [0, 1, 2])
        let wall = PageFrame.wall(of: 3_000)
        #expect(wall.count == PageFrame.wallMax && wall.first == 62 && wall.last == 2_937)
    }

    @Test func `Numbers of an answer are found`() {
        let answer = Array(#"{"now":1790000000123,"next":42,"phones":3000}"#.utf8)
        #expect(PageFrame.number("next", in: answer) == 42)
        #expect(PageFrame.number("phones", in: answer) == 3_000)
        #expect(PageFrame.number("nothing", in: answer) == nil)
        #expect(PageFrame.number("next", in: Array(#"{"next":"x"}"#.utf8)) == nil)
        #expect(PageFrame.number("next", in: []) == nil)
    }

    @Test func `An event is one line of JSON`() throws {
        var troubles = PageTroubles()
        _ = troubles.press(.answer503, nowMilliseconds: 0)
        let event = PageFrame.event(
            screens: nil,
            isWhole: true,
            service: Array(#"{"accepted":7}"#.utf8),
            figures: PageFigures(phase: .playing, commands: 12).json,
            allowed: [.answer503],
            troubles: troubles,
            nowMilliseconds: 5_000
        )
        let text = String(decoding: event, as: UTF8.self)
        #expect(text.hasPrefix("data: {") && text.hasSuffix("}\n\n") && text.dropLast(2).allSatisfy { $0 != "\n" })
        for part in [
            #""whole":true"#, #""screens":null"#, #""service":{"accepted":7}"#, #""commands":12"#,
            #""phase":"playing""#,
            #""answer-503":{"allowed":true,"on":true,"leftMilliseconds":10000}"#,
            #""kill-worker":{"allowed":false,"on":false,"leftMilliseconds":0}"#,
        ] {
            #expect(text.contains(part), "\(part)")
        }
    }

    @Test func `The youngest activity is inspected`() {
        let record = #"{"app":"a","device":"d","activities":[{"activity":"old"},{"activity":"new"}]}"#
        let subject = PageSubject(of: Array(record.utf8))
        #expect(subject?.app == "a" && subject?.activity == "new")
        #expect(PageSubject(of: Array(#"{"app":"a","activities":[]}"#.utf8)) == nil)
    }

    @Test func `Only requests to this machine's names are answered`() {
        #expect(PageHandler.isLocal("127.0.0.1:4000") && PageHandler.isLocal("localhost"))
        #expect(!PageHandler.isLocal("example.com:4000") && !PageHandler.isLocal(nil))
    }

    @Test func `A histogram gives the values added since an earlier state`() {
        var histogram = Histogram()
        for value in [5, 5, 900] { histogram.add(milliseconds: Int64(value)) }
        let earlier = histogram
        #expect(histogram.since(earlier).percentile(50) == nil)
        for value in [40, 50, 60] { histogram.add(milliseconds: Int64(value)) }
        let recent = histogram.since(earlier)
        #expect(recent.count == 3 && recent.percentile(50) == 50 && recent.percentile(99) == 60)
    }

    @Test func `Every file of the page is in the program`() {
        for file in PageFile.allCases { #expect(file.content.count > 100, "\(file)") }
        #expect(PageFile(path: "/../Package.swift") == nil)
    }
}
