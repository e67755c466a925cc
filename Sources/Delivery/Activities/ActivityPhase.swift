/// What one activity's turn is waiting for. `Activities.enter` is the only way from one phase to the next, and asserts that it is one of
/// those listed here.
///
///     idle ─► awakened, resting, parked or eligible ─► idle
///
///     idle ─► addressing ─► admitting ─► ready ◄─► inFlight ─► idle
///
///     addressing ─► holding ◄─► admitting        no token
///     admitting ─► registering                   overtaken elsewhere, with a token of its own
///     inFlight ─► retiring ─► holding            the token is dead
///     inFlight ─► limiting                       APNs limits the token
///     inFlight ─► backingOff ─► ready            goes again at once, elsewhere; a start ─► admitting
///     inFlight, limiting ─► awaitingService      APNs could not take it; a start ─► eligible or admitting
///     ready ─► awaitingService                   a retry that the pool does not permit
///
/// Every phase with a current command also leads back to `idle`, when that command is finished, put back or dropped.
enum ActivityPhase: UInt8 {
    /// Nothing is under way. Passed through within one call, in which `begin` decides what comes next. → `addressing` or `admitting`,
    /// when a command waits and may go; `eligible` or `parked`, when it may not yet; `resting`, when nothing may be sent until a time;
    /// `awakened`, when the activity is new; else the slot is freed.
    case idle
    /// Has commands of the batch that is being received. → `idle`, at the batch's end.
    case awakened
    /// Nothing may be sent until the spacing is over, or a rider waits for its carrier: the timer is set. → `idle`, when the timer fires;
    /// `awakened`, when a command comes after the spacing.
    case resting
    /// May go, but the lane reads ahead. → `idle`, when that ends.
    case parked
    /// May go, but its app has its maximum of pushes in flight. → `idle`, when one of them is done; `admitting`, for a start
    /// that is current already and waited for the service.
    case eligible
    /// A start asks the device's hash for its push-to-start token. → `admitting`, or `holding` when there is none.
    case addressing
    /// The current command is being admitted in Redis. → `ready`; `holding`, when it has no token; `registering`, when it was overtaken
    /// elsewhere and brought a token.
    case admitting
    /// The current command was overtaken elsewhere; the token that came with it is being registered, which returns a held command.
    case registering
    /// The current command has no token and is being stored in Redis until one registers. → `addressing` or `admitting`, when a token
    /// registered meanwhile.
    case holding
    /// Admitted with a timestamp and a token; waits for a free stream. → `inFlight`; `awaitingService`, for a retry that the pool does
    /// not permit.
    case ready
    /// With APNs. → `ready`, when no stream took it; `retiring`, `limiting`, `backingOff` or `awaitingService`, by APNs' answer.
    case inFlight
    /// APNs calls the token dead: Redis is being told, and the invalidation produced. → `holding`, when both are acknowledged.
    case retiring
    /// APNs limits the token, and Redis is being told. → `awaitingService`.
    case limiting
    /// The push was not processed and goes again by itself: the timer is set. → `ready`; `admitting`, for a start; `awakened` or `resting`,
    /// when a newer state takes its place.
    case backingOff
    /// The service could not take the current command, or its pool has no retry left: the timer says when it is tried again. It is not
    /// counted among its app's pushes meanwhile. All that waits for a fault that is not its own waits here, until it expires. → `idle`, to
    /// be admitted again in its next turn; for a start `admitting`, or `eligible`; `awakened` or `resting`, when a newer state takes its
    /// place.
    case awaitingService

    // What is asked of a phase is a bit in a mask, and inlined: an activity enters eight of them for each command that is sent.

    /// Whether the activity's timer is set.
    @inline(__always) var hasTimer: Bool { self == .resting || isBackingOff }

    /// Whether the current command's next attempt waits for the timer.
    @inline(__always) var isBackingOff: Bool { isOne(of: Self.backingOff.mask | Self.awaitingService.mask) }

    /// Whether the current command counts as one of its app's pushes in flight.
    @inline(__always) var holdsCredit: Bool { isOne(of: Self.withCredit) }

    /// Whether an activity may have a current command. One that enters another phase has none any more.
    @inline(__always)
    var mayHaveCurrent: Bool { isOne(of: Self.withCredit | Self.eligible.mask | Self.awaitingService.mask) }

    @inline(__always) func mayLead(to next: ActivityPhase) -> Bool { next.isOne(of: exits) }

    @inline(__always) private func isOne(of phases: UInt16) -> Bool { phases & mask != 0 }

    @inline(__always) private var mask: UInt16 { 1 &<< UInt16(rawValue) }

    @inline(__always)
    private static var withCredit: UInt16 {
        addressing.mask | admitting.mask | registering.mask | holding.mask | ready.mask | inFlight.mask | retiring.mask
            | limiting.mask | backingOff.mask
    }

    @inline(__always)
    private var exits: UInt16 {
        let (idle, awakened, resting) = (Self.idle.mask, Self.awakened.mask, Self.resting.mask)
        let (eligible, addressing, admitting) = (Self.eligible.mask, Self.addressing.mask, Self.admitting.mask)
        let (holding, ready, awaitingService) = (Self.holding.mask, Self.ready.mask, Self.awaitingService.mask)
        return switch self {
        case .idle: awakened | resting | Self.parked.mask | eligible | addressing | admitting
        case .awakened, .parked, .registering: idle
        case .resting: idle | awakened
        case .eligible: idle | admitting
        case .addressing: idle | admitting | holding
        case .admitting: idle | ready | holding | Self.registering.mask
        case .holding: idle | addressing | admitting
        case .ready: idle | Self.inFlight.mask | awaitingService
        case .retiring: holding
        case .inFlight: idle | ready | Self.retiring.mask | Self.limiting.mask | Self.backingOff.mask | awaitingService
        case .limiting: idle | awaitingService
        case .backingOff: idle | ready | admitting | awakened | resting
        case .awaitingService: idle | admitting | eligible | awakened | resting
        }
    }
}
