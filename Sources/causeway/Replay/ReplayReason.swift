/// What a replay decides about a command of the range, and why.
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
    /// The workers have not committed the command's offset and will read the command themselves. If the replay wrote
    /// such commands again, the workers' backlog would double.
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

    /// The first words of this reason's line in a report with `--execute`, after the replay has sent the commands.
    var titleWhenSent: String {
        switch self {
        case .send: "sent"
        case .sendAgain: "sent again"
        default: title
        }
    }

    /// The first words of this reason's line in a report without `--execute`, which sends nothing.
    var title: String {
        switch self {
        case .send: "would be sent"
        case .sendAgain: "would be sent again"
        case .supersededInRange: "superseded in the range"
        case .superseded: "older than what is known"
        case .duplicate: "duplicate"
        case .unchanged: "unchanged"
        case .underWay: "under way"
        case .unread: "still to be read"
        case .held: "held"
        case .tokenUnknown: "token unknown"
        case .startLeftOut: "start, left out"
        case .startTooOld: "start, too old"
        case .expired: "expired"
        case .activityOver: "activity over"
        case .activityUnknown: "activity unknown, too old"
        case .audienceCommandTooOld: "audience over"
        case .ended: "activity ended"
        case .invalid: "invalid"
        case .registration: "registration"
        case .tableFull: "not looked at"
        }
    }

    var explanation: String {
        switch self {
        case .send: "the newest of its activity or audience, and newer than anything that Redis knows"
        case .sendAgain: "the newest, which expired or failed and was never shown"
        case .supersededInRange: "a newer command of its activity or audience is in the range"
        case .superseded: "Redis knows a newer command of its activity or audience"
        case .duplicate: "Redis knows that it was sent or has ended"
        case .unchanged: "the activity shows it already"
        case .underWay: "a worker is about to send it"
        case .unread: "the workers have not committed its offset: wait, then run this again"
        case .held: "it is kept in Redis until a token registers"
        case .tokenUnknown: "no token is registered"
        case .startLeftOut: "--starts sends those that Redis does not know"
        case .startTooOld: "older than the policy's startSeconds"
        case .expired: "past its own expiration"
        case .activityOver: "its activity began more than eight hours ago"
        case .activityUnknown: "older than an activity lives, and Redis knows nothing of it"
        case .audienceCommandTooOld: "older than the activities of an audience live"
        case .ended: "its activity or audience has ended"
        case .invalid: "not a command that a worker would take"
        case .registration: "not a command; replay rebuild --registrations reads the registrations topic"
        case .tableFull: "more activities and audiences than --memory has room for: narrow the range"
        }
    }
}

struct ReplayVerdict: Equatable {
    var reason: ReplayReason
    /// Whether the command would be sent without its alert, because the alert is too old.
    var dropsAlert = false
}
