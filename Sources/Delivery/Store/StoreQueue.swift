/// The calls to be made, in order, and the pause after a refusal.
struct StoreQueue: ~Copyable {
    /// How long no call is made after the store refused one for a passing reason (memory full, loading, busy).
    static var refusalPauseMilliseconds: Int64 { 100 }

    private var tickets: IndexQueue<StoreTicket>
    private var blockedUntilMilliseconds: Int64 = .min

    /// - Parameter limit: the most calls that can wait.
    init(limit: Int) { tickets = IndexQueue(limit: limit) }

    /// When the pause ends, a monotonic time; nil if no call waits for it.
    var dueMilliseconds: Int64? {
        tickets.isEmpty || blockedUntilMilliseconds == .min ? nil : blockedUntilMilliseconds
    }

    /// The next call to be made, or nil if there is none now.
    func next(now: Moment) -> StoreTicket? {
        blockedUntilMilliseconds <= now.monotonicMilliseconds ? tickets.first : nil
    }

    mutating func append(_ ticket: StoreTicket) { tickets.append(ticket) }

    mutating func removeFirst() -> StoreTicket? {
        blockedUntilMilliseconds = .min
        return tickets.popFirst()
    }

    mutating func moveFirstToEnd() {
        guard let ticket = tickets.popFirst() else { preconditionFailure("no call waits") }
        tickets.append(ticket)
    }

    mutating func pause(now: Moment) {
        blockedUntilMilliseconds = now.monotonicMilliseconds + Self.refusalPauseMilliseconds
    }
}
