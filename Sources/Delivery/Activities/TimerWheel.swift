/// The timers of activities. The wheel has a list of activities for each tick of 8 ms: 4,096 lists for the next 33 s.
/// No timer fires early; each may fire up to one tick late. A timer that is due in more than 33 s waits in the last
/// list, and is set again when that list fires.
struct TimerWheel: ~Copyable {
    static var listCount: Int { 4096 }
    static var tickMilliseconds: Int64 { 8 }

    private struct Timer: BitwiseCopyable {
        var dueMilliseconds: Int64
        var next: ActivityIndex
        var previous: ActivityIndex
        /// The index of the timer's list in `lists`; `.max`: the timer is not set.
        var listIndex: UInt32
    }

    /// The first activity of each list; `.null`: the list is empty.
    private var lists: UnsafeMutablePointer<ActivityIndex>
    private var timers: UnsafeMutablePointer<Timer>
    private var capacity: Int
    /// The last tick whose list has fired. A tick is numbered by its monotonic time divided by `tickMilliseconds`.
    private var lastFiredTick: Int64
    private(set) var count = 0

    init(nowMilliseconds: Int64) {
        lists = .allocate(capacity: Self.listCount)
        lists.initialize(repeating: .null, count: Self.listCount)
        capacity = 1024
        timers = .allocate(capacity: capacity)
        timers.initialize(repeating: Self.unsetTimer, count: capacity)
        lastFiredTick = nowMilliseconds / Self.tickMilliseconds
    }

    deinit {
        lists.deallocate()
        timers.deallocate()
    }

    func isSet(_ index: ActivityIndex) -> Bool {
        Int(index.rawValue) < capacity && timers[Int(index.rawValue)].listIndex != .max
    }

    /// Sets the timer of an activity that has none.
    mutating func set(_ index: ActivityIndex, dueMilliseconds: Int64) {
        if Int(index.rawValue) >= capacity { grow(toHold: Int(index.rawValue)) }
        precondition(timers[Int(index.rawValue)].listIndex == .max, "an activity has one timer")
        // Use the tick after the due time: a list fires when its tick begins, so the tick of the due time itself would
        // be too early.
        let dueTick = max(dueMilliseconds / Self.tickMilliseconds + 1, lastFiredTick + 1)
        let tick = min(dueTick, lastFiredTick + Int64(Self.listCount) - 1)
        let listIndex = Int(tick) & (Self.listCount - 1)
        let firstActivity = lists[listIndex]
        timers[Int(index.rawValue)] = Timer(
            dueMilliseconds: dueMilliseconds,
            next: firstActivity,
            previous: .null,
            listIndex: UInt32(listIndex)
        )
        if firstActivity != .null { timers[Int(firstActivity.rawValue)].previous = index }
        lists[listIndex] = index
        count += 1
    }

    /// Clears the timer of an activity; does nothing if it is not set.
    mutating func clear(_ index: ActivityIndex) {
        guard isSet(index) else { return }
        let timer = timers[Int(index.rawValue)]
        if timer.previous == .null {
            lists[Int(timer.listIndex)] = timer.next
        } else {
            timers[Int(timer.previous.rawValue)].next = timer.next
        }
        if timer.next != .null { timers[Int(timer.next.rawValue)].previous = timer.previous }
        timers[Int(index.rawValue)] = Self.unsetTimer
        count -= 1
    }

    /// Appends to `dueIndices` the due activities of all ticks that have begun by `nowMilliseconds`.
    mutating func fire(nowMilliseconds: Int64, into dueIndices: inout IndexQueue<ActivityIndex>) {
        let nowTick = nowMilliseconds / Self.tickMilliseconds
        guard nowTick > lastFiredTick else { return }
        if count == 0 {
            lastFiredTick = nowTick
            return
        }
        // If more than the 33 s of the wheel have passed, fire each list only once.
        let lastTick = min(nowTick, lastFiredTick + Int64(Self.listCount))
        var tick = lastFiredTick + 1
        lastFiredTick = nowTick
        while tick <= lastTick {
            fireList(Int(tick) & (Self.listCount - 1), nowMilliseconds: nowMilliseconds, into: &dueIndices)
            tick += 1
        }
    }

    /// Returns when `fire` must be called next, a monotonic time; nil: no timer is set. The time may be too early,
    /// because only some ticks are searched, but it is never too late.
    ///
    /// - Parameter ticksSearchedMax: how many ticks are searched for a timer. If none of these ticks has a timer, the
    ///   time of the last searched tick is returned.
    func nextFireAtMilliseconds(ticksSearchedMax: Int) -> Int64? {
        guard count > 0 else { return nil }
        for ticksAhead in 1...ticksSearchedMax {
            let tick = lastFiredTick + Int64(ticksAhead)
            if lists[Int(tick) & (Self.listCount - 1)] != .null { return tick * Self.tickMilliseconds }
        }
        return (lastFiredTick + Int64(ticksSearchedMax)) * Self.tickMilliseconds
    }

    /// Empties a list: appends its due activities to `dueIndices`, and sets the timers that are due later again.
    private mutating func fireList(
        _ listIndex: Int,
        nowMilliseconds: Int64,
        into dueIndices: inout IndexQueue<ActivityIndex>
    ) {
        var index = lists[listIndex]
        lists[listIndex] = .null
        while index != .null {
            let timer = timers[Int(index.rawValue)]
            timers[Int(index.rawValue)] = Self.unsetTimer
            count -= 1
            if timer.dueMilliseconds <= nowMilliseconds {
                dueIndices.append(index)
            } else {
                set(index, dueMilliseconds: timer.dueMilliseconds)
            }
            index = timer.next
        }
    }

    private mutating func grow(toHold index: Int) {
        var newCapacity = capacity
        while newCapacity <= index { newCapacity *= 2 }
        let newTimers = UnsafeMutablePointer<Timer>.allocate(capacity: newCapacity)
        newTimers.update(from: timers, count: capacity)
        (newTimers + capacity).initialize(repeating: Self.unsetTimer, count: newCapacity - capacity)
        timers.deallocate()
        timers = newTimers
        capacity = newCapacity
    }

    private static var unsetTimer: Timer { Timer(dueMilliseconds: 0, next: .null, previous: .null, listIndex: .max) }
}
