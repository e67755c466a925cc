import LiveActivity

/// Pushes in flight, by app, and pushes that wait for a stream, by app and environment. Fixed at start; owned by one core.
final class PoolTable {
    private let ready: UnsafeMutablePointer<IndexQueue<UInt32>>
    private let eligible: UnsafeMutablePointer<IndexQueue<UInt32>>
    private let watches: UnsafeMutablePointer<OutageWatch>
    private var onTheirWay: [Int]
    private let exists: [Bool]
    private let applicationCount: Int
    private let inFlightMax: Int

    init(configuration: DeliveryConfiguration, activitiesMax: Int) {
        applicationCount = configuration.applications.count
        inFlightMax = configuration.inFlightMaxPerApplication
        onTheirWay = Array(repeating: 0, count: applicationCount)
        exists = configuration.applications.flatMap { [$0.hasProduction, $0.hasSandbox] }
        ready = .allocate(capacity: applicationCount * 2)
        for position in 0..<applicationCount * 2 {
            (ready + position).initialize(to: IndexQueue(limit: configuration.recordsMax))
        }
        watches = .allocate(capacity: applicationCount * 2)
        watches.initialize(repeating: OutageWatch(), count: applicationCount * 2)
        eligible = .allocate(capacity: applicationCount)
        for position in 0..<applicationCount {
            (eligible + position).initialize(to: IndexQueue(limit: activitiesMax))
        }
    }

    deinit {
        ready.deinitialize(count: applicationCount * 2)
        ready.deallocate()
        eligible.deinitialize(count: applicationCount)
        eligible.deallocate()
        watches.deallocate()
    }

    func hasPool(_ pool: PoolIndex) -> Bool { exists[pool.position] }

    func takeCredit(of application: UInt16) -> Bool {
        guard onTheirWay[Int(application)] < inFlightMax else { return false }
        onTheirWay[Int(application)] += 1
        return true
    }

    func returnCredit(of application: UInt16) {
        onTheirWay[Int(application)] -= 1
        precondition(onTheirWay[Int(application)] >= 0, "a push was counted out that was not counted in")
    }

    func hasCredit(of application: UInt16) -> Bool { onTheirWay[Int(application)] < inFlightMax }

    func appendReady(_ record: UInt32, to pool: PoolIndex, now: Moment) {
        ready[pool.position].append(record)
        watches[pool.position].noteWaiting(now: now)
    }

    /// APNs has judged a push of this pool, and so is there.
    func noteAlive(_ pool: PoolIndex, now: Moment) {
        watches[pool.position].noteAlive(isAwaited: ready[pool.position].first != nil, now: now)
    }

    func watch(_ pool: PoolIndex) -> UnsafeMutablePointer<OutageWatch> { watches + pool.position }
    func prependReady(_ record: UInt32, to pool: PoolIndex) { ready[pool.position].prepend(record) }
    func firstReady(of pool: PoolIndex) -> UInt32? { ready[pool.position].first }
    func popReady(of pool: PoolIndex) -> UInt32? { ready[pool.position].popFirst() }
    func readyCount(of pool: PoolIndex) -> Int { ready[pool.position].count }

    func appendEligible(_ activity: UInt32, of application: UInt16) { eligible[Int(application)].append(activity) }
    func popEligible(of application: UInt16) -> UInt32? { eligible[Int(application)].popFirst() }
}
