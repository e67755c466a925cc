/// The calls that a core must make to the store, in order, and the pauses after failures.
package struct StoreQueue<Ticket: BitwiseCopyable>: ~Copyable {
    /// How long all calls pause after Redis refused one for a temporary reason (memory full, loading, busy).
    static var refusalPauseMilliseconds: Int64 { 100 }

    /// How long the first of the calls that are set aside waits before it is made again. The calls that follow it wait
    /// less, because all of them are made again at the same time.
    static var setAsidePauseMilliseconds: Int64 { 1_000 }

    private var tickets: IndexQueue<Ticket>
    /// Until when all calls pause, a monotonic time; `.min`: they do not pause.
    private var pausedUntilMilliseconds: Int64 = .min
    /// Calls that wait while the queue's other calls are made (`setAside`). All of them are made again when the first
    /// one has waited long enough: at `setAsideUntilMilliseconds`.
    private var setAsideTickets: IndexQueue<Ticket>
    /// When the calls that are set aside are made again, a monotonic time; `.max`: no call is set aside.
    private var setAsideUntilMilliseconds: Int64 = .max
    /// How many of the calls that are set aside had a reply, and will only be repeated. They do not show that the store
    /// is silent.
    package private(set) var answeredSetAsideCount = 0

    /// - Parameter limit: the maximum number of calls in the queue, including those that are set aside. More calls
    ///   trap.
    package init(limit: Int) {
        tickets = IndexQueue(limit: limit)
        setAsideTickets = IndexQueue(limit: limit)
    }

    /// When the next pause ends, a monotonic time; nil if no call waits for the end of a pause. A pause that is over
    /// still counts until ``endPausesIfDue(now:)`` or ``next(now:)`` is called.
    package var dueMilliseconds: Int64? {
        let isPaused = !tickets.isEmpty && pausedUntilMilliseconds != .min
        let earliestEndMilliseconds = min(isPaused ? pausedUntilMilliseconds : .max, setAsideUntilMilliseconds)
        return earliestEndMilliseconds == .max ? nil : earliestEndMilliseconds
    }

    /// Ends the pauses that are over. Called by ``next(now:)``, and by `advance` of each core, because no core asks for
    /// the next call while no Redis server is ready: `dueMilliseconds` would then stay in the past, and wake the lane
    /// in every iteration. Inlined, because ``next(now:)`` runs it for each call of the store.
    @inline(__always)
    package mutating func endPausesIfDue(now: Moment) {
        if pausedUntilMilliseconds <= now.monotonicMilliseconds { pausedUntilMilliseconds = .min }
        guard setAsideUntilMilliseconds <= now.monotonicMilliseconds else { return }
        (setAsideUntilMilliseconds, answeredSetAsideCount) = (.max, 0)
        while let ticket = setAsideTickets.popFirst() { tickets.append(ticket) }
    }

    /// Returns the first call that may be made now; nil if there is none. The call stays in the queue until the shell
    /// has made it: perhaps its server is not ready.
    package mutating func next(now: Moment) -> Ticket? {
        endPausesIfDue(now: now)
        return pausedUntilMilliseconds == .min ? tickets.first : nil
    }

    /// Adds a call that is not in the queue, but lets it wait for `setAsidePauseMilliseconds` or less. Meanwhile the
    /// queue's other calls are made. (R23)
    ///
    /// - Parameter isAnswered: whether the call had a reply, and is only repeated (`answeredSetAsideCount`).
    package mutating func setAside(_ ticket: Ticket, isAnswered: Bool = false, now: Moment) {
        if isAnswered { answeredSetAsideCount += 1 }
        if setAsideTickets.isEmpty {
            setAsideUntilMilliseconds = now.monotonicMilliseconds + Self.setAsidePauseMilliseconds
        }
        setAsideTickets.append(ticket)
    }

    package mutating func append(_ ticket: Ticket) { tickets.append(ticket) }

    /// Adds a call that leaves before all others.
    package mutating func prepend(_ ticket: Ticket) { tickets.prepend(ticket) }

    /// Removes and returns the first call, and ends the pause of all calls.
    package mutating func popFirst() -> Ticket? {
        pausedUntilMilliseconds = .min
        return tickets.popFirst()
    }

    /// Pauses all calls, because Redis has refused one for a temporary reason.
    package mutating func pause(now: Moment) {
        pausedUntilMilliseconds = now.monotonicMilliseconds + Self.refusalPauseMilliseconds
    }
}
