/// What an activity's turn is waiting for. Only `Activities.enter` changes a phase. It traps, in release builds too, on a change
/// that is not listed here.
///
///     idle ─► awakened, resting, awaitingReadAhead or awaitingCredit ─► idle
///
///     idle ─► lookingUpToken ─► admitting ─► ready ◄─► inFlight ─► idle
///
///     lookingUpToken ─► holding ◄─► admitting        the command has no token
///     admitting ─► registering                   another worker has a newer command; this one brought a token
///     inFlight ─► retiring ─► holding            the token is dead
///     inFlight ─► limiting                       APNs limits the token
///     inFlight ─► backingOff ─► ready            retried at once on another connection; a start ─► admitting
///     inFlight, limiting ─► awaitingService      APNs could not take the push; a start ─► awaitingCredit or admitting
///     ready ─► awaitingService                   the pool does not permit the retry
///
/// Every phase with a current command also leads back to `idle`: when the command is finished, put back or dropped.
enum ActivityPhase: UInt8 {
    /// Nothing is under way. An activity is idle only within one call, in which `begin` decides what follows. → `lookingUpToken` or
    /// `admitting` when a command may go now; `awaitingCredit` or `awaitingReadAhead` when it may not go yet; `resting` when nothing may be sent
    /// until a time; `awakened` when the activity is new. If nothing waits and nothing rests, the slot is freed.
    case idle
    /// Has commands in the batch that is being received. → `idle` at the end of the batch.
    case awakened
    /// Nothing may be sent until the spacing has ended, or a rider waits for its carrier. The timer is set. → `idle` when the timer
    /// fires; `awakened` when a command arrives after the spacing.
    case resting
    /// Could go, but the lane reads ahead. → `idle` when reading ahead ends.
    case awaitingReadAhead
    /// Could go, but its pool has the maximum of pushes in flight. → `idle` when one of them is done. A start that is already
    /// current, because it waited for the service, → `admitting`.
    case awaitingCredit
    /// A start asks for its device's push-to-start token in Redis. → `admitting`, or `holding` when there is no token.
    case lookingUpToken
    /// Redis is deciding about the current command. → `ready`; `holding` when the command has no token; `registering` when
    /// another worker admitted a newer command and this one brought a token.
    case admitting
    /// The current command was overtaken at another worker. Its token is being registered, which may release a held command. →
    /// `idle`.
    case registering
    /// The current command has no token and is being stored in Redis until one registers. → `lookingUpToken` or `admitting` when a
    /// token registered meanwhile.
    case holding
    /// Admitted with a timestamp and a token, waiting for a free stream. → `inFlight`; `awaitingService` for a retry that the
    /// pool does not permit.
    case ready
    /// The push is with APNs. → `ready` when no stream took it. APNs' answer leads to `retiring`, `limiting`, `backingOff` or
    /// `awaitingService`.
    case inFlight
    /// APNs calls the token dead. Redis is being told and the invalidation is being produced. → `holding` when both are
    /// acknowledged.
    case retiring
    /// APNs limits the token, and Redis is being told. → `awaitingService`.
    case limiting
    /// APNs did not process the push, and the push is retried soon. The timer is set. → `ready`; `admitting` for a start;
    /// `awakened` or `resting` when a newer state replaces the command.
    case backingOff
    /// The service could not take the current command, or the pool has no retry left. The timer says when to try again. Until
    /// then the command holds no credit. Every command that is delayed by a fault that is not its own waits here until it
    /// expires. → `idle`, to be admitted again in its next turn; for a start `admitting` or `awaitingCredit`; `awakened` or `resting`
    /// when a newer state replaces the command.
    case awaitingService

    // Each question about a phase is an inlined test of one bit: an activity enters eight phases for each command that is sent.

    /// Whether the activity's timer is set.
    @inline(__always) var hasTimer: Bool { self == .resting || isBackingOff }

    /// Whether the current command waits for the timer before its next attempt.
    @inline(__always) var isBackingOff: Bool { isOne(of: Self.backingOff.mask | Self.awaitingService.mask) }

    /// Whether the current command counts as one of its pool's pushes in flight.
    @inline(__always) var holdsCredit: Bool { isOne(of: Self.withCredit) }

    /// Whether an activity in this phase may have a current command. Entering any other phase clears the current command.
    @inline(__always)
    var mayHaveCurrent: Bool { isOne(of: Self.withCredit | Self.awaitingCredit.mask | Self.awaitingService.mask) }

    @inline(__always) func canChange(to next: ActivityPhase) -> Bool { next.isOne(of: exits) }

    @inline(__always) private func isOne(of phases: UInt16) -> Bool { phases & mask != 0 }

    @inline(__always) private var mask: UInt16 { 1 &<< UInt16(rawValue) }

    @inline(__always)
    private static var withCredit: UInt16 {
        lookingUpToken.mask | admitting.mask | registering.mask | holding.mask | ready.mask | inFlight.mask
            | retiring.mask
            | limiting.mask | backingOff.mask
    }

    @inline(__always)
    private var exits: UInt16 {
        let (idle, awakened, resting) = (Self.idle.mask, Self.awakened.mask, Self.resting.mask)
        let (awaitingCredit, lookingUpToken, admitting) = (
            Self.awaitingCredit.mask, Self.lookingUpToken.mask, Self.admitting.mask
        )
        let (holding, ready, awaitingService) = (Self.holding.mask, Self.ready.mask, Self.awaitingService.mask)
        return switch self {
        case .idle: awakened | resting | Self.awaitingReadAhead.mask | awaitingCredit | lookingUpToken | admitting
        case .awakened, .awaitingReadAhead, .registering: idle
        case .resting: idle | awakened
        case .awaitingCredit: idle | admitting
        case .lookingUpToken: idle | admitting | holding
        case .admitting: idle | ready | holding | Self.registering.mask
        case .holding: idle | lookingUpToken | admitting
        case .ready: idle | Self.inFlight.mask | awaitingService
        case .retiring: holding
        case .inFlight: idle | ready | Self.retiring.mask | Self.limiting.mask | Self.backingOff.mask | awaitingService
        case .limiting: idle | awaitingService
        case .backingOff: idle | ready | admitting | awakened | resting
        case .awaitingService: idle | admitting | awaitingCredit | awakened | resting
        }
    }
}
