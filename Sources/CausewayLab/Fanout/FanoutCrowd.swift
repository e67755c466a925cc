import APNsSimulator
import Foundation
import Kafka

/// The members of the audience: light phones of the simulator, whose registrations are written here as their app's server would.
struct FanoutCrowd {
    static let membersMax = 10_000_000
    static let audience = "final"
    /// Which of them have frequent updates: two priorities come out of an admission.
    private static let frequentEvery = 4

    /// What its phones show, in one answer of the simulator.
    struct Answer {
        /// Phones that show the content that was asked about.
        var showing = 0
        /// UNIX milliseconds of the last push of it; 0 before the first.
        var lastMilliseconds: Int64 = 0
        var pushes = 0
        var reversed = 0
        var alertedTwice = 0
        /// Alerts that were heard, in all.
        var alerts = 0
    }

    let crowd: LightCrowd
    private let client: ControlClient

    init(
        members: Int,
        name: String,
        shownSince timestamp: Int64,
        audiences: [String] = [audience],
        client: ControlClient
    ) {
        var crowd = LightCrowd(app: FanoutStage.app, name: name, count: members)
        crowd.audiences = audiences
        crowd.environment = .sandbox
        crowd.frequentEvery = Self.frequentEvery
        crowd.identifiers = .uuid
        crowd.timestamp = timestamp
        self.crowd = crowd
        self.client = client
    }

    /// Makes the phones.
    func gather() throws(LabError) {
        _ = try post(
            "/crowds",
            [
                "app": crowd.app, "name": crowd.name, "count": crowd.count, "audiences": crowd.audiences,
                "environment": crowd.environment.rawValue, "frequentEvery": crowd.frequentEvery,
                "identifiers": crowd.identifiers.rawValue, "timestamp": crowd.timestamp,
            ]
        )
    }

    func record(_ number: Int, registeredAtMilliseconds: Int64) -> RegistrationRecord {
        crowd.registration(number, registeredAtMilliseconds: registeredAtMilliseconds)
    }

    func ask(about content: [String: Any]) throws(LabError) -> Answer {
        let object = try object(try client.body("GET", "/crowd?app=\(crowd.app)&name=\(crowd.name)"))
        guard let shown = object["shown"] as? [[String: Any]], let pushes = object["pushes"] as? Int,
            let reversed = object["reversed"] as? Int, let alertedTwice = object["alertedTwice"] as? Int,
            let alerts = object["alerts"] as? Int
        else { throw LabError("the simulator's answer about the crowd is not what was agreed on") }
        var answer = Answer(pushes: pushes, reversed: reversed, alertedTwice: alertedTwice, alerts: alerts)
        for state in shown {
            guard let other = state["contentState"] as? [String: Any],
                NSDictionary(dictionary: other) == NSDictionary(dictionary: content)
            else { continue }
            answer.showing += state["phones"] as? Int ?? 0
            answer.lastMilliseconds = max(answer.lastMilliseconds, state["lastMilliseconds"] as? Int64 ?? 0)
        }
        return answer
    }

    /// Makes the app of the crowd known to the simulator.
    static func declareApp(_ client: ControlClient) throws(LabError) {
        let body = Array(#"{"app":"\#(FanoutStage.app)","attributesTypes":[]}"#.utf8)
        _ = try client.body("POST", "/apps", body: body)
    }

    private func post(_ target: String, _ body: [String: Any]) throws(LabError) -> [String: Any] {
        guard let json = try? JSONSerialization.data(withJSONObject: body) else {
            throw LabError("\(target): the body is no JSON")
        }
        return try object(try client.body("POST", target, body: Array(json)))
    }

    private func object(_ json: [UInt8]) throws(LabError) -> [String: Any] {
        guard let object = try? JSONSerialization.jsonObject(with: Data(json)) as? [String: Any] else {
            throw LabError("the simulator's answer is no JSON object")
        }
        return object
    }
}
