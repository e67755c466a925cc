import CausewayCommandLine
import Foundation

/// One simulator: one of APNs' environments, with the phones of its apps.
final class OutageSimulator {
    static let attributesType = "OutageAttributes"
    private static let registrationsPerReadMax = 5_000
    private static let activitiesMax = 100_000

    let environment: SimulatorEnvironment
    let process: ChildProcess
    let endpoints: Deployment.SimulatorEndpoints
    private let client: LoopbackHTTPClient
    private var pushLog: JSONLinesReader
    private var copiedRegistrationCount = 0
    /// Whether the process is stopped with SIGSTOP, so that it responds to no request.
    var isFrozen = false

    init(
        _ environment: SimulatorEnvironment,
        process: ChildProcess,
        endpoints: Deployment.SimulatorEndpoints,
        pushLog: String
    ) {
        self.environment = environment
        self.process = process
        self.endpoints = endpoints
        client = LoopbackHTTPClient(port: endpoints.controlPort)
        self.pushLog = JSONLinesReader(path: pushLog)
    }

    /// Returns the declaration of an app, in the form of a file for `--shapes`.
    static func makeShapes(of app: OutageApp, teamId: String) -> String {
        """
        {"app": "\(app.bundleId)", "teamId": "\(teamId)", "attributesTypes": [{"name": "\(attributesType)",
         "identifierAttribute": "activity", "attributes": {"activity": "string"},
         "contentState": {"activity": "string", "number": "int"}}]}
        """
    }

    /// Creates all phones of an app, and the activities that the app itself begins.
    func createPhones(of app: OutageApp) throws(LabError) {
        let devices = Set((0..<app.activityCount).map(app.deviceIdentifier)).sorted()
        try client.requestObject(
            "POST",
            "/phones",
            [
                "app": app.bundleId, "devices": devices, "frequentUpdates": true,
                "environment": environment.rawValue,
            ]
        )
        let appStartedActivities = (app.pushStartedActivityCount..<app.activityCount)
            .map { index in
                let activity = app.activityIdentifier(index)
                return [
                    "activity": activity, "device": app.deviceIdentifier(of: index),
                    "attributes": ["activity": activity], "contentState": ["activity": activity, "number": 0],
                ] as [String: Any]
            }
        guard !appStartedActivities.isEmpty else { return }
        let timestamp = Clock.wallMilliseconds / 1_000 - app.timestampAgeSeconds - 60
        try client.requestObject(
            "POST",
            "/activities",
            [
                "app": app.bundleId, "attributesType": Self.attributesType, "timestamp": timestamp,
                "activities": appStartedActivities,
            ]
        )
    }

    /// Copies new registrations to Kafka, as an app's server does. Returns how many were copied by all calls together.
    func copyRegistrations(to commandProducer: CommandProducer) throws(LabError) -> Int {
        guard !isFrozen else { return copiedRegistrationCount }
        let page = try SimulatedPhones(client: client)
            .readRegistrations(since: copiedRegistrationCount, limit: Self.registrationsPerReadMax, waitMilliseconds: 0)
        for record in page.records where try !commandProducer.produceRegistration(key: record.key, value: record.value)
        {
            throw LabError("the queue of registrations is full")
        }
        copiedRegistrationCount = page.next
        return copiedRegistrationCount
    }

    func setFaults(_ shares: [String: Double]) throws(LabError) {
        var members: [String: Any] = shares
        // A push whose response the simulator loses must not reach its phone. Otherwise the checker could not know
        // whether the alert rang.
        members["requestsWithoutResponseTakeEffect"] = false
        try client.requestObject("PUT", "/faults", members)
    }

    func clearFaults() throws(LabError) { try client.requestObject("DELETE", "/faults") }

    /// Closes all connections without GOAWAY and close_notify. A push that the simulator has processed keeps its
    /// effect, even without a response.
    func cutConnections() throws(LabError) { try client.requestObject("POST", "/cut") }

    func rotateToken(of activity: String, app: OutageApp) throws(LabError) {
        try client.requestObject("POST", "/rotate", ["app": app.bundleId, "activity": activity])
    }

    // MARK: - Reading screens and pushes

    /// Returns what the phones show of an app's activities, by activity.
    func readScreens(of app: OutageApp) throws(LabError) -> [String: OutageHistory.Screen] {
        let target = "/activities?app=\(app.bundleId)&limit=\(Self.activitiesMax)"
        let response = try client.requestObject("GET", target)
        guard let list = response["activities"] as? [[String: Any]] else {
            throw LabError("the simulator's list of activities has an unexpected form")
        }
        var screens: [String: OutageHistory.Screen] = [:]
        for entry in list {
            guard let activity = entry["activity"] as? String, let state = entry["contentState"] as? [String: Any],
                let number = state["number"] as? UInt64
            else { throw LabError("the simulator's list of activities has an unexpected form") }
            screens[activity] = OutageHistory.Screen(
                sequence: number,
                isFinished: entry["state"] as? String != "active"
            )
        }
        return screens
    }

    /// Returns the pushes that have arrived since the last call.
    func readNewPushes() throws(LabError) -> [OutageHistory.Push] {
        try pushLog.readNewLines().compactMap(Self.parsePush)
    }

    /// Reads a line of the push log. Returns nil for a line without an activity.
    private static func parsePush(_ line: [String: Any]) -> OutageHistory.Push? {
        guard let activity = line["activity"] as? String, let milliseconds = line["time"] as? Int64 else { return nil }
        return OutageHistory.Push(
            arrivedAtMilliseconds: milliseconds,
            status: line["status"] as? Int ?? 0,
            activity: activity,
            timestamp: line["timestamp"] as? Int64 ?? 0,
            alertTitle: line["alert"] as? String,
            stateDigest: line["state"] as? String,
            effect: (line["effect"] as? String).map(parseEffect)
        )
    }

    private static func parseEffect(_ word: String) -> OutageHistory.Effect {
        switch word {
        case "started": .started
        case "shown": .shown
        case "ended": .ended
        case "ignoredOld", "ignoredAfterEnd": .droppedAsOld
        default: .droppedForOtherReason
        }
    }
}

/// Reads the lines of a growing file of JSON. Each line is returned once.
struct JSONLinesReader {
    private static let chunkBytes = 1 << 20

    let path: String
    private var offset: off_t = 0
    /// The beginning of a line whose end is not written yet.
    private var unfinishedLine: [UInt8] = []

    init(path: String) {
        self.path = path
    }

    /// Returns the JSON objects of the lines that were completed since the last call.
    mutating func readNewLines() throws(LabError) -> [[String: Any]] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw LabError(path, errno: errno) }
        defer { close(descriptor) }
        var chunk = [UInt8](repeating: 0, count: Self.chunkBytes)
        var objects: [[String: Any]] = []
        while true {
            let count = pread(descriptor, &chunk, chunk.count, offset)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw LabError(path, errno: errno) }
            if count == 0 { return objects }
            offset += off_t(count)
            unfinishedLine.append(contentsOf: chunk[..<count])
            let whole = unfinishedLine.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
            for line in unfinishedLine[..<whole].split(separator: UInt8(ascii: "\n")) {
                guard let object = (try? JSONSerialization.jsonObject(with: Data(line))) as? [String: Any] else {
                    throw LabError("\(path) has a line that is not a JSON object")
                }
                objects.append(object)
            }
            unfinishedLine.removeSubrange(..<whole)
        }
    }
}
