/// What a replay decides about one of the commands that it reads, and why.
enum ReplayReason: String, CaseIterable {
    /// A worker would send the command: Redis knows no newer one of its activity or audience.
    case send
    /// Redis knows that the command expired or failed, so the activity never showed it.
    case sendAgain
    case supersededInRange
    case superseded
    case duplicate
    case unchanged
    case underWay
    /// The workers have not committed the command's offset, so they will read the command themselves. A second copy of
    /// each such command would double their backlog.
    case unread
    case held
    case tokenUnknown
    case startLeftOut
    case startTooOld
    case expired
    case activityOver
    case activityUnknown
    case audienceCommandTooOld = "audienceOver"
    case ended
    case invalid
    case registration
    case tableFull

    var leadsToSending: Bool { self == .send || self == .sendAgain }

    /// The beginning of this reason's line in a report after the replay has sent the commands (`--execute`).
    var titleWhenSent: String {
        switch self {
        case .send: "sent"
        case .sendAgain: "sent again"
        default: title
        }
    }

    /// The beginning of this reason's line in a report without `--execute`.
    var title: String {
        switch self {
        case .send: "would be sent"
        case .sendAgain: "would be sent again"
        case .supersededInRange: "superseded in the range"
        case .superseded: "older than in Redis"
        case .duplicate: "duplicate"
        case .unchanged: "unchanged"
        case .underWay: "being sent"
        case .unread: "still to be read"
        case .held: "held"
        case .tokenUnknown: "token unknown"
        case .startLeftOut: "start, skipped"
        case .startTooOld: "start, too old"
        case .expired: "expired"
        case .activityOver: "activity too old"
        case .activityUnknown: "activity unknown, too old"
        case .audienceCommandTooOld: "audience command too old"
        case .ended: "activity ended"
        case .invalid: "invalid"
        case .registration: "registration"
        case .tableFull: "not checked"
        }
    }

    var explanation: String {
        switch self {
        case .send: "the newest of its activity or audience, and newer than the version in Redis"
        case .sendAgain: "the newest; it expired or failed, and was never shown"
        case .supersededInRange: "a newer command of its activity or audience is in the range"
        case .superseded: "Redis knows a newer command of its activity or audience"
        case .duplicate: "according to Redis, it was sent, or has another final outcome"
        case .unchanged: "the activity already shows this state"
        case .underWay: "a worker is sending it"
        case .unread: "the workers have not committed its offset: wait, then run this command again"
        case .held: "Redis keeps it until a token is registered"
        case .tokenUnknown: "no token is registered"
        case .startLeftOut: "with --starts, starts that Redis does not know are sent"
        case .startTooOld: "older than the policy's startSeconds"
        case .expired: "its expiration has passed, or it is older than an activity can be"
        case .activityOver: "its activity began more than eight hours ago"
        case .activityUnknown: "older than an activity can be, and Redis does not know the activity"
        case .audienceCommandTooOld: "older than an audience's activities can be"
        case .ended: "its activity or audience has ended"
        case .invalid: "not a command that a worker would accept"
        case .registration: "not a command; replay rebuild --registrations reads the registrations topic"
        case .tableFull: "more activities and audiences than fit into --memory: choose a smaller range"
        }
    }
}

struct ReplayVerdict: Equatable {
    var reason: ReplayReason
    /// Whether the command would be sent without its alert, because the alert is too old.
    var dropsAlert = false
}
