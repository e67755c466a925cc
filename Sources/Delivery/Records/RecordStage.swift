/// Where a record is on its way from its receipt to its settled offset. `Records.enter` is the only way from one stage to the next, and
/// asserts that it is one of those listed here.
///
/// A command:
///
///     received ──► waiting ◄───► current ─────► finished ─────► settled
///        │          ▲   │           │              ▲ │             ▲
///        │          │   ▼           │              │ └─► leavingDevice, registering
///        └───────► riding ◄─────────┤              │
///                     ▲             ▼              │
///                     └───── awaitingCarrier ──────┘     and from received, waiting and riding
///
/// A record of the registrations topic: `received` → `registering` or `unregistering` → `settled`. A command that was held for the token
/// goes on in the registration's record, as `received` again.
///
/// A record that is read once more and of which nothing is to be done is `finished` at once.
///
/// A command that cannot be sent soon goes from `waiting` or `current` to `deferring`, and is `settled` without an outcome; or comes back as if
/// it were received, if the deferred topic does not take it and its pool does.
///
/// A command to an audience goes from `received` to `handedOver`, and is `finished` when it comes back.
///
/// A record without an outcome whose partition is revoked is `dropped`, after `refunding` where a start's draw is given back.
enum RecordStage: UInt8 {
    /// Its bytes are being read; passed through within one call. → `waiting`, `riding` or `finished`, for a command, by what waits there
    /// already; `handedOver`, for one to an audience; `registering` or `unregistering`, for a record of the other topic; `finished`, when it is invalid.
    case received
    /// In its activity's waiting list. → `current`, when its turn comes; `riding`, when a newer command takes its place and carries its
    /// alert; `finished`, when one takes its place that does not, or it expires.
    case waiting
    /// Its activity's current command; `ActivityPhase` says what for. → `waiting`, when it is to be admitted again; `riding`, as above;
    /// `awaitingCarrier`, when a command with another worker overtook it; `finished`, when its outcome is known.
    case current
    /// A newer command carries its alert, `RiderLink.carrier`. → `riding`, when a newer one takes the carrier's place; `waiting`, when the
    /// carrier expires or is dropped; `finished`, with the carrier or when a newer alert replaces it.
    case riding
    /// Its alert waits for the command that overtook it to be read here. → `riding`, when that one comes; `finished`, when it does not.
    case awaitingCarrier
    /// The call that registers its token has no reply yet. → `received`, when a command was held for the token, which goes on in this
    /// record; `settled`, when none was.
    case registering
    /// A tombstone, whose calls have no reply yet. → `settled`, with the last reply.
    case unregistering
    /// It has its outcome; its result, the settlement in Redis and what else goes out have not all been acknowledged. → when they are,
    /// `leavingDevice` or `registering`, as `followUps` say, else `settled`.
    case finished
    /// Its result is acknowledged, and Redis is being told that the start which it held is over. → `registering`, as `followUps` say, or
    /// `settled`.
    case leavingDevice
    /// Its partition's next owner reads it again. Its draw on a device's budget is being given back, in a call that names the slot.
    /// → `dropped`, when that is acknowledged.
    case refunding
    /// It is being produced to the deferred topic. → `settled`, when that is acknowledged, and a start's draw is given back; `waiting`, `riding` or
    /// `finished`, as from `received`, when that failed and it can be sent after all.
    case deferring
    /// The core of audiences decides of it. → `finished`, when it comes back.
    case handedOver
    /// Its offset is settled: the slot is freed.
    case settled
    /// Its partition's next owner reads it again: the slot is freed.
    case dropped

    // What is asked of a stage is a bit in a mask, and inlined: a record enters four or five of them.

    /// Whether nothing more is decided of the record, and only acknowledgements are outstanding.
    @inline(__always)
    var awaitsAcknowledgements: Bool {
        isOne(of: Self.finished.mask | Self.leavingDevice.mask | Self.refunding.mask | Self.deferring.mask)
    }

    @inline(__always) func mayLead(to next: RecordStage) -> Bool { next.isOne(of: exits) }

    @inline(__always) private func isOne(of stages: UInt16) -> Bool { stages & mask != 0 }

    @inline(__always) private var mask: UInt16 { 1 &<< UInt16(rawValue) }

    @inline(__always)
    private var exits: UInt16 {
        let (received, waiting, current, riding) = (
            Self.received.mask, Self.waiting.mask, Self.current.mask, Self.riding.mask
        )
        let (registering, finished, settled) = (Self.registering.mask, Self.finished.mask, Self.settled.mask)
        let (refunding, deferring, dropped) = (Self.refunding.mask, Self.deferring.mask, Self.dropped.mask)
        return switch self {
        case .received: waiting | riding | registering | Self.unregistering.mask | Self.handedOver.mask | finished
        case .waiting: current | riding | finished | deferring | refunding | dropped
        case .current: waiting | riding | Self.awaitingCarrier.mask | finished | deferring | dropped
        case .riding: riding | waiting | finished | dropped
        case .awaitingCarrier: riding | finished | dropped
        case .registering: received | settled | dropped
        case .unregistering: settled
        case .finished: Self.leavingDevice.mask | registering | settled
        case .leavingDevice: registering | settled
        case .handedOver: finished | dropped
        case .deferring: settled | waiting | riding | finished
        case .refunding: dropped
        case .settled, .dropped: 0
        }
    }
}
