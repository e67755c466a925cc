import enum CausewayRecords.JSONValue

/// Counts what a rebuild of Redis wrote, or would write.
struct RebuildTally {
    /// What is counted. The raw values are the names in JSON.
    enum Counter: String, CaseIterable {
        case registrationsWritten, registrationsStale, registrationsOver, registrationsInvalid, unregistered
        case statesWritten, statesHeld, statesKnown, statesTooOld
        case startsPassedOver, statesUnread, statesNotLookedAt
        case membersJoined, membersLeft, audiencesWritten, audiencesKnown
        case heldWithToken

        var title: String {
            switch self {
            case .registrationsWritten: "registrations written"
            case .registrationsStale: "registrations already known"
            case .registrationsOver: "registrations too old"
            case .registrationsInvalid: "registrations invalid"
            case .unregistered: "unregistrations"
            case .statesWritten: "states written"
            case .statesHeld: "states held"
            case .statesKnown: "states already known"
            case .statesTooOld: "states too old"
            case .startsPassedOver: "starts skipped"
            case .statesUnread: "still to be read"
            case .statesNotLookedAt: "not checked"
            case .membersJoined: "members joined"
            case .membersLeft: "members left"
            case .audiencesWritten: "audiences written"
            case .audiencesKnown: "audiences already known"
            case .heldWithToken: "held, with a token"
            }
        }

        var explanation: String {
            switch self {
            case .registrationsWritten: "tokens that Redis has now"
            case .registrationsStale: "Redis has a later one"
            case .registrationsOver: "older than an activity or a push-to-start token can be"
            case .registrationsInvalid: "not a registration that a worker would accept"
            case .unregistered: "tombstones"
            case .statesWritten: "newest commands that Redis now has as sent"
            case .statesHeld: "newest commands without a token; Redis holds them without their alerts"
            case .statesKnown: "Redis already has them, or newer ones"
            case .membersJoined: "activities and devices, in the audiences that their registrations name"
            case .membersLeft: "left an audience by a later registration, an unregistration or an end"
            case .audiencesWritten: "newest commands to audiences that Redis now has as sent"
            case .audiencesKnown: "Redis already has these commands to audiences, or newer ones"
            case .statesTooOld: "older than an activity can be, or past their expiration"
            case .startsPassedOver: "an activity's registration shows whether it began"
            case .statesUnread: "the workers have not committed their offsets and will read them"
            case .statesNotLookedAt: "more activities than fit into --memory"
            case .heldWithToken: "their tokens are registered again; causeway replay send sends them"
            }
        }
    }

    private(set) var counts: [Counter: Int] = [:]

    var hasCounts: Bool { !counts.isEmpty }

    mutating func count(_ counter: Counter, _ addedCount: Int = 1) {
        if addedCount > 0 { counts[counter, default: 0] += addedCount }
    }

    subscript(_ counter: Counter) -> Int { counts[counter] ?? 0 }

    /// Returns the table that the command prints, line by line.
    ///
    /// - Parameter isDone: whether the rebuild has written. If not, the lines say what `--execute` would write.
    func lines(isDone: Bool) -> [String] {
        var lines = LabelledLines()
        let rows = Counter.allCases.filter { self[$0] > 0 }.map { [$0.title, "\(self[$0])", $0.explanation] }
        lines.addTable(header: ["", isDone ? "records" : "would be", ""], rows: rows, rightAligned: [1])
        return lines.lines
    }

    var json: JSONValue {
        .object(Dictionary(uniqueKeysWithValues: counts.map { ($0.key.rawValue, .integer(Int64($0.value))) }))
    }
}
