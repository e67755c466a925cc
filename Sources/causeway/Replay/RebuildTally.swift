import enum CausewayRecords.JSONValue

/// Counts what a rebuild of Redis wrote, or would write.
struct RebuildTally {
    enum Counter: String, CaseIterable {
        case registrationsWritten, registrationsStale
        case registrationsTooOld = "registrationsOver"
        case registrationsInvalid, unregistered
        case statesWritten, statesHeld, statesKnown, statesTooOld
        case startsSkipped = "startsPassedOver"
        case statesUnread, statesNotLookedAt
        case membersJoined, membersLeft, audiencesWritten, audiencesKnown
        case heldWithToken

        var title: String {
            switch self {
            case .registrationsWritten: "registrations written"
            case .registrationsStale: "registrations known"
            case .registrationsTooOld: "registrations over"
            case .registrationsInvalid: "registrations invalid"
            case .unregistered: "unregistrations"
            case .statesWritten: "states written"
            case .statesHeld: "states held"
            case .statesKnown: "states known"
            case .statesTooOld: "states too old"
            case .startsSkipped: "starts passed over"
            case .statesUnread: "still to be read"
            case .statesNotLookedAt: "not looked at"
            case .membersJoined: "members joined"
            case .membersLeft: "members left"
            case .audiencesWritten: "audiences written"
            case .audiencesKnown: "audiences known"
            case .heldWithToken: "held, with a token"
            }
        }

        var explanation: String {
            switch self {
            case .registrationsWritten: "tokens that Redis knows now"
            case .registrationsStale: "Redis knows a later one"
            case .registrationsTooOld: "older than an activity or a push-to-start token lives"
            case .registrationsInvalid: "not a registration that a worker would take"
            case .unregistered: "tombstones"
            case .statesWritten: "newest commands that Redis knows now, as sent"
            case .statesHeld: "newest commands without a token, kept for it without their alerts"
            case .statesKnown: "Redis knows them, or newer ones"
            case .membersJoined: "activities and devices, in the audiences that their registrations name"
            case .membersLeft: "left an audience by a later registration, an unregistration or an end"
            case .audiencesWritten: "newest commands to audiences that Redis knows now, as sent"
            case .audiencesKnown: "Redis knows these commands to audiences, or newer ones"
            case .statesTooOld: "older than an activity lives, or past their expiration"
            case .startsSkipped: "an activity's registration shows whether it began"
            case .statesUnread: "the workers have not committed their offsets and will read them"
            case .statesNotLookedAt: "more activities than --memory has room for"
            case .heldWithToken: "their tokens are known again: causeway replay send sends them"
            }
        }
    }

    private(set) var counts: [Counter: Int] = [:]

    var hasCounts: Bool { !counts.isEmpty }

    mutating func count(_ counter: Counter, _ addedCount: Int = 1) {
        if addedCount > 0 { counts[counter, default: 0] += addedCount }
    }

    subscript(_ counter: Counter) -> Int { counts[counter] ?? 0 }

    /// - Parameter isDone: false if nothing was written. The counts then say what `--execute` would write.
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
