import LiveActivity

/// The commands of one match, each built once for all its followers.
struct MatchRecords {
    static let app = "com.example.cricket"
    static let attributesType = "MatchAttributes"

    /// For followers whose activity the server starts.
    var start: CommandTemplate
    /// One for each ball, and the end of the match.
    var frames: [CommandTemplate]
    /// What the phones show when all is over.
    let finalState: MatchState

    /// Activities of a match are numbered behind this, devices likewise.
    static func activityPrefix(of match: Match) -> String { "\(match.identifier)-" }
    static func devicePrefix(of match: Match) -> String { "phone-\(match.identifier)-" }

    /// What identifies a command that is given an id: this and the follower's number.
    static func identifierPrefix(of match: Match, sequence: Int) -> String {
        "\(sequence)/\(activityPrefix(of: match))"
    }

    /// - Parameter identifies: whether the commands have ids of their own; else they are named by their place in the topic.
    init(_ match: Match, frames matchFrames: [MatchFrame], identifies: Bool = false) {
        precondition(!matchFrames.isEmpty, "a match has an end at least")
        let prefix = Self.activityPrefix(of: match)
        let opening = match.openingFrame
        start = CommandTemplate(
            activityPrefix: prefix,
            devicePrefix: Self.devicePrefix(of: match),
            identifierPrefix: identifies ? Self.identifierPrefix(of: match, sequence: 0) : nil
        ) { places in
            Self.record(places, event: "start", sequence: 0, frame: opening) { aps in
                aps.member("attributes-type", Self.attributesType)
                aps.member("attributes") { json in
                    for (name, value) in Self.attributes(of: match, activity: places.activity) {
                        json.member(name, value)
                    }
                }
                aps.member("input-push-token", 1)
            }
        }
        frames = matchFrames.enumerated()
            .map { index, frame in
                let event = index + 1 == matchFrames.count ? "end" : "update"
                return CommandTemplate(
                    activityPrefix: prefix,
                    identifierPrefix: identifies ? Self.identifierPrefix(of: match, sequence: index + 1) : nil
                ) { places in
                    Self.record(places, event: event, sequence: index + 1, frame: frame) { _ in }
                }
            }
        finalState = matchFrames[matchFrames.count - 1].state
    }

    /// What never changes while the activity lives: its `ActivityAttributes`. By its id the app knows an activity that a
    /// push has started.
    static func attributes(of match: Match, activity: String) -> [(name: StaticString, value: String)] {
        [
            ("activity", activity), ("match", match.identifier), ("home", match.teams[0]), ("away", match.teams[1]),
            ("venue", match.venue),
        ]
    }

    private static func record(
        _ places: CommandTemplate.Places,
        event: String,
        sequence: Int,
        frame: MatchFrame,
        more: (inout JSONWriter) -> Void
    ) -> [UInt8] {
        JSONWriter.object { json in
            json.member("app", app)
            json.member("activity", places.activity)
            if let device = places.device { json.member("device", device) }
            if let identifier = places.identifier { json.member("id", identifier) }
            json.member("sequence", sequence)
            json.member("aps") { aps in
                aps.member("timestamp", verbatim: places.timestamp)
                aps.member("event", event)
                more(&aps)
                aps.member("content-state") { frame.state.write(to: &$0) }
                if let alert = frame.alert {
                    aps.member("alert") { json in
                        json.member("title", alert.title)
                        json.member("body", alert.body)
                        json.member("sound", "default")
                    }
                }
            }
        }
    }
}
