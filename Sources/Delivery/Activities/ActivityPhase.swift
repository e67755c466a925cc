/// What an activity waits for. Only `Activities.enter` changes a phase. It traps, in release builds too, on a change
/// that `nextPhases` does not list. (R7)
///
/// An activity with a token usually goes this way for each command:
///
///     idle ─► admitting ─► ready ─► inFlight ─► idle
///
/// In the comments of the cases, *Next* names the next phases, except one: every phase with a current command except
/// `retiringToken` also leads to `idle`, when the command is finished, put back, deferred or dropped, or when its alert
/// begins to wait for a carrier.
enum ActivityPhase: UInt8 {
    /// Nothing is under way. Usually an activity is idle only within one call: `beginNextCommand` then decides its next
    /// phase, or frees an activity that has no command and no wait. There is one exception: while Redis is asked about
    /// the life of a deferred lifetime command, its activity may be idle for longer. Next:
    /// - `queuedToBegin` when a command joins the waiting list.
    /// - `takingStartToken` or `admitting` when the first waiting command begins.
    /// - `awaitingReadAhead` if the lane reads ahead.
    /// - `awaitingCredit` when the pool has no free credit.
    /// - `paused` when the first waiting command must not begin yet, or when the activity has another wait.
    case idle
    /// A command has just joined the waiting list. Next: `idle`, in `endBatch`, which then begins the command.
    case queuedToBegin
    /// The timer is set, and the activity waits for one of these events:
    /// - The delay of its next command ends (`earliestBeginAtMilliseconds`).
    /// - A deferred command comes back from the deferred topic (`deferredStartWait`, `deferralWait`).
    /// - The pause of a command that has come back from there ends (`deferralWait`).
    /// - The lane reads a newer command, which carries the alert of a command that waits for it
    ///   (`commandAwaitingCarrier`).
    ///
    /// Next: `idle` when the timer fires; `queuedToBegin` when a command arrives that may begin.
    case paused
    /// A command may be sent, but the lane reads ahead (R21). Next: `idle` when reading ahead ends.
    case awaitingReadAhead
    /// A command may be sent, but its pool has no free credit. Next:
    /// - `idle` when the pool has a free credit, when no command waits any more, or when the activity moves to another
    ///   pool.
    /// - `admitting` when the pool has a free credit and the activity already has a current command: a start that was
    ///   in `awaitingService` before.
    case awaitingCredit
    /// A start asks for its device's push-to-start token in Redis. Next: `admitting`, or `requestingHold` when there is
    /// no token.
    case takingStartToken
    /// Redis is deciding about the current command. If Redis first names audiences that the activity left, the core
    /// notifies these audiences, and then asks Redis again. Next:
    /// - `ready` when Redis allows the push.
    /// - `requestingHold` when the command has no token.
    /// - `registeringToken` when the current command brought a token, and Redis has a newer command that must carry the
    ///   current command's alert.
    case admitting
    /// Redis has a newer command that is not settled, and that must carry the current command's alert. Perhaps Redis
    /// holds the newer command until a token registers. So Redis first registers the token that the current command
    /// brought. Next: `idle`.
    case registeringToken
    /// The current command has no token. Redis is asked to hold the command until a token registers. Next:
    /// `takingStartToken` or `admitting` if a token has registered meanwhile.
    case requestingHold
    /// Admitted with a timestamp and a token, waiting for a free stream. Next: `inFlight`; `awaitingService` for a
    /// retry that the pool does not permit.
    case ready
    /// `takeNextPush` has returned the push, and its result is not known yet. Next: `ready` when no stream took the
    /// push. The result leads to `retiringToken`, `recordingThrottle`, `backingOff` or `awaitingService`.
    case inFlight
    /// APNs responded that the token is dead or unknown. Redis retires the token, and the invalidation is being
    /// produced. Next: `requestingHold` when both are acknowledged.
    case retiringToken
    /// APNs limits the pushes to the token, and Redis records the limit. Next: `awaitingService`.
    case recordingThrottle
    /// The push's result was `retrySoon`, and the push is retried after a short back-off. The timer is set. Next:
    /// `ready`; `admitting` for a start; `queuedToBegin` or `paused` when another command replaces the current one.
    case backingOff
    /// The push of the current command failed for a reason that only delays it (R18), or the pool's retry budget is
    /// empty. The command waits for the timer and has no credit. Attempts have no limit: the command may enter this
    /// phase again after each failed attempt. Next:
    /// - `idle`, so that Redis admits the command again when its turn comes.
    /// - For a start instead: `admitting`, or `awaitingCredit` when the pool has no free credit.
    /// - `queuedToBegin` or `paused` when another command replaces the current one.
    case awaitingService

    // Each of these properties tests only one bit and is inlined, because they run often: to send a command, its
    // activity enters eight phases, and each change reads the properties.

    /// Whether the activity's timer is set.
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
        case .admitting: idle | ready | requestingHold | Self.registeringToken.mask
        case .requestingHold: idle | takingStartToken | admitting
        case .ready: idle | Self.inFlight.mask | awaitingService
        case .retiringToken: requestingHold
        case .inFlight:
            idle | ready | Self.retiringToken.mask | Self.recordingThrottle.mask | Self.backingOff.mask
                | awaitingService
        case .recordingThrottle: idle | awaitingService
        case .backingOff: idle | ready | admitting | queuedToBegin | paused
        case .awaitingService: idle | admitting | awaitingCredit | queuedToBegin | paused
        }
    }
}
