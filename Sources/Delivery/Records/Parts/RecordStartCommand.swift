/// What only a start has (`RecordSlot.isStart`), from its receipt on.
struct RecordStartCommand: BitwiseCopyable {
    /// A random number that no other record of the same start has, in any worker. Redis admits a start to one claim
    /// only (R16). If the reply to the admission is lost, Redis admits the same record again, because it names the same
    /// claim. Other records of the start are not admitted, because the start may have been sent. Exception: after a
    /// deferral, the deferred record has a new claim, and Redis admits it because it names the old one as its
    /// `previousClaim`.
    var claim: UInt64 = 0
    /// The claim that the start had when it was deferred; nil: it was not deferred, or Redis has admitted it since.
    var previousClaim: UInt64?
    /// Whether Redis held the start, and keeps it until the lane settles it.
    var isHeld = false
    var draw = StartDraw.none
}

/// A start's draw on its device's budget. A refund names the draw by its identifier.
enum StartDraw: BitwiseCopyable {
    case none
    /// The budget was empty, and the start waits until it may draw.
    case awaitingBudget
    case drawn(identifier: Int64)
    /// The draw was given back to the budget, or the call that gives it back is under way.
    case refunded(identifier: Int64)
}
