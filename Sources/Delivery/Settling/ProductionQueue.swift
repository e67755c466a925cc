/// Records to be produced, oldest first. After one failed, none is handed out for a while.
package struct ProductionQueue<Item: BitwiseCopyable>: ~Copyable {
    /// How long nothing is produced after a failure: the next record is likely to fail too.
    private static var failurePauseMilliseconds: Int64 { 250 }

    private var productions: IndexQueue<Item>
    private var blockedUntilMilliseconds: Int64 = .min

    package init(limit: Int) { productions = IndexQueue(limit: limit) }

    package mutating func append(_ production: Item) { productions.append(production) }

    /// The next one, which stays first until it is taken; nil if there is none now.
    package func next(now: Moment) -> Item? {
        blockedUntilMilliseconds <= now.monotonicMilliseconds ? productions.first : nil
    }

    package mutating func take() {
        blockedUntilMilliseconds = .min
        precondition(productions.popFirst() != nil)
    }

    /// Not acknowledged: it is produced again.
    package mutating func retry(_ production: Item, now: Moment) {
        blockedUntilMilliseconds = now.monotonicMilliseconds + Self.failurePauseMilliseconds
        productions.append(production)
    }

    /// When the pause after a failure is over; nil if nothing waits for that.
    package var dueMilliseconds: Int64? {
        productions.isEmpty || blockedUntilMilliseconds == .min ? nil : blockedUntilMilliseconds
    }
}
