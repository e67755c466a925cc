/// What only a start has (`RecordSlot.isStart`), from its receipt on.
struct RecordStartCommand: BitwiseCopyable {
    /// A random number that no other record of the same start has, in any worker. Redis admits a start to one claim
    /// only (R16). If the reply to the admission is lost, the record asks again with the same claim, and is admitted
    /// again. Other records of the start are not admitted, because the start may have been sent.
    var claim: UInt64 = 0
    /// The claim that the start had when it was deferred. The lane that read the deferred record made a new claim
    /// (`claim`), and names both claims to Redis, so that Redis admits the new one. Nil: the start was not deferred, or
    /// Redis has admitted it since.
    var previousClaim: UInt64?
    /// Whether Redis held the start. If so, Redis keeps it until the lane settles it.
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
