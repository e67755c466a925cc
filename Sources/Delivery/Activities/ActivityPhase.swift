/// What an activity waits for. Only `Activities.enter` changes a phase. It traps, in release builds too, on a change
/// that `nextPhases` does not list. (R7)
///
/// An activity with a token usually goes this way for each command:
///
///     idle ─► admitting ─► ready ─► inFlight ─► idle
///
/// The comment of each case lists the next phases after *Next*. In addition, each phase with a current command leads to
/// `idle`. This happens when the command is finished, put back, deferred or dropped, or when its alert begins to wait
/// for a carrier.
enum ActivityPhase: UInt8 {
    /// The activity has no current command. Usually it is idle only while one method of the core runs:
    /// `beginNextCommand` then decides its next phase, or frees an activity that has no command and no wait. Exception:
    /// it stays idle while its only command is a lifetime command that has come back from the deferred topic, and Redis
    /// is asked whether this command is still permitted. Next:
    /// - `queuedToBegin` when a command joins the waiting list.
    /// - `takingStartToken` or `admitting` when the first waiting command begins.
    /// - `awaitingReadAhead` if the lane reads ahead.
    /// - `awaitingCredit` when the pool has no free credit.
    /// - `paused` when the first waiting command must not begin yet, or when the activity has another wait.
    case idle
    /// A command has just joined the waiting list. Next: `idle`, in `endBatch`, which then begins the command.
    case queuedToBegin
    /// The activity waits, with a timer, until the first of these times (`pauseOrFree` divides a long wait):
    /// - The delay of its next command ends (`earliestBeginAtMilliseconds`).
    /// - A deferred command should have come back from the deferred topic (`deferredStartWait`, `deferralWait`), or
    ///   Redis should have permitted a restart (`checkRestartAgain`).
    /// - The pause of a command that has come back from the deferred topic ends (`deferralWait`).
    /// - A command has waited long enough for a newer one that carries its alert (`commandAwaitingCarrier`).
    ///
    /// Next: `idle` when the timer fires, or when a lifetime command has left the lane after Redis' reply;
    /// `queuedToBegin` when a command arrives that may begin.
    case paused
    /// The next command may begin, but the lane reads ahead (R21). Next: `idle` when reading ahead ends.
    case awaitingReadAhead
    /// The next command may begin, but its pool has no free credit. Next:
    /// - `idle` when the pool has a free credit, when no command waits any more, or when the activity moves to another
    ///   pool.
    /// - `admitting` instead when the activity has a current command: a start that was in `awaitingService` before.
    case awaitingCredit
    /// A start asks Redis for the push-to-start token of its device. Next: `admitting`, or `requestingHold` when there
    /// is no token.
    case takingStartToken
    /// Redis decides about the current command. Redis may first name audiences that the activity left: the core then
    /// notifies them and asks again. Next:
    /// - `ready` when Redis allows the push.
    /// - `requestingHold` when there is no token.
    /// - `registeringToken` when the command's alert must wait for a newer command that Redis knows, and the command
    ///   brought a token.
    /// - `awaitingService` for a start whose Redis server is unavailable.
    case admitting
    /// Redis registers the token that the current command brought. The command's alert waits for a newer command that
    /// carries it: if Redis holds that command, the registration of the token releases it. Next: `idle`.
    case registeringToken
    /// The current command has no token. Redis is asked to hold the command until a token registers. Next:
    /// `takingStartToken` or `admitting` if a token has registered meanwhile.
    case requestingHold
    /// Redis has allowed the push, which waits for a free stream. Next: `inFlight`; `awaitingService` for a retry that
    /// the pool does not permit.
    case ready
    /// `takeNextPush` has returned the push, and its result is not known yet. Next: `ready` when no stream took the
    /// push. The result leads to `retiringToken`, `recordingThrottle`, `backingOff` or `awaitingService`.
    case inFlight
    /// APNs responded that the token is dead or unknown. Kafka gets the invalidation, and then Redis retires the token.
    /// Next:
    /// - `requestingHold` when Kafka and Redis have acknowledged this.
    /// - `idle` for a start or the end of a lifetime, when Kafka has acknowledged it.
    case retiringToken
    /// APNs limits the pushes to the token (429), and Redis makes the activity's spacing longer. Next:
    /// `awaitingService`.
    case recordingThrottle
    /// The push's result was `retrySoon`: it is retried when the timer fires, after a short time. Next: `ready`;
    /// `admitting` for a start; `queuedToBegin` or `paused` when another command replaces the current one.
    case backingOff
    /// The current command waits until the timer fires, and has no credit meanwhile. Its push failed for a reason that
    /// only delays it (R18), or the pool's retry budget is empty. A start may also wait here for the Redis server that
    /// admits it. Next:
    /// - `idle`, so that Redis admits the command again when its turn comes.
    /// - For a start instead: `admitting`, or `awaitingCredit` when the pool has no free credit.
    /// - `queuedToBegin` or `paused` when another command replaces the current one.
    case awaitingService

    // The properties below are read at each change of a phase. So they are inlined and only test bits.

    /// Whether an activity in this phase has a timer. The phase ends when the timer fires, if not before.
    @inline(__always) var hasTimer: Bool { self == .paused || isAwaitingRetry }

    /// Whether the current command waits for the timer before its next attempt.
    @inline(__always) var isAwaitingRetry: Bool { isOne(of: Self.backingOff.mask | Self.awaitingService.mask) }

    /// Whether the activity has one of its pool's credits, for its current command.
    @inline(__always) var hasCredit: Bool { isOne(of: Self.creditMask) }

    /// Whether an activity in this phase may have a current command. Entering any other phase clears the current
    /// command.
    @inline(__always)
    var mayHaveCurrentCommand: Bool {
        isOne(of: Self.creditMask | Self.awaitingCredit.mask | Self.awaitingService.mask)
    }

    /// Whether an activity may change from this phase to `next` (R7).
    @inline(__always) func canChange(to next: ActivityPhase) -> Bool { next.isOne(of: nextPhases) }

    @inline(__always) private func isOne(of phases: UInt16) -> Bool { phases & mask != 0 }

    @inline(__always) private var mask: UInt16 { 1 &<< UInt16(rawValue) }

    @inline(__always)
    private static var creditMask: UInt16 {
        takingStartToken.mask | admitting.mask | registeringToken.mask | requestingHold.mask | ready.mask
            | inFlight.mask | retiringToken.mask | recordingThrottle.mask | backingOff.mask
    }

    @inline(__always)
    private var nextPhases: UInt16 {
        let (idle, queuedToBegin, paused) = (Self.idle.mask, Self.queuedToBegin.mask, Self.paused.mask)
        let (awaitingCredit, takingStartToken, admitting) = (
            Self.awaitingCredit.mask, Self.takingStartToken.mask, Self.admitting.mask
        )
        let (requestingHold, ready, awaitingService) = (
            Self.requestingHold.mask, Self.ready.mask, Self.awaitingService.mask
        )
        return switch self {
        case .idle: queuedToBegin | paused | Self.awaitingReadAhead.mask | awaitingCredit | takingStartToken | admitting
        case .queuedToBegin, .awaitingReadAhead, .registeringToken: idle
        case .paused: idle | queuedToBegin
        case .awaitingCredit: idle | admitting
        case .takingStartToken: idle | admitting | requestingHold
        case .admitting: idle | ready | requestingHold | Self.registeringToken.mask | awaitingService
        case .requestingHold: idle | takingStartToken | admitting
        case .ready: idle | Self.inFlight.mask | awaitingService
        case .retiringToken: idle | requestingHold
        case .inFlight:
            idle | ready | Self.retiringToken.mask | Self.recordingThrottle.mask | Self.backingOff.mask
                | awaitingService
        case .recordingThrottle: idle | awaitingService
        case .backingOff: idle | ready | admitting | queuedToBegin | paused
        case .awaitingService: idle | admitting | awaitingCredit | queuedToBegin | paused
        }
    }
}
