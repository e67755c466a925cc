import APNsSimulator
import Foundation
import Kafka

/// A crowd of simulated phones. Each phone takes a few bytes in the simulator. A crowd has one of three uses: its
/// phones are the members of the audience, or get single commands, or get the pushes of h2load. This type makes the
/// phones' registrations, as an app's server does.
struct FanoutCrowd {
    static let membersMax = 10_000_000
    static let audience = "final"
    /// Every fourth member permits frequent updates. For these members, the policy's `frequentBudget` decides the
    /// priority of pushes, for the others the `budget`. So the run uses both budgets.
    private static let frequentUpdatesEveryNthPhone = 4

    /// The simulator's response about what its phones show.
    struct CrowdReport {
        /// Phones that show the content that the report is about.
        var matchingPhoneCount = 0
        /// When the last push with this content arrived, UNIX milliseconds; 0 before the first.
        var lastPushAtMilliseconds: Int64 = 0
        var pushCount = 0
        /// Phones that got an old push: it was older than the content that they showed.
        var outdatedPushPhoneCount = 0
        /// Phones on which an alert rang again.
        var repeatedAlertPhoneCount = 0
        /// The number of alerts that rang, summed over all phones.
        var alertCount = 0
    }

    let compactCrowd: CompactCrowd
    private let client: LoopbackHTTPClient

    init(
        phoneCount: Int,
        name: String,
        contentTimestamp timestamp: Int64,
        audiences: [String] = [audience],
        client: LoopbackHTTPClient
    ) {
        var crowd = CompactCrowd(app: FanoutDeployment.app, name: name, phoneCount: phoneCount)
        crowd.audiences = audiences
        crowd.environment = .sandbox
        crowd.frequentUpdatesEveryNthPhone = Self.frequentUpdatesEveryNthPhone
        crowd.identifierForm = .uuid
        crowd.timestamp = timestamp
        compactCrowd = crowd
        self.client = client
    }

    func createPhones() throws(LabError) {
        try client.requestObject(
            "POST",
            "/crowds",
            [
                "app": compactCrowd.app, "name": compactCrowd.name, "count": compactCrowd.phoneCount,
                "audiences": compactCrowd.audiences,
                "environment": compactCrowd.environment.rawValue,
                "frequentEvery": compactCrowd.frequentUpdatesEveryNthPhone,
                "identifiers": compactCrowd.identifierForm.rawValue, "timestamp": compactCrowd.timestamp,
            ]
        )
    }

    func makeRegistration(_ number: Int, registeredAtMilliseconds: Int64) -> RegistrationRecord {
        compactCrowd.registration(number, registeredAtMilliseconds: registeredAtMilliseconds)
    }

    /// Asks the simulator what the phones of the crowd show, and how many of them show `content`.
    func readReport(about content: [String: Any]) throws(LabError) -> CrowdReport {
        let object = try client.requestObject("GET", "/crowd?app=\(compactCrowd.app)&name=\(compactCrowd.name)")
        guard let shown = object["shown"] as? [[String: Any]], let pushCount = object["pushes"] as? Int,
            let outdatedPushPhoneCount = object["reversed"] as? Int,
            let repeatedAlertPhoneCount = object["alertedTwice"] as? Int,
            let alertCount = object["alerts"] as? Int
        else { throw LabError("the simulator's response about the crowd has an unexpected form") }
        var report = CrowdReport(
            pushCount: pushCount,
            outdatedPushPhoneCount: outdatedPushPhoneCount,
            repeatedAlertPhoneCount: repeatedAlertPhoneCount,
            alertCount: alertCount
        )
        for state in shown {
            guard let shownContent = state["contentState"] as? [String: Any],
                NSDictionary(dictionary: shownContent) == NSDictionary(dictionary: content)
            else { continue }
            report.matchingPhoneCount += state["phones"] as? Int ?? 0
            report.lastPushAtMilliseconds = max(report.lastPushAtMilliseconds, state["lastMilliseconds"] as? Int64 ?? 0)
        }
        return report
    }

    static func declareApp(_ client: LoopbackHTTPClient) throws(LabError) {
        try client.requestObject("POST", "/apps", ["app": FanoutDeployment.app, "attributesTypes": [String]()])
    }
}
