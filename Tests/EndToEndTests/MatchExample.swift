import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// The match example: three phones follow a match, and their registrations have joined the audience.
final class MatchExample {
    let run: ExampleRun
    let files = ExampleFiles("match")
    let app: String
    let followers: [String]
    /// The number of registrations that the phones have made so far.
    private var registrationCount: Int

    init(_ run: ExampleRun) throws {
        self.run = run
        let phones = try files.object("phones.json")
        let starts = try files.object("app-starts.json")
        try run.post("/phones", phones)
        try run.post("/activities", starts)
        app = try #require(phones["app"] as? String)
        followers = try #require(starts["activities"] as? [JSONObject]).compactMap { $0["activity"] as? String }
        registrationCount = try #require(phones["devices"] as? [String]).count + followers.count
        try awaitRegistrations()
    }

    /// Gives an activity another token, which its app registers.
    func rotateToken(of activity: String) throws {
        registrationCount += 1
        try run.post("/rotate", ["app": app, "activity": activity])
        try awaitRegistrations()
    }

    /// Waits until all registrations are settled. From then on the audience has its members.
    private func awaitRegistrations() throws {
        try run.relayRegistrations(until: registrationCount)
        try run.awaitMetrics("\(registrationCount) registrations that are settled") {
            $0.sum("causeway_records_received_total", ["topic": "registrations"]) == Double(registrationCount)
                && $0.sum("causeway_records_in_progress") == 0 && $0.highest("causeway_oldest_unsettled_seconds") == 0
        }
    }

    /// Waits until a command to the audience has the result that covers all its ranges.
    func awaitTotalResult(of command: String) throws {
        try eventually("the result of \(command): \(run.results.byCommand[command] ?? [])", every: .zero) {
            if (run.results.byCommand[command] ?? []).contains(where: { $0["ranges"] != nil }) { return true }
            // Waits for the next result.
            try run.takeResults(milliseconds: 20)
            return false
        }
    }
}
