/// Records to be produced, oldest first. After one failed, none is handed out for a while.
struct ProductionQueue: ~Copyable {
    /// How long nothing is produced after a failure: the next record is likely to fail too.
    private static var failurePauseMilliseconds: Int64 { 250 }

    private var productions: IndexQueue<Production>
    private var blockedUntilMilliseconds: Int64 = .min

    init(limit: Int) { productions = IndexQueue(limit: limit) }

    mutating func append(_ production: Production) { productions.append(production) }

    /// The next one, which stays first until it is taken; nil if there is none now.
    func next(now: Moment) -> Production? {
        blockedUntilMilliseconds <= now.monotonicMilliseconds ? productions.first : nil
    }

    mutating func take() {
        blockedUntilMilliseconds = .min
        precondition(productions.popFirst() != nil)
    }

    /// Not acknowledged: it is produced again.
    mutating func retry(_ production: Production, now: Moment) {
        blockedUntilMilliseconds = now.monotonicMilliseconds + Self.failurePauseMilliseconds
        productions.append(production)
    }

    /// When the pause after a failure is over; nil if nothing waits for that.
    var dueMilliseconds: Int64? {
        productions.isEmpty || blockedUntilMilliseconds == .min ? nil : blockedUntilMilliseconds
    }
}
