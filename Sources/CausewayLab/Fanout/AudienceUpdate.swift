/// A command of a fan-out run. The first command is a goal with an alert. The second one is a score without an alert,
/// and may overtake the first one.
struct AudienceUpdate {
    /// The id of the command, which results name.
    let identifier: String
    /// The number of the command in its run: 1 or 2.
    let number: Int
    /// The `aps.timestamp`, UNIX seconds.
    let timestamp: Int64

    init(number: Int, timestamp: Int64) {
        self.number = number
        self.timestamp = timestamp
        identifier = "fanout-\(number)"
    }

    var contentState: [String: Any] {
        [
            "home": ["name": "Royal Challengers", "score": 2, "scorers": ["Kapoor 12", "Nair 71"]],
            "away": ["name": "Super Kings", "score": number, "scorers": ["Mehta 40"]],
            "minute": 70 + number, "period": "second half", "possession": 54.5,
        ]
    }

    private var aps: [String: Any] {
        var aps: [String: Any] = [
            "event": "update", "timestamp": timestamp, "content-state": contentState, "relevance-score": 80,
            "stale-date": timestamp + 600,
        ]
        if number == 1 {
            aps["alert"] = ["title": "Goal for the Royal Challengers", "body": "Nair, 71: 2 to 1", "sound": "default"]
        }
        return aps
    }

    /// Returns the record as JSON.
    func makeRecord() throws(LabError) -> [UInt8] {
        try LabJSON.encode([
            "app": FanoutDeployment.app, "audience": FanoutCrowd.audience, "id": identifier, "sequence": number,
            "priority": 10, "aps": aps,
        ])
    }

    /// Returns the body of the command's pushes.
    func makeBody() throws(LabError) -> [UInt8] { try LabJSON.encode(["aps": aps]) }
}
