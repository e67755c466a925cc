import Foundation
import Testbed
import Testing

@testable import CausewayLab

@Suite("The example activities, from Kafka to the Lock Screen", .serialized, .timeLimit(.minutes(10)))
struct ExampleTests {
    @Test(arguments: ExampleFiles.names)
    func `Each example arrives on its phone`(name: String) async throws {
        try await onOwnThread {
            let run = try ExampleRun([name])
            defer { run.close() }
            try Journey(name, run).travel()
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    @Test func `A range as an object is dropped by the phone`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            let journey = try Journey("ride", run)
            try journey.begin()
            let before = try run.activity("ride-1042", app: journey.app)
            try journey.sendTrap("traps/eta-as-an-object.jsonl")
            let after = try run.activity("ride-1042", app: journey.app)
            #expect(isSameJSON(after["contentState"], before["contentState"]))
            #expect((after["effects"] as? JSONObject)?["undecodable"] as? Int == 1)
            #expect((after["lastProblem"] as? String)?.hasPrefix("eta: ") == true)
        }
    }

    @Test func `A UNIX date inside the content is detected`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["trip"])
            defer { run.close() }
            let journey = try Journey("trip", run)
            try journey.begin()
            #expect(try run.activity("XK-9", app: journey.app)["suspiciousDates"] as? Int == 0)
            try journey.sendTrap("traps/unix-date.jsonl")
            #expect(try run.activity("XK-9", app: journey.app)["suspiciousDates"] as? Int == 1)
        }
    }
}

/// One example, from its first registration to the last dismissal of an activity.
private final class Journey {
    let app: String
    private let run: ExampleRun
    private let files: ExampleFiles
    private let commands: [JSONObject]
    private let posted: [JSONObject]

    init(_ name: String, _ run: ExampleRun) throws {
        self.run = run
        files = ExampleFiles(name)
        commands = try files.records("commands.jsonl")
        posted = try files.records("registrations.jsonl")
        app = try #require(commands.first?["app"] as? String)
    }

    /// Installs the app on the phones, starts the activities that the app itself starts, and relays the tokens of both
    /// to the worker.
    func begin() throws {
        let phones = try files.object("phones.json")
        try run.post("/phones", phones)
        try run.post("/activities", try files.object("app-starts.json"))
        let devices = try #require(phones["devices"] as? [String])
        try run.relay(until: devices.count + appStarted.count)
    }

    func sendTrap(_ file: String) throws {
        let trap = try #require(try files.records(file).first)
        try run.send(trap)
        try run.awaitAccepted([try #require(trap["id"] as? String)])
    }

    func travel() throws {
        try begin()
        var registrations = try run.registrations().count
        let steps = Set(commands.map { timestamp($0) }).sorted()
        for (number, step) in steps.enumerated() {
            if number == 2 {
                // iOS gives the app another token for the activity.
                let activity = try #require(rotated)
                registrations += 1
                try run.awaitingChange(of: activity, app: app) {
                    try run.post("/rotate", ["app": app, "activity": activity])
                    try run.relay(until: registrations)
                }
            }
            let due = commands.filter { timestamp($0) == step }
            for command in due { try run.send(command) }
            try run.awaitAccepted(due.compactMap { $0["id"] as? String })
            for born in due.filter({ event($0) == "start" }).compactMap({ $0["activity"] as? String }) {
                registrations += 1
                try run.awaitingChange(of: born, app: app) { try run.relay(until: registrations) }
            }
        }
        try checkRegistrations()
        for activity in Set(commands.compactMap { $0["activity"] as? String }).sorted() { try check(activity) }
    }

    private var appStarted: [JSONObject] {
        ((try? files.object("app-starts.json"))?["activities"] as? [JSONObject]) ?? []
    }

    /// The activity that has two registrations.
    private var rotated: String? {
        let activities = posted.compactMap { $0["activity"] as? String }
        return activities.first { activity in activities.count { $0 == activity } == 2 }
    }

    private func aps(_ command: JSONObject) -> JSONObject { command["aps"] as? JSONObject ?? [:] }
    private func event(_ command: JSONObject) -> String { aps(command)["event"] as? String ?? "" }
    private func timestamp(_ command: JSONObject) -> Int { aps(command)["timestamp"] as? Int ?? 0 }

    /// Checks that the file shows the records that the apps register, except for tokens and times.
    private func checkRegistrations() throws {
        let real = try run.registrations()
        for record in posted {
            let name = record["activity"] ?? record["device"]
            let same = real.filter { isSameJSON($0["activity"] ?? $0["device"], name) }
            #expect(!same.isEmpty, "\(name ?? "?")")
            for key in record.keys where key != "token" && key != "registeredAt" {
                #expect(same.allSatisfy { isSameJSON($0[key], record[key]) }, "\(name ?? "?"): \(key)")
            }
        }
        let tokens = real.filter { $0["activity"] as? String == rotated }.compactMap { $0["token"] as? String }
        #expect(Set(tokens).count == 2)
    }

    private func check(_ activity: String) throws {
        let own = commands.filter { $0["activity"] as? String == activity }
        let shown = try run.activity(activity, app: app)
        let last = try #require(own.last)
        #expect(event(last) == "end")
        #expect(isSameJSON(shown["contentState"], aps(last)["content-state"]), "\(activity)")
        #expect(shown["startedBy"] as? String == (own.contains { event($0) == "start" } ? "push" : "app"))
        #expect(shown["alertCount"] as? Int == own.count { aps($0)["alert"] != nil })
        let score = own.compactMap { aps($0)["relevance-score"] as? Int }.last
        #expect((shown["relevanceScore"] as? NSNumber)?.intValue == score)
        for count in ["suspiciousDates", "regressions", "equalTimestamps"] { #expect(shown[count] as? Int == 0) }
        let effects = shown["effects"] as? [String: Int] ?? [:]
        #expect(effects["ended"] == 1 && (effects["shown"] ?? 0) == own.count { event($0) == "update" })
        #expect(Set(effects.keys).isSubset(of: ["shown", "ended", "started"]), "\(effects)")
        try checkDismissal(shown, date: aps(last)["dismissal-date"] as? Int)
        for command in own { try checkResult(command) }
    }

    /// Checks when the phone removes the ended activity: four hours after the end by default, at once, or at
    /// the given date.
    private func checkDismissal(_ shown: JSONObject, date: Int?) throws {
        let ended = try #require(shown["endedAt"] as? Int)
        guard let date else {
            #expect(shown["state"] as? String == "ended")
            #expect(shown["dismissalAt"] as? Int == ended + 4 * 3_600_000)
            return
        }
        if date * 1_000 <= ended {
            #expect(shown["state"] as? String == "gone")
        } else {
            #expect(shown["state"] as? String == "ended")
            #expect(shown["dismissalAt"] as? Int == date * 1_000)
        }
    }

    private func checkResult(_ command: JSONObject) throws {
        let identifier = try #require(command["id"] as? String)
        let result = try #require(run.results.lastResult(identifier))
        let isUrgent = event(command) != "update" || aps(command)["alert"] != nil
        #expect(result["priority"] as? Int == command["priority"] as? Int ?? (isUrgent ? 10 : 5), "\(identifier)")
        #expect(result["status"] as? Int == 200)
        #expect(result["app"] as? String == app)
        #expect(result["timestamp"] as? Int == timestamp(command))
    }
}
