/// What an activity waits for. Only `Activities.enter` changes a phase. It traps, in release builds too, on a
/// change that is not listed here.
///
///     idle ─► queuedToBegin, paused, awaitingReadAhead or awaitingCredit ─► idle
///     paused ─► queuedToBegin                          a command arrived after the spacing
///
///     idle ─► admitting ─► ready ◄─► inFlight ─► idle
///     idle ─► takingStartToken ─► admitting            a start
///
///     takingStartToken, admitting ─► holding           the command has no token
///     holding ─► takingStartToken, admitting           a token registered meanwhile
///     admitting ─► registeringToken                    Redis has a newer, unsettled command; this one has a token
///     inFlight ─► retiringToken ─► holding             the token is dead
///     inFlight ─► recordingThrottle                    APNs limits the token
///     inFlight ─► backingOff ─► ready                  retried soon
///     inFlight, recordingThrottle ─► awaitingService   the push must be retried later
///     ready ─► awaitingService                         the pool does not permit the retry
///     backingOff, awaitingService ─► admitting         a start is retried
///     awaitingService ─► awaitingCredit ─► admitting   a start is retried, and first waits for a credit
///     backingOff, awaitingService ─► queuedToBegin     another command replaces the current one, and may begin
///     backingOff, awaitingService ─► paused            another command replaces it, and waits for the spacing
///
/// Every phase with a current command except `retiringToken` also leads back to `idle`: when the command is finished,
/// put back, deferred or dropped, or when its alert begins to wait for a carrier. In the comments of the cases, *Next*
/// names the next phases.
enum ActivityPhase: UInt8 {
    /// Nothing is under way. Usually an activity is idle only within one call: `beginNextCommand` then decides its next
    /// phase, or frees an activity that has no command and no wait. Exception: after a lifetime command was read from
    /// the deferred topic, its activity may be idle until Redis has replied about the life. Next:
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
    /// - A deferred command comes back from the deferred topic (`startWait`, `deferralWait`).
    /// - The pause of a command that has come back from there ends (`deferralWait`).
    /// - A newer command is read, and can carry the alert of a rider (`riderAwaitingCarrier`).
    ///
    /// Next: `idle` when the timer fires; `queuedToBegin` when a command arrives that may begin.
    case paused
    /// A command may be sent, but the lane reads ahead (R21). Next: `idle` when reading ahead ends.
    case awaitingReadAhead
    /// A command may be sent, but its pool has no free credit. Next:
    /// - `idle` when the pool has a free credit, when no command waits any more, or when the activity moves to another
    ///   pool.
    /// - `admitting` when the pool has a free credit, for a start that has waited in `awaitingService`: the start is
    ///   already the current command.
    case awaitingCredit
    /// A start asks for its device's push-to-start token in Redis. Next: `admitting`, or `holding` when there
    /// is no token.
    case takingStartToken
    /// Redis is deciding about the current command, or the audiences that the activity left are being notified first.
    /// Next:
    /// - `ready` when Redis allows the push.
    /// - `holding` when the command has no token.
    /// - `registeringToken` when a newer command in Redis must carry the current command's alert, and the current
    ///   command brought a token.
    case admitting
    /// Redis has a newer, unsettled command, which must carry the current command's alert. First, Redis registers the
    /// token that the current command brought, because Redis may hold the newer command for this token. Next: `idle`.
    case registeringToken
    /// The current command has no token. Redis is asked to hold the command until a token registers. Next:
    /// `takingStartToken` or `admitting` if a token has registered meanwhile.
    case holding
    /// Admitted with a timestamp and a token, waiting for a free stream. Next: `inFlight`; `awaitingService`
    /// for a retry that the pool does not permit.
    case ready
    /// `takeNextPush` has returned the push, and its result is not known yet. Next: `ready` when no stream took the
    /// push. The result leads to `retiringToken`, `recordingThrottle`, `backingOff` or `awaitingService`.
    case inFlight
    /// APNs responded that the token is dead or unknown. Redis retires the token, and the invalidation is being
    /// produced. Next: `holding` when both are acknowledged.
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

    /// Whether an activity in this phase may have a current command. Entering any other phase clears the
    /// current command.
    @inline(__always)
    var mayHaveCurrentCommand: Bool {
        isOne(of: Self.creditMask | Self.awaitingCredit.mask | Self.awaitingService.mask)
    }

    @inline(__always) func canChange(to next: ActivityPhase) -> Bool { next.isOne(of: nextPhases) }

    @inline(__always) private func isOne(of phases: UInt16) -> Bool { phases & mask != 0 }

    @inline(__always) private var mask: UInt16 { 1 &<< UInt16(rawValue) }

    @inline(__always)
    private static var creditMask: UInt16 {
        takingStartToken.mask | admitting.mask | registeringToken.mask | holding.mask | ready.mask | inFlight.mask
            | retiringToken.mask
            | recordingThrottle.mask | backingOff.mask
    }

    @inline(__always)
    private var nextPhases: UInt16 {
        let (idle, queuedToBegin, paused) = (Self.idle.mask, Self.queuedToBegin.mask, Self.paused.mask)
        let (awaitingCredit, takingStartToken, admitting) = (
            Self.awaitingCredit.mask, Self.takingStartToken.mask, Self.admitting.mask
        )
        let (holding, ready, awaitingService) = (Self.holding.mask, Self.ready.mask, Self.awaitingService.mask)
        return switch self {
        case .idle: queuedToBegin | paused | Self.awaitingReadAhead.mask | awaitingCredit | takingStartToken | admitting
        case .queuedToBegin, .awaitingReadAhead, .registeringToken: idle
        case .paused: idle | queuedToBegin
        case .awaitingCredit: idle | admitting
        case .takingStartToken: idle | admitting | holding
        case .admitting: idle | ready | holding | Self.registeringToken.mask
        case .holding: idle | takingStartToken | admitting
        case .ready: idle | Self.inFlight.mask | awaitingService
        case .retiringToken: holding
        case .inFlight:
            idle | ready | Self.retiringToken.mask | Self.recordingThrottle.mask | Self.backingOff.mask
                | awaitingService
        case .recordingThrottle: idle | awaitingService
        case .backingOff: idle | ready | admitting | queuedToBegin | paused
        case .awaitingService: idle | admitting | awaitingCredit | queuedToBegin | paused
        }
    }
}
