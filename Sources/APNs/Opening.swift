import Reactor

/// When the next connection of a pool may be opened: one at a time, at a distance, after a failure later and later.
///
/// Without room in the ``ConnectionBudget`` nothing has failed: the next attempt comes soon, whatever the back-off.
struct Opening {
    /// A look-up or connection that has not got as far as the server's SETTINGS.
    var isUnderWay = false
    /// Runs until the next opening is due.
    var timer = TimerIdentifier.none

    /// The budget had no room at the last attempt.
    private(set) var awaitsRoom = false

    /// The most by which the first connection is late.
    private static let firstJitterMilliseconds: Int64 = 250
    /// Between two attempts for as long as the budget has no room, so that the pools of a process do not all ask at a moment. Each may
    /// cost a look-up, so it is no shorter.
    static let roomWaitMilliseconds: ClosedRange<Int64> = 1_000...3_000

    private let spacingMilliseconds: Int64
    private var backoff: Backoff
    private var lastOpenedMilliseconds: Int64?
    private var lastIdentifier: UInt32 = 0

    init(_ configuration: PoolConfiguration) {
        spacingMilliseconds = configuration.openSpacingMilliseconds
        backoff = Backoff(
            baseMilliseconds: configuration.backoffBaseMilliseconds,
            maxMilliseconds: configuration.backoffMaxMilliseconds
        )
    }

    /// How long from now until the next opening is due.
    func waitMilliseconds(now: Int64) -> Int64 {
        var generator = SystemRandomNumberGenerator()
        if awaitsRoom { return Int64.random(in: Self.roomWaitMilliseconds, using: &generator) }
        let backoffWait = backoff.delayMilliseconds(using: &generator)
        guard let last = lastOpenedMilliseconds else {
            // The lanes of a worker, and the workers of a deployment, begin at one moment.
            return backoffWait
                + Int64.random(in: 0...min(spacingMilliseconds / 8, Self.firstJitterMilliseconds), using: &generator)
        }
        // A quarter more or less, so that the lanes and workers that started together drift apart.
        let jitter = Int64.random(in: -spacingMilliseconds / 4...spacingMilliseconds / 4, using: &generator)
        return max(backoffWait, last + spacingMilliseconds + jitter - now, 0)
    }

    mutating func begin(now: Int64) {
        isUnderWay = true
        lastOpenedMilliseconds = now
    }

    /// The budget has no room, which is no failure.
    ///
    /// - Returns: whether it had some until now.
    mutating func roomIsAwaited() -> Bool {
        defer { awaitsRoom = true }
        return !awaitsRoom
    }

    /// There is room, or nothing that needs any.
    mutating func endRoomWait() {
        awaitsRoom = false
    }

    /// A connection carried a push to an answer that shows that connecting works.
    mutating func succeeded() {
        backoff.succeeded()
    }

    /// A look-up failed, or a connection ended before it had proved itself.
    mutating func failed() {
        backoff.failed()
    }

    /// Connections are numbered from 1; 0 stands for none.
    mutating func nextIdentifier() -> UInt32 {
        lastIdentifier = lastIdentifier == .max ? 1 : lastIdentifier + 1
        return lastIdentifier
    }
}
