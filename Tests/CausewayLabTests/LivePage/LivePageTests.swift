import Glibc
import Testbed
import Testing

@testable import CausewayLab

@Suite("The live page", .ownThread)
struct LivePageTests {
    @Test func `A fault ends by itself, or when its button is pressed again`() {
        var disturbances = PageDisturbances()
        #expect(disturbances.press(.respondWith503, nowMilliseconds: 1_000) == .begin(.respondWith503))
        #expect(disturbances.faultsJSON == #"{"serviceUnavailableShare":1}"#)
        #expect(disturbances.press(.blackHole, nowMilliseconds: 2_000) == .begin(.blackHole))
        #expect(
            disturbances.faultsJSON
                == #"{"serviceUnavailableShare":1,"silentAfterRequests":0,"silentStopsReading":true}"#
        )
        #expect(disturbances.press(.respondWith503, nowMilliseconds: 3_000) == .end(.respondWith503))
        #expect(disturbances.expire(nowMilliseconds: 16_999, forAPNs: true) == [])
        #expect(disturbances.expire(nowMilliseconds: 17_000, forAPNs: false) == [])
        #expect(disturbances.expire(nowMilliseconds: 17_000, forAPNs: true) == [.end(.blackHole)])
        #expect(disturbances == PageDisturbances() && disturbances.faultsJSON == "{}")
    }

    @Test func `An action that happens at once is never shown as switched on`() {
        var disturbances = PageDisturbances()
        for action in [PageAction.killWorker, .cutConnections] {
            #expect(disturbances.press(action, nowMilliseconds: 0) == .begin(action))
            #expect(!disturbances.isOn(action))
        }
    }

    @Test func `Actions on the worker and actions at APNs are taken separately`() {
        let pageMailbox = LivePageMailbox()
        #expect(!pageMailbox.press(.killWorker), "nothing is allowed at first")
        pageMailbox.setAllowedActions([.killWorker, .cutConnections])
        #expect(pageMailbox.press(.killWorker) && pageMailbox.press(.cutConnections))
        #expect(!pageMailbox.press(.takeRedisAway))
        #expect(pageMailbox.takeSteps(nowMilliseconds: 0) == [.begin(.killWorker)])
        #expect(pageMailbox.takeSteps(nowMilliseconds: 0) == [])
        #expect(pageMailbox.takeStepsAtAPNs(nowMilliseconds: 0) == [.begin(.cutConnections)])
    }

    @Test func `The number of presses is limited`() {
        let pageMailbox = LivePageMailbox()
        pageMailbox.setAllowedActions([.killWorker])
        for _ in 0..<LivePageMailbox.waitingPressesMax { #expect(pageMailbox.press(.killWorker)) }
        #expect(!pageMailbox.press(.killWorker))
    }

    @Test func `Redis returns by itself`() {
        let pageMailbox = LivePageMailbox()
        pageMailbox.setAllowedActions([.takeRedisAway])
        #expect(pageMailbox.press(.takeRedisAway))
        #expect(pageMailbox.takeSteps(nowMilliseconds: 5) == [.begin(.takeRedisAway)])
        pageMailbox.setAllowedActions([])
        #expect(pageMailbox.takeSteps(nowMilliseconds: 10_004) == [])
        #expect(pageMailbox.takeSteps(nowMilliseconds: 10_005) == [.end(.takeRedisAway)])
    }

    @Test func `Commands without a result after the time limit are late`() {
        var counter = LateCommandCounter()
        for second in 0...29 { counter.addSample(commandCount: 100 * second, nowMilliseconds: Int64(second) * 1_000) }
        #expect(counter.lateCount(resultCount: 0, nowMilliseconds: 29_000) == 0, "none is that old")
        for second in 30...90 { counter.addSample(commandCount: 100 * second, nowMilliseconds: Int64(second) * 1_000) }
        #expect(counter.lateCount(resultCount: 6_000, nowMilliseconds: 90_000) == 0)
        #expect(counter.lateCount(resultCount: 5_900, nowMilliseconds: 90_000) == 100)
    }

    @Test func `The page shows some phones in full, spread over all phones`() {
        #expect(PageEventWriter.focusedPhoneNumbers(phoneCount: 0) == [])
        #expect(PageEventWriter.focusedPhoneNumbers(phoneCount: 3) == [0, 1, 2])
        let focusedPhones = PageEventWriter.focusedPhoneNumbers(phoneCount: 3_000)
        #expect(
            focusedPhones.count == PageEventWriter.focusedPhonesPerPageMax && focusedPhones.first == 62
                && focusedPhones.last == 2_937
        )
    }

    @Test func `When the number of phones changes, every viewer gets all phones, also a slow one`() {
        var viewers = PageViewers<String>()
        viewers.add(["fast", "slow"])
        /// Sends an event to each viewer whose stream has room. Returns the cursors of these viewers before the event;
        /// 0: the event has all phones.
        func sendEvents(
            lastChange: Int,
            phoneCount: Int,
            to streamsWithRoom: [String] = ["fast", "slow"]
        ) -> [String: Int] {
            var cursors: [String: Int] = [:]
            viewers.sendEvents { cursor, _ in
                PageEvent(bytes: [UInt8(cursor)], nextCursor: lastChange, phoneCount: phoneCount)
            } append: { stream, bytes in
                guard streamsWithRoom.contains(stream) else { return false }
                cursors[stream] = bytes.first.map { Int($0) }
                return true
            }
            return cursors
        }
        #expect(sendEvents(lastChange: 1, phoneCount: 3) == ["fast": 0, "slow": 0])
        #expect(sendEvents(lastChange: 2, phoneCount: 3) == ["fast": 0, "slow": 0])
        #expect(sendEvents(lastChange: 3, phoneCount: 3, to: ["fast"]) == ["fast": 2])
        // The number changes while the viewers have different cursors.
        #expect(sendEvents(lastChange: 4, phoneCount: 5) == ["fast": 3, "slow": 2])
        #expect(sendEvents(lastChange: 5, phoneCount: 5) == ["fast": 0, "slow": 0])
        #expect(sendEvents(lastChange: 6, phoneCount: 5) == ["fast": 5, "slow": 5])
        // The number changes while a stream has no room.
        #expect(sendEvents(lastChange: 7, phoneCount: 6, to: ["fast"]) == ["fast": 6])
        #expect(sendEvents(lastChange: 8, phoneCount: 6) == ["fast": 0, "slow": 0])
    }

    @Test func `Numbers of a response are found`() {
        let response = Array(#"{"now":1790000000123,"next":42,"phones":3000}"#.utf8)
        #expect(PageEventWriter.firstNumber("next", in: response) == 42)
        #expect(PageEventWriter.firstNumber("phones", in: response) == 3_000)
        #expect(PageEventWriter.firstNumber("nothing", in: response) == nil)
        #expect(PageEventWriter.firstNumber("next", in: Array(#"{"next":"x"}"#.utf8)) == nil)
        #expect(PageEventWriter.firstNumber("next", in: []) == nil)
    }

    @Test func `An event is one line of JSON`() throws {
        var disturbances = PageDisturbances()
        _ = disturbances.press(.respondWith503, nowMilliseconds: 0)
        let event = PageEventWriter.event(
            screens: nil,
            hasAllPhones: true,
            service: Array(#"{"accepted":7}"#.utf8),
            figures: LivePageFigures(phase: .playing, knownCommandCount: 12).json,
            allowedActions: [.respondWith503],
            disturbances: disturbances,
            nowMilliseconds: 5_000
        )
        let text = String(decoding: event, as: UTF8.self)
        #expect(text.hasPrefix("data: {") && text.hasSuffix("}\n\n") && text.dropLast(2).allSatisfy { $0 != "\n" })
        for part in [
            #""whole":true"#, #""screens":null"#, #""service":{"accepted":7}"#, #""commands":12"#,
            #""phase":"playing""#,
            #""respond-503":{"allowed":true,"on":true,"leftMilliseconds":10000}"#,
            #""kill-worker":{"allowed":false,"on":false,"leftMilliseconds":0}"#,
        ] {
            #expect(text.contains(part), "\(part)")
        }
    }

    @Test func `An action says why it is not allowed`() {
        let event = PageEventWriter.event(
            screens: nil,
            hasAllPhones: true,
            service: nil,
            figures: LivePageFigures().json,
            allowedActions: [],
            remarks: [.killWorker: #"not "here""#],
            disturbances: PageDisturbances(),
            nowMilliseconds: 0
        )
        let text = String(decoding: event, as: UTF8.self)
        let part = #""kill-worker":{"allowed":false,"on":false,"leftMilliseconds":0,"remark":"not \"here\""}"#
        #expect(text.contains(part))
    }

    @Test func `Beside somebody else's worker, a simulator's page says what it may not do`() throws {
        let pageMailbox = LivePageMailbox()
        #expect(SimulatorPage.updateAllowedActions(on: pageMailbox, nil) == nil)
        #expect(pageMailbox.allowedActions == [.respondWith503, .cutConnections, .blackHole])
        #expect(pageMailbox.remarks[.killWorker] == "disabled: --worker-pid is missing")
        #expect(pageMailbox.remarks[.takeRedisAway] == "disabled: the simulator did not start your Redis")
        let directory = try TemporaryDirectory()
        #expect(SimulatorPage.updateAllowedActions(on: pageMailbox, WorkerLocator(directory.path("worker.pid"))) == nil)
        #expect(pageMailbox.remarks[.killWorker] == "\(directory.path("worker.pid")): No such file or directory")
        try directory.write("soon\n", to: "worker.pid")
        _ = SimulatorPage.updateAllowedActions(on: pageMailbox, WorkerLocator(directory.path("worker.pid")))
        #expect(pageMailbox.remarks[.killWorker] == "\(directory.path("worker.pid")) has no process id")
    }

    @Test func `No other program is taken for a worker`() {
        #expect(
            WorkerLocator("4711") == .processIdentifier(4_711) && WorkerLocator("worker.pid") == .file("worker.pid")
        )
        #expect(reason(of: .processIdentifier(1)) == "there is no process 1")
        #expect(reason(of: .processIdentifier(.max)) == "there is no process \(Int32.max)")
        #expect(reason(of: .processIdentifier(getpid()))?.hasSuffix(", not causeway") == true)
    }

    private func reason(of identity: WorkerLocator) -> String? {
        do throws(LabError) {
            _ = try identity.findWorker()
            return nil
        } catch {
            return error.reason
        }
    }

    @Test func `A page beside somebody else's worker counts commands by their results`() {
        var tally = LivePageResultTally()
        func add(_ record: String) {
            tally.add(Array(record.utf8).withUnsafeBytes { ScannedResult(scanning: $0, commandsTopic: "own") })
        }
        let source = #""source":{"topic":"own","partition":0,"offset":5000000000000}"#
        add(#"{"outcome":"accepted","superseded":12,\#(source),"times":{"record":1000,"responded":1040}}"#)
        add(#"{"outcome":"unchanged",\#(source),"times":{"record":1000,"received":1900}}"#)
        #expect(tally.commandCount == 14)
        #expect(tally.freshness.count == 1 && tally.freshness.percentileMilliseconds(99) == 40)
        // The tally has already counted this command with its first result, which was `held`.
        add(
            #"{"outcome":"accepted","source":{"topic":"registrations","partition":0,"offset":1},"#
                + #""times":{"record":1000,"responded":9000}}"#
        )
        // The result of one range is not the result of a command.
        add(#"{"audience":"a","outcome":"delivered","segments":[0,1],\#(source)}"#)
        // The result of a refused member is not the result of a command either. The last result below is the one of the
        // command: it counts all members.
        add(#"{"activity":"x","audience":"a","outcome":"unregistered","attempts":1,\#(source)}"#)
        add(#"{"audience":"a","device":"d","outcome":"failed","attempts":1,\#(source)}"#)
        #expect(tally.commandCount == 14 && tally.freshness.count == 1)
        add(#"{"audience":"a","outcome":"delivered","ranges":1,\#(source),"times":{"record":1000,"last":1900}}"#)
        #expect(tally.commandCount == 15 && tally.freshness.count == 2)
    }

    @Test func `The youngest activity is inspected`() {
        let record = #"{"app":"a","device":"d","activities":[{"activity":"old"},{"activity":"new"}]}"#
        let subject = InspectedActivity(of: Array(record.utf8))
        #expect(subject?.app == "a" && subject?.activity == "new")
        #expect(InspectedActivity(of: Array(#"{"app":"a","activities":[]}"#.utf8)) == nil)
    }

    @Test func `Only requests to this machine's names get a page`() {
        #expect(LivePageHandler.isLocal("127.0.0.1:4000") && LivePageHandler.isLocal("localhost"))
        #expect(!LivePageHandler.isLocal("example.com:4000") && !LivePageHandler.isLocal(nil))
    }

    @Test func `A histogram gives the values added since an earlier state`() {
        var histogram = DurationHistogram()
        for value in [5, 5, 900] { histogram.add(milliseconds: Int64(value)) }
        let earlierHistogram = histogram
        #expect(histogram.subtracting(earlierHistogram).percentileMilliseconds(50) == nil)
        for value in [40, 50, 60] { histogram.add(milliseconds: Int64(value)) }
        let recentHistogram = histogram.subtracting(earlierHistogram)
        #expect(
            recentHistogram.count == 3 && recentHistogram.percentileMilliseconds(50) == 50
                && recentHistogram.percentileMilliseconds(99) == 60
        )
    }

    @Test func `Every file of the page is in the program`() {
        for file in PageFile.allCases { #expect(file.content.count > 100, "\(file)") }
        #expect(PageFile(path: "/../Package.swift") == nil)
    }
}
