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
            try ExamplePlayback(name, run).playAll()
            try run.deployment.stopWorker(graceMilliseconds: 90_000)
        }
    }

    @Test func `A phone drops a state whose date range is an object`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["ride"])
            defer { run.close() }
            let playback = try ExamplePlayback("ride", run)
            try playback.beginActivities()
            let activityBefore = try run.readActivity("ride-1042", app: playback.app)
            try playback.sendCommand(in: "traps/eta-as-an-object.jsonl")
            let activityAfter = try run.readActivity("ride-1042", app: playback.app)
            #expect(isSameJSON(activityAfter["contentState"], activityBefore["contentState"]))
            #expect((activityAfter["effects"] as? JSONObject)?["undecodable"] as? Int == 1)
            #expect((activityAfter["lastProblem"] as? String)?.hasPrefix("eta: ") == true)
        }
    }

    @Test func `A UNIX date inside the content is detected`() async throws {
        try await onOwnThread {
            let run = try ExampleRun(["trip"])
            defer { run.close() }
            let playback = try ExamplePlayback("trip", run)
            try playback.beginActivities()
            #expect(try run.readActivity("XK-9", app: playback.app)["suspiciousDates"] as? Int == 0)
            try playback.sendCommand(in: "traps/unix-date.jsonl")
            #expect(try run.readActivity("XK-9", app: playback.app)["suspiciousDates"] as? Int == 1)
        }
    }
}

/// One example, from its first registration to the last dismissal of an activity.
private final class ExamplePlayback {
    let app: String
    private let run: ExampleRun
    private let files: ExampleFiles
    private let commands: [JSONObject]
    private let expectedRegistrations: [JSONObject]

    init(_ name: String, _ run: ExampleRun) throws {
        self.run = run
        files = ExampleFiles(name)
        commands = try files.records("commands.jsonl")
        expectedRegistrations = try files.records("registrations.jsonl")
        app = try #require(commands.first?["app"] as? String)
    }

    /// Installs the app on the phones, and starts the activities that the app itself starts. Relays the devices'
    /// push-to-start tokens and the activities' update tokens to the worker.
    func beginActivities() throws {
        let phones = try files.object("phones.json")
        try run.post("/phones", phones)
        try run.post("/activities", try files.object("app-starts.json"))
        let devices = try #require(phones["devices"] as? [String])
        try run.relayRegistrations(until: devices.count + appStartedActivities.count)
    }

    func sendCommand(in file: String) throws {
        let command = try #require(try files.records(file).first)
        try run.send(command)
        try run.awaitAccepted([try #require(command["id"] as? String)])
    }

    func playAll() throws {
        try beginActivities()
        var registrationCount = try run.readRegistrations().count
        // Commands with the same timestamp are sent together.
        let timestamps = Set(commands.map { timestamp($0) }).sorted()
        let rotationIndex = 2
        for (index, dueTimestamp) in timestamps.enumerated() {
            if index == rotationIndex {
                // iOS gives the app another token for the activity.
                let activity = try #require(rotatedActivity)
                registrationCount += 1
                try run.awaitRedisChange(of: activity, app: app) {
                    try run.post("/rotate", ["app": app, "activity": activity])
                    try run.relayRegistrations(until: registrationCount)
                }
            }
            let dueCommands = commands.filter { timestamp($0) == dueTimestamp }
            for command in dueCommands { try run.send(command) }
            try run.awaitAccepted(dueCommands.compactMap { $0["id"] as? String })
            for startedActivity in dueCommands.filter({ event($0) == "start" })
                .compactMap({ $0["activity"] as? String })
            {
                registrationCount += 1
                try run.awaitRedisChange(of: startedActivity, app: app) {
                    try run.relayRegistrations(until: registrationCount)
                }
            }
        }
        try checkRegistrations()
        for activity in Set(commands.compactMap { $0["activity"] as? String }).sorted() { try checkActivity(activity) }
    }

    private var appStartedActivities: [JSONObject] {
        ((try? files.object("app-starts.json"))?["activities"] as? [JSONObject]) ?? []
    }

    /// The activity that has two registrations.
    private var rotatedActivity: String? {
        let activities = expectedRegistrations.compactMap { $0["activity"] as? String }
        return activities.first { activity in activities.count { $0 == activity } == 2 }
    }

    private func aps(_ command: JSONObject) -> JSONObject { command["aps"] as? JSONObject ?? [:] }
    private func event(_ command: JSONObject) -> String { aps(command)["event"] as? String ?? "" }
    private func timestamp(_ command: JSONObject) -> Int { aps(command)["timestamp"] as? Int ?? 0 }

    /// Checks that `registrations.jsonl` shows the registrations of the apps, except for tokens and times.
    private func checkRegistrations() throws {
        let receivedRegistrations = try run.readRegistrations()
        for record in expectedRegistrations {
            let name = record["activity"] ?? record["device"]
            let matchingRegistrations = receivedRegistrations.filter {
                isSameJSON($0["activity"] ?? $0["device"], name)
            }
            #expect(!matchingRegistrations.isEmpty, "\(name ?? "?")")
            for key in record.keys where key != "token" && key != "registeredAt" {
                #expect(matchingRegistrations.allSatisfy { isSameJSON($0[key], record[key]) }, "\(name ?? "?"): \(key)")
            }
        }
        let tokens = receivedRegistrations.filter { $0["activity"] as? String == rotatedActivity }
            .compactMap { $0["token"] as? String }
        #expect(Set(tokens).count == 2)
    }

    private func checkActivity(_ activity: String) throws {
        let ownCommands = commands.filter { $0["activity"] as? String == activity }
        let shownActivity = try run.readActivity(activity, app: app)
        let lastCommand = try #require(ownCommands.last)
        #expect(event(lastCommand) == "end")
        #expect(isSameJSON(shownActivity["contentState"], aps(lastCommand)["content-state"]), "\(activity)")
        #expect(
            shownActivity["startedBy"] as? String == (ownCommands.contains { event($0) == "start" } ? "push" : "app")
        )
        #expect(shownActivity["alertCount"] as? Int == ownCommands.count { aps($0)["alert"] != nil })
        let relevanceScore = ownCommands.compactMap { aps($0)["relevance-score"] as? Int }.last
        #expect((shownActivity["relevanceScore"] as? NSNumber)?.intValue == relevanceScore)
        for count in ["suspiciousDates", "regressions", "equalTimestamps"] {
            #expect(shownActivity[count] as? Int == 0)
        }
        let effects = shownActivity["effects"] as? [String: Int] ?? [:]
        #expect(effects["ended"] == 1 && (effects["shown"] ?? 0) == ownCommands.count { event($0) == "update" })
        #expect(Set(effects.keys).isSubset(of: ["shown", "ended", "started"]), "\(effects)")
        try checkDismissal(shownActivity, date: aps(lastCommand)["dismissal-date"] as? Int)
        for command in ownCommands { try checkResult(command) }
    }

    /// Checks when the phone removes the ended activity. Without a date: four hours after the end. With a date: at this
    /// date, or at once if the date has passed.
    private func checkDismissal(_ shownActivity: JSONObject, date: Int?) throws {
        let endedAtMilliseconds = try #require(shownActivity["endedAt"] as? Int)
        guard let date else {
            #expect(shownActivity["state"] as? String == "ended")
            #expect(shownActivity["dismissalAt"] as? Int == endedAtMilliseconds + 4 * 3_600_000)
            return
        }
        if date * 1_000 <= endedAtMilliseconds {
            #expect(shownActivity["state"] as? String == "gone")
        } else {
            #expect(shownActivity["state"] as? String == "ended")
            #expect(shownActivity["dismissalAt"] as? Int == date * 1_000)
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
