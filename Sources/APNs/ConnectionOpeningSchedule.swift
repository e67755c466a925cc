import Reactor

/// Decides when a pool may open its next connection. The pool opens one connection at a time. Between two openings the
/// pool waits, as Apple advises; after failures it waits longer.
///
/// If the ``ConnectionBudget`` does not permit a connection, the attempt has not failed: the next attempt follows after
/// ``connectionBudgetWaitMilliseconds``, not after the back-off.
struct ConnectionOpeningSchedule {
    /// Whether an attempt to open a connection is under way: finding the host's addresses, and connecting to one of
    /// them. The attempt ends in each of these cases:
    /// - The server's SETTINGS arrive.
    /// - The attempt fails.
    /// - The pool no longer wants the connection.
    /// - The ``ConnectionBudget`` has no room for the connection.
    var isAttemptUnderWay = false
    /// The timer that fires when the pool may open its next connection.
    var timer = TimerIdentifier.none

    /// Whether the pool waits for room in the ``ConnectionBudget``, because there was none at the last attempt.
    private(set) var awaitsConnectionBudget = false

    /// The longest random delay before the pool's first connection, so that workers that start together do not connect
    /// together.
    private static let firstOpeningJitterMillisecondsMax: Int64 = 250
    /// The delay between two attempts while the budget permits no connection. The delay is random, so that the pools of
    /// a process do not all ask at once. It is at least a second, because each attempt may ask DNS for the addresses.
    static let connectionBudgetWaitMilliseconds: ClosedRange<Int64> = 1_000...3_000

    private let openingIntervalMilliseconds: Int64
    private var backoff: Backoff
    /// The earliest time of the pool's first opening; nil until the pool has reserved it
    /// (``reserveFirstOpening(from:nowMilliseconds:)``).
    private var firstOpeningAtMilliseconds: Int64?
    private var lastAttemptAtMilliseconds: Int64?
    /// When the last attempt began whose connection did not become usable; nil after ``noteSuccess()``.
    private(set) var failedAttemptAtMilliseconds: Int64?
    private var lastConnectionNumber: UInt32 = 0

    init(_ configuration: PoolConfiguration) {
        openingIntervalMilliseconds = configuration.openingIntervalMilliseconds
        backoff = Backoff(
            baseMilliseconds: configuration.backoffBaseMilliseconds,
            jitterMillisecondsMax: configuration.backoffJitterMillisecondsMax
        )
    }

    /// Reserves the time of the pool's first opening. The pools of all lanes start at the same moment, but must not
    /// open their first connections at once.
    mutating func reserveFirstOpening(from budget: ConnectionBudget, nowMilliseconds: Int64) {
        firstOpeningAtMilliseconds = budget.reserveFirstOpening(nowMilliseconds: nowMilliseconds)
    }

    /// Returns the time from now until the pool may open its next connection.
    func waitMilliseconds(nowMilliseconds: Int64) -> Int64 {
        var generator = SystemRandomNumberGenerator()
        if awaitsConnectionBudget { return Int64.random(in: Self.connectionBudgetWaitMilliseconds, using: &generator) }
        let backoffMilliseconds = backoff.delayMilliseconds(using: &generator)
        guard let lastAttemptAtMilliseconds else {
            // The random time is for workers that start at the same moment: their pools have the same reserved times.
            return backoffMilliseconds + max(0, (firstOpeningAtMilliseconds ?? nowMilliseconds) - nowMilliseconds)
                + Int64.random(
                    in: 0...min(openingIntervalMilliseconds / 8, Self.firstOpeningJitterMillisecondsMax),
                    using: &generator
                )
        }
        // The random part keeps lanes and workers that started together from opening connections together again.
        let jitterMilliseconds = Int64.random(
            in: -openingIntervalMilliseconds / 4...openingIntervalMilliseconds / 4,
            using: &generator
        )
        return max(
            backoffMilliseconds,
            lastAttemptAtMilliseconds + openingIntervalMilliseconds + jitterMilliseconds - nowMilliseconds,
            0
        )
    }

    /// Notes that the pool begins to open a connection. The opening interval counts from this moment.
    mutating func beginAttempt(nowMilliseconds: Int64) {
        isAttemptUnderWay = true
        lastAttemptAtMilliseconds = nowMilliseconds
    }

    /// Notes that the budget permits no connection. This does not count as a failure.
    ///
    /// - Returns: true if the wait begins now; false if the pool was already waiting.
    mutating func beginConnectionBudgetWait() -> Bool {
        defer { awaitsConnectionBudget = true }
        return !awaitsConnectionBudget
    }

    /// Ends the wait for the budget. Call this method in each of these cases:
    /// - The budget permits the connection.
    /// - The connection is essential, so the budget does not limit it.
    /// - The pool no longer wants a connection.
    mutating func endConnectionBudgetWait() {
        awaitsConnectionBudget = false
    }

    /// Resets the back-off. Call this method when a response on a new connection shows that APNs accepts its provider
    /// token.
    mutating func noteSuccess() {
        backoff.noteSuccess()
        failedAttemptAtMilliseconds = nil
    }

    /// Notes that the connection of the attempt under way did not become usable.
    mutating func noteFailedAttempt() {
        failedAttemptAtMilliseconds = lastAttemptAtMilliseconds
    }

    /// Makes the next back-off longer. Call this method if the host's addresses were not found, or if a connection ends
    /// or is retired before APNs has accepted its provider token, but not if it is retired as surplus or unresponsive.
    mutating func lengthenBackoff() {
        backoff.noteFailure()
    }

    /// Sets the back-off to its value after one failure. Call this method when a connection is retired as unresponsive:
    /// the pools of a process often notice at the same moment that APNs does not respond, so the next connection needs
    /// a random delay (R21). The delay need not grow, because each unresponsive connection lasts at least one timeout
    /// of a push, or ``StreamAbsence/millisecondsMax``.
    mutating func setBackoffToOneFailure() {
        backoff.noteSuccess()
        backoff.noteFailure()
    }

    /// Returns the next connection's number. Numbers start at 1, so that a caller may use 0 for no connection.
    mutating func makeConnectionNumber() -> UInt32 {
        lastConnectionNumber = lastConnectionNumber == .max ? 1 : lastConnectionNumber + 1
        return lastConnectionNumber
    }
}
