/// The timers of activities: one wheel of slots. Each slot is a doubly linked list of activities.
///
/// A timer that is due beyond the wheel's span of 33 s waits in the last slot, and is set again when that slot fires.
/// The precision is one slot of 8 ms; no timer fires early.
struct TimerWheel: ~Copyable {
    static var slotCount: Int { 4096 }
    static var slotMilliseconds: Int64 { 8 }

    private struct Timer: BitwiseCopyable {
        var dueMilliseconds: Int64
        var next: ActivityIndex
        var previous: ActivityIndex
        var slot: UInt32
    }

    private var slots: UnsafeMutablePointer<ActivityIndex>
    private var timers: UnsafeMutablePointer<Timer>
    private var capacity: Int
    /// The wheel has fired all slots up to and including this tick (a monotonic time divided by
    /// `slotMilliseconds`).
    private var lastFiredTick: Int64
    private(set) var count = 0

    init(startMilliseconds: Int64) {
        slots = .allocate(capacity: Self.slotCount)
        slots.initialize(repeating: .null, count: Self.slotCount)
        capacity = 1024
        timers = .allocate(capacity: capacity)
        timers.initialize(repeating: Self.unsetTimer, count: capacity)
        lastFiredTick = startMilliseconds / Self.slotMilliseconds
    }

    deinit {
        slots.deallocate()
        timers.deallocate()
    }

    func isSet(_ index: ActivityIndex) -> Bool {
        Int(index.rawValue) < capacity && timers[Int(index.rawValue)].slot != .max
    }

    mutating func set(_ index: ActivityIndex, dueMilliseconds: Int64) {
        if Int(index.rawValue) >= capacity { grow(toHold: Int(index.rawValue)) }
        precondition(timers[Int(index.rawValue)].slot == .max, "an activity has one timer")
        // Use the slot after the one that contains the due time. A slot fires when its span begins, and a
        // timer must not fire early.
        let dueTick = max(dueMilliseconds / Self.slotMilliseconds + 1, lastFiredTick + 1)
        let tick = min(dueTick, lastFiredTick + Int64(Self.slotCount) - 1)
        let slot = Int(tick) & (Self.slotCount - 1)
        let first = slots[slot]
        timers[Int(index.rawValue)] = Timer(
            dueMilliseconds: dueMilliseconds,
            next: first,
            previous: .null,
            slot: UInt32(slot)
        )
        if first != .null { timers[Int(first.rawValue)].previous = index }
        slots[slot] = index
        count += 1
    }

    mutating func clear(_ index: ActivityIndex) {
        guard isSet(index) else { return }
        let timer = timers[Int(index.rawValue)]
        if timer.previous == .null {
            slots[Int(timer.slot)] = timer.next
        } else {
            timers[Int(timer.previous.rawValue)].next = timer.next
        }
        if timer.next != .null { timers[Int(timer.next.rawValue)].previous = timer.previous }
        timers[Int(index.rawValue)] = Self.unsetTimer
        count -= 1
    }

    /// Appends the due activities of all slots that have begun by `nowMilliseconds` to `dueIndices`.
    mutating func fire(nowMilliseconds: Int64, into dueIndices: inout IndexQueue<ActivityIndex>) {
        let nowTick = nowMilliseconds / Self.slotMilliseconds
        guard nowTick > lastFiredTick else { return }
        if count == 0 {
            lastFiredTick = nowTick
            return
        }
        // If more time passed than the wheel spans, one pass over all slots is enough.
        let lastTick = min(nowTick, lastFiredTick + Int64(Self.slotCount))
        var tick = lastFiredTick + 1
        lastFiredTick = nowTick
        while tick <= lastTick {
            fireSlot(Int(tick) & (Self.slotCount - 1), nowMilliseconds: nowMilliseconds, into: &dueIndices)
            tick += 1
        }
    }

    /// Returns when `fire` must be called next, a monotonic time; nil: no timer is set. This time is never later than
    /// the slot of the first timer, but may be earlier.
    /// - Parameter slotsSearchedMax: how many slots are searched for a timer. If all of them are empty, the time of the
    ///   last one is returned.
    func nextFireAtMilliseconds(slotsSearchedMax: Int) -> Int64? {
        guard count > 0 else { return nil }
        for ahead in 1...slotsSearchedMax {
            let tick = lastFiredTick + Int64(ahead)
            if slots[Int(tick) & (Self.slotCount - 1)] != .null { return tick * Self.slotMilliseconds }
        }
        return (lastFiredTick + Int64(slotsSearchedMax)) * Self.slotMilliseconds
    }

    private mutating func fireSlot(
        _ slot: Int,
        nowMilliseconds: Int64,
        into dueIndices: inout IndexQueue<ActivityIndex>
    ) {
        var index = slots[slot]
        slots[slot] = .null
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

    private static var unsetTimer: Timer { Timer(dueMilliseconds: 0, next: .null, previous: .null, slot: .max) }
}
