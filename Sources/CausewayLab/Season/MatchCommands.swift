import LiveActivity

/// The commands of one match. Each is built once, and sent to each follower of the match or to their audience.
struct MatchCommands {
    static let app = "com.example.cricket"
    static let attributesType = "MatchAttributes"

    /// The start: sent to each follower whose activity the server starts, or once to the devices in the audience.
    var start: CommandTemplate
    /// The commands after the start, one for each step: a ball, or the end of the match.
    var steps: [CommandTemplate]
    /// The state that the phones show at the end.
    let finalState: MatchState

    /// The id of a follower's activity is `activityPrefix` and the follower's number. The id of the follower's device
    /// is `devicePrefix` and this number.
    static func activityPrefix(of match: Match) -> String { "\(match.identifier)-" }
    static func devicePrefix(of match: Match) -> String { "phone-\(match.identifier)-" }

    /// The id of a command to one follower is this prefix and the follower's number.
    static func identifierPrefix(of match: Match, sequence: Int) -> String {
        "\(sequence)/\(activityPrefix(of: match))"
    }

    /// - Parameter hasIdentifiers: whether the commands have ids. Without an id, a command is known by the topic,
    ///   partition and offset of its record.
    init(_ match: Match, steps matchSteps: [MatchStep], hasIdentifiers: Bool = false) {
        precondition(!matchSteps.isEmpty, "a match has an end at least")
        let prefix = Self.activityPrefix(of: match)
        let opening = match.openingStep
        start = CommandTemplate(
            activityPrefix: prefix,
            devicePrefix: Self.devicePrefix(of: match),
            identifierPrefix: hasIdentifiers ? Self.identifierPrefix(of: match, sequence: 0) : nil
        ) { placeholders in
            Self.makeRecord(placeholders, event: "start", sequence: 0, step: opening) {
                Self.writeStart(of: match, activity: placeholders.activity, to: &$0)
            }
        }
        steps = matchSteps.enumerated()
            .map { index, step in
                let event = index + 1 == matchSteps.count ? "end" : "update"
                return CommandTemplate(
                    activityPrefix: prefix,
                    identifierPrefix: hasIdentifiers ? Self.identifierPrefix(of: match, sequence: index + 1) : nil
                ) { placeholders in
                    Self.makeRecord(placeholders, event: event, sequence: index + 1, step: step) { _ in }
                }
            }
        finalState = matchSteps[matchSteps.count - 1].state
    }

    /// Makes the commands to the audience of the match's followers.
    init(toAudienceOf match: Match, steps matchSteps: [MatchStep]) {
        precondition(!matchSteps.isEmpty, "a match has an end at least")
        let audience = Self.audience(ofMatch: match.identifier)
        start = CommandTemplate(audience: audience) { timestamp in
            Self.makeRecord(
                timestamp: timestamp,
                event: "start",
                sequence: 0,
                step: match.openingStep,
                address: { json in
                    json.member("audience", audience)
                    json.member(
                        "activity",
                        Self.activityIdentifier(onDevice: ActivityIdentifierTemplate.placeholder.description)
                    )
                },
                startMembers: { Self.writeStart(of: match, activity: nil, to: &$0) }
            )
        }
        steps = matchSteps.enumerated()
            .map { index, step in
                CommandTemplate(audience: audience) { timestamp in
                    Self.makeRecord(
                        timestamp: timestamp,
                        event: index + 1 == matchSteps.count ? "end" : "update",
                        sequence: index + 1,
                        step: step,
                        address: { $0.member("audience", audience) },
                        startMembers: { _ in }
                    )
                }
            }
        finalState = matchSteps[matchSteps.count - 1].state
    }

    static func audience(ofMatch identifier: String) -> String { "match-\(identifier)" }

    /// Returns the id that an app chooses for the first activity on a device if the attributes of the start contain
    /// none.
    static func activityIdentifier(onDevice device: String) -> String { "\(device)-\(attributesType)-0" }

    /// Returns the `ActivityAttributes`, which never change during an activity's life.
    ///
    /// - Parameter activity: the id that the app must use for the activity of a start. Nil: the app chooses the id,
    ///   because one start goes to many devices.
    static func attributes(of match: Match, activity: String?) -> [(name: StaticString, value: String)] {
        var attributes: [(name: StaticString, value: String)] = [
            ("match", match.identifier), ("home", match.teams[0]), ("away", match.teams[1]), ("venue", match.venue),
        ]
        if let activity { attributes.insert(("activity", activity), at: 0) }
        return attributes
    }

    private static func writeStart(of match: Match, activity: String?, to aps: inout JSONWriter) {
        aps.member("attributes-type", attributesType)
        aps.member("attributes") { json in
            for (name, value) in attributes(of: match, activity: activity) { json.member(name, value) }
        }
        aps.member("input-push-token", 1)
    }

    private static func makeRecord(
        _ placeholders: CommandTemplate.Placeholders,
        event: String,
        sequence: Int,
        step: MatchStep,
        startMembers: (inout JSONWriter) -> Void
    ) -> [UInt8] {
        makeRecord(
            timestamp: placeholders.timestamp,
            event: event,
            sequence: sequence,
            step: step,
            address: { json in
                json.member("activity", placeholders.activity)
                if let device = placeholders.device { json.member("device", device) }
                if let identifier = placeholders.identifier { json.member("id", identifier) }
            },
            startMembers: startMembers
        )
    }

    private static func makeRecord(
        timestamp: [UInt8],
        event: String,
        sequence: Int,
        step: MatchStep,
        address: (inout JSONWriter) -> Void,
        startMembers: (inout JSONWriter) -> Void
    ) -> [UInt8] {
        JSONWriter.object { json in
            json.member("app", app)
            address(&json)
            json.member("sequence", sequence)
            json.member("aps") { aps in
                aps.member("timestamp", verbatim: timestamp)
                aps.member("event", event)
                startMembers(&aps)
                aps.member("content-state") { step.state.write(to: &$0) }
                if let alert = step.alert {
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
