import LiveActivity

/// The pool whose credit a command takes and for which it waits: production or sandbox of its app. It is `unknownEnvironment` until an
/// admission, or a token that a command brings, names the activity's environment.
struct PoolKey: Equatable, BitwiseCopyable {
    enum Kind: UInt8, CaseIterable { case production, sandbox, unknownEnvironment }

    var application: UInt16
    var kind: Kind

    init(application: UInt16, kind: Kind) { (self.application, self.kind) = (application, kind) }

    init(_ pool: PoolIndex) { self.init(application: pool.application, kind: Kind(pool.environment)) }

    var position: Int { Int(application) * Kind.allCases.count + Int(kind.rawValue) }
}

extension PoolKey.Kind {
    init(_ environment: DeviceEnvironment) { self = environment == .production ? .production : .sandbox }
}

/// Counts pushes in flight and queues what waits for a credit or for a stream, by app and environment. Fixed at start and owned
/// by one core. (R22)
///
/// No pool takes another pool's credits. An activity whose environment is not known is treated as one of production. While
/// production is blocked, such activities get credits of their own, so that those of the sandbox are found.
final class PoolTable {
    /// The maximum number of admitted pushes of a blocked pool. They show when the pool is back. All others wait without an
    /// admission and draw on no budget.
    static let blockedInFlightMax = 64

    private struct State: ~Copyable {
        var ready: IndexQueue<UInt32>
        var awaitingCredit: IndexQueue<UInt32>
        /// Credits that commands have: their pushes are admitted and not answered.
        var creditsTaken = 0
        var progress = PoolProgress()
        /// Whether the app has such a line.
        let exists: Bool
        /// The pool that is assumed for an activity whose environment is not known.
        let assumed: PoolKey.Kind

        init(configuration: DeliveryConfiguration, activitiesMax: Int, exists: Bool, assumed: PoolKey.Kind) {
            ready = IndexQueue(limit: configuration.recordsMax)
            awaitingCredit = IndexQueue(limit: activitiesMax)
            (self.exists, self.assumed) = (exists, assumed)
        }
    }

    /// All lines of all apps.
    let lines: [PoolKey]
    private let states: UnsafeMutablePointer<State>
    private let watches: UnsafeMutablePointer<OutageWatch>
    private let inFlightMax: Int
    /// Pushes and activities that wait, in all lines.
    private(set) var queuedCount = 0
    /// A blocked pool sends again, and `takeRecovery` has not reported that yet.
    private var hasRecovery = false

    init(configuration: DeliveryConfiguration, activitiesMax: Int) {
        inFlightMax = configuration.inFlightMaxPerPool
        lines = configuration.applications.indices.flatMap { application in
            PoolKey.Kind.allCases.map { PoolKey(application: UInt16(application), kind: $0) }
        }
        watches = .allocate(capacity: lines.count)
        watches.initialize(repeating: OutageWatch(), count: lines.count)
        states = .allocate(capacity: lines.count)
        for line in lines {
            let application = configuration.applications[Int(line.application)]
            let exists =
                switch line.kind {
                case .production: application.hasProduction
                case .sandbox: application.hasSandbox
                case .unknownEnvironment: application.hasProduction && application.hasSandbox
                }
            (states + line.position)
                .initialize(
                    to: State(
                        configuration: configuration,
                        activitiesMax: activitiesMax,
                        exists: exists,
                        assumed: application.hasProduction ? .production : .sandbox
                    )
                )
        }
    }

    deinit {
        states.deinitialize(count: lines.count)
        states.deallocate()
        watches.deallocate()
    }

    func hasPool(_ pool: PoolIndex) -> Bool { states[PoolKey(pool).position].exists }

    /// The line of an activity whose environment is known as far as `kind` says. An unknown one counts as production, unless
    /// production is blocked.
    func line(of application: UInt16, _ kind: PoolKey.Kind) -> PoolKey {
        let line = PoolKey(application: application, kind: kind)
        guard kind == .unknownEnvironment else { return line }
        let assumed = PoolKey(application: application, kind: states[line.position].assumed)
        return isBlocked(assumed) && states[line.position].exists ? line : assumed
    }

    // MARK: - Credits

    func takeCredit(of line: PoolKey) -> Bool {
        guard hasCredit(of: line) else { return false }
        states[line.position].creditsTaken += 1
        return true
    }

    func returnCredit(of line: PoolKey) {
        states[line.position].creditsTaken -= 1
        precondition(states[line.position].creditsTaken >= 0, "a credit was returned that was not taken")
    }

    /// - Returns: false if the other line has no credit left.
    func moveCredit(from before: PoolKey, to line: PoolKey) -> Bool {
        guard takeCredit(of: line) else { return false }
        returnCredit(of: before)
        return true
    }

    func hasCredit(of line: PoolKey) -> Bool {
        let most = isBlocked(line) ? min(inFlightMax, Self.blockedInFlightMax) : inFlightMax
        return states[line.position].creditsTaken < most
    }

    /// The next activity that may take a credit of this line. The credit is not taken yet.
    func popForFreeCredit(of line: PoolKey) -> UInt32? { hasCredit(of: line) ? popAwaitingCredit(of: line) : nil }

    // MARK: - Queues

    func appendReady(_ record: UInt32, to line: PoolKey, now: Moment) {
        let position = line.position
        states[position].ready.append(record)
        states[position].progress.wait(now: now)
        watches[position].noteWaiting(now: now)
        queuedCount += 1
    }

    func prependReady(_ record: UInt32, to line: PoolKey) {
        states[line.position].ready.prepend(record)
        queuedCount += 1
    }

    func firstReady(of line: PoolKey) -> UInt32? { states[line.position].ready.first }

    func popReady(of line: PoolKey) -> UInt32? {
        guard let record = states[line.position].ready.popFirst() else { return nil }
        queuedCount -= 1
        return record
    }

    func readyCount(of line: PoolKey) -> Int { states[line.position].ready.count }

    func appendAwaitingCredit(_ activity: UInt32, of line: PoolKey, now: Moment) {
        states[line.position].awaitingCredit.append(activity)
        states[line.position].progress.wait(now: now)
        queuedCount += 1
    }

    func popAwaitingCredit(of line: PoolKey) -> UInt32? {
        guard let activity = states[line.position].awaitingCredit.popFirst() else { return nil }
        queuedCount -= 1
        return activity
    }

    func awaitingCreditCount(of line: PoolKey) -> Int { states[line.position].awaitingCredit.count }

    // MARK: - Outages

    /// Notes that APNs has judged a push of this line's pool, which shows that APNs works.
    func noteJudgement(of line: PoolKey, isProgress: Bool, delayMilliseconds: Int64, now: Moment) {
        let position = line.position
        watches[position].noteAlive(isAwaited: !states[position].ready.isEmpty, now: now)
        guard isProgress else { return }
        states[position].progress.countResponse()
        guard states[position].progress.isBlocked else { return }
        let waiting = waitingCount(of: line)
        states[position].progress.unblock(waiting: waiting, delayMilliseconds: delayMilliseconds, now: now)
        if !states[position].progress.isBlocked { hasRecovery = true }
    }

    /// Whether a blocked pool has begun to send again since the last call.
    func takeRecovery() -> Bool {
        defer { hasRecovery = false }
        return hasRecovery
    }

    func watch(_ line: PoolKey) -> UnsafeMutablePointer<OutageWatch> { watches + line.position }

    // MARK: - Progress

    /// Whether what waits for the line's pool will not be sent soon.
    func isBlocked(_ line: PoolKey) -> Bool { states[line.position].progress.isBlocked }

    func observe(_ line: PoolKey, patienceMilliseconds: Int64, delayMilliseconds: Int64, now: Moment) {
        // No push is counted on this line: its activities continue as soon as Redis answers.
        guard line.kind != .unknownEnvironment else { return }
        let waiting = waitingCount(of: line)
        states[line.position].progress
            .observe(
                waiting: waiting,
                patienceMilliseconds: patienceMilliseconds,
                delayMilliseconds: delayMilliseconds,
                now: now
            )
    }

    /// Begins another span for a line while the store is away. What waits for a credit then waits for the holders of the credits,
    /// and they wait for the store.
    func beginAgain(_ line: PoolKey, now: Moment) { states[line.position].progress.beginAgain(now: now) }

    private func waitingCount(of line: PoolKey) -> Int {
        states[line.position].ready.count + states[line.position].awaitingCredit.count
    }
}
