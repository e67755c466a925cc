/// What became of a command, as its result record says.
///
/// This file has all facts about an outcome, except its effects in the core (`Outcome+Effects.swift`). `make records`
/// writes from it what schemas, pages, `CausewayRecords` and the checks of recorded runs say about outcomes. No switch
/// has a `default`, so that the compiler asks for each fact of a new outcome.
public enum Outcome: UInt8, CaseIterable, Sendable, BitwiseCopyable {
    /// APNs responded with 200. This does not promise that the device shows the state.
    case accepted
    /// The state differs only in its timestamp from what the activity, or the audience, shows.
    case unchanged
    /// This version has been settled already, or another record with this version is in progress.
    case duplicate
    /// The command is not needed any more, for one of these reasons:
    /// - A newer version replaced this one before APNs accepted it.
    /// - It is an end, and a newer start has begun the activity again (R13).
    /// - It is a start, and its activity already lives without it.
    /// - It is a lifetime command (R35) that is no longer needed, for example because the producer has ended the
    ///   activity.
    case superseded
    /// There is no token, or APNs reports that the update token is dead. Redis keeps the newest state, or the
    /// start, until a token registers.
    case held
    /// The activity, or the audience, has ended.
    case ended
    /// The command is too late, for one of these reasons:
    /// - Its expiration passed before it was sent.
    /// - It is a start or a command to an audience, and became too old (R20).
    /// - It is too old for any phone to show its activity, and Redis does not know the activity.
    /// - It is too old for any phone to show its activity, and has no expiration of its own.
    /// - It is the end of a lifetime, and Redis has no token.
    /// - It restarts an activity, and the policy does not restart activities any more.
    case expired
    /// The record is wrong, or it names something wrong, such as an app that is not configured.
    case invalid
    /// The token is dead, and the command is a start, the end of a lifetime, or a push to a member: such a command is
    /// not held.
    case unregistered
    /// The command cannot be sent for a reason that no retry removes, most often because APNs or Redis refused it. The
    /// result has the reason.
    case failed
    /// A start may have been sent, and its response is not known. It is not sent again, because a second push could
    /// begin a second activity. (R16)
    case unknown

    private var definition: (name: StaticString, isFinal: Bool, isError: Bool, reachesPhone: Bool) {
        switch self {
        case .accepted: (name: "accepted", isFinal: true, isError: false, reachesPhone: true)
        case .unchanged: (name: "unchanged", isFinal: true, isError: false, reachesPhone: true)
        case .duplicate: (name: "duplicate", isFinal: true, isError: false, reachesPhone: true)
        case .superseded: (name: "superseded", isFinal: true, isError: false, reachesPhone: true)
        case .held: (name: "held", isFinal: false, isError: false, reachesPhone: false)
        case .ended: (name: "ended", isFinal: true, isError: false, reachesPhone: false)
        case .expired: (name: "expired", isFinal: true, isError: false, reachesPhone: false)
        case .invalid: (name: "invalid", isFinal: true, isError: true, reachesPhone: false)
        case .unregistered: (name: "unregistered", isFinal: true, isError: true, reachesPhone: false)
        case .failed: (name: "failed", isFinal: true, isError: true, reachesPhone: false)
        case .unknown: (name: "unknown", isFinal: true, isError: true, reachesPhone: false)
        }
    }

    /// The name in result records.
    public var name: StaticString { definition.name }

    /// Whether this outcome is the last one of its command. After `held`, another outcome may follow.
    public var isFinal: Bool { definition.isFinal }

    /// Whether something went wrong, so that a trace of the command shows an error.
    public var isError: Bool { definition.isError }

    /// Whether a phone has or gets the command's content, or a newer one. If it does not after a final outcome, the
    /// checks of recorded runs accept that no phone ever shows the content.
    package var reachesPhone: Bool { definition.reachesPhone }

    /// What the outcome means to a producer, in Markdown.
    package var meaning: StaticString {
        switch self {
        case .accepted: "APNs responded with 200. The phone may still drop the push."
        case .unchanged: "Nothing but the timestamp differs from what the activity shows."
        case .duplicate: "This version is already settled, or another record with this version is in progress."
        case .superseded:
            """
            A newer command replaced this one before it was sent. If this one had an alert, the newer state \
            carries it, unless that state has a newer alert or `reason` says otherwise. Or the command is an \
            end, and a newer start has begun the activity again. Or it is a start, and its activity already lives.
            """
        case .held:
            """
            No token is registered, or APNs says that the token is dead. The newest state, or the start, waits for \
            the next registration, and then has another result. It has no other result if no token registers, or if \
            a newer command replaces it. A start also has no other result if Redis loses it, or if it expires and \
            gives up its place to another start (`heldStartsFull`).
            """
        case .ended: "The activity has ended, so nothing can change it."
        case .expired: "The command expired or became too old before APNs accepted it."
        case .invalid:
            "The record is invalid. `reason` has the code, and the dead letter has the record and the details."
        case .unregistered:
            """
            The token is dead, and the command is not held, because it is a start, an end of a lifetime, or a \
            push to a member of an audience.
            """
        case .failed:
            "The command cannot be sent for a reason that no retry removes, such as a refusal by APNs or Redis."
        case .unknown:
            """
            A start was sent, and its response was lost. The activity may exist. The start is not sent again, \
            because this could start a second activity.
            """
        }
    }

    /// What the producer should do, in Markdown of `Documentation/records.md`.
    package var recommendedAction: StaticString {
        switch self {
        case .accepted: "Nothing. If the phone shows nothing new, see [Traps](#traps)."
        case .unchanged: "Nothing."
        case .duplicate:
            "Nothing, unless a newer state had the same version. Then write it again with a higher `sequence`."
        case .superseded:
            """
            Nothing. If the end was for the activity that the newer start began, send it again with a later \
            timestamp.
            """
        case .held: "If this continues, check whether the app registers its tokens."
        case .ended: "Send no more commands to it. Only a start begins it again."
        case .expired:
            """
            With a `reason`, do what [Reasons](#reasons) says: `activityUnknown` can mean a wrong id. \
            Otherwise nothing for updates; for a start or an end, decide whether to send it again.
            """
        case .invalid: "Correct the producer. Check records with `causeway check --commands`."
        case .unregistered: "Delete the token. The app registers a new one when it runs."
        case .failed:
            "Find `reason` in [Reasons](#reasons), which says what to do. Send the command again only after that."
        case .unknown: "Wait for the activity's registration. If none arrives, start another activity."
        }
    }
}
