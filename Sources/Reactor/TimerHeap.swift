/// Identifies one scheduled timer. Cancelling a timer that has fired or was cancelled does nothing.
public struct TimerIdentifier: Sendable, Hashable {
    let slot: UInt32
    let generation: UInt32

    /// Identifies no timer. Cancelling it does nothing.
    public static let none = TimerIdentifier(slot: .max, generation: 0)
}

/// The scheduled timers, ordered by deadline; timers with equal deadlines are in the order of scheduling.
///
/// A binary heap has a small entry for each timer. A table of slots has the timers' other values. A slot knows the
/// position of its timer's entry in the heap, so a cancelled timer leaves the heap at once, in O(log n).
struct TimerHeap {
    /// The maximum number of timers. Only a defect reaches it: a caller that schedules timers without bound.
    static let timersMax = 1 << 22

    private struct Entry {
        var deadlineMilliseconds: Int64
        var schedulingNumber: UInt64
        var slot: UInt32

        func precedes(_ other: Entry) -> Bool {
            (deadlineMilliseconds, schedulingNumber) < (other.deadlineMilliseconds, other.schedulingNumber)
        }
    }

    private struct Slot {
        var handler: (any TimerHandler)?
        var tag: UInt64
        var generation: UInt32
        /// The position of the timer's entry in `heap`; in a free slot, the index of the next free slot.
        var position: UInt32
    }

    struct RemovedTimer {
        let handler: any TimerHandler
        let tag: UInt64
    }

    private static let noSlot = UInt32.max

    private var heap: ContiguousArray<Entry> = []
    private var slots: ContiguousArray<Slot> = []
    private var firstFreeSlot = TimerHeap.noSlot
    /// The number that the next timer gets. Timers are numbered in the order of scheduling.
    private(set) var nextSchedulingNumber: UInt64 = 0

    var count: Int { heap.count }
    var earliestDeadlineMilliseconds: Int64? { heap.first?.deadlineMilliseconds }

    mutating func insert(deadlineMilliseconds: Int64, handler: any TimerHandler, tag: UInt64) -> TimerIdentifier {
        let slot = allocateSlot(handler: handler, tag: tag)
        heap.append(
            Entry(deadlineMilliseconds: deadlineMilliseconds, schedulingNumber: nextSchedulingNumber, slot: slot)
        )
        nextSchedulingNumber &+= 1
        siftUp(heap.count - 1)
        return TimerIdentifier(slot: slot, generation: slots[Int(slot)].generation)
    }

    /// Removes a timer, and returns its handler and tag; nil if the timer has fired or was cancelled. The caller must
    /// release the handler after this call, because the handler's `deinit` may call the loop.
    mutating func remove(_ timer: TimerIdentifier) -> RemovedTimer? {
        let slot = Int(timer.slot)
        guard slot < slots.count, slots[slot].generation == timer.generation, slots[slot].handler != nil else {
            return nil
        }
        removeEntry(at: Int(slots[slot].position))
        return freeSlot(timer.slot)
    }

    /// Removes and returns the earliest timer if it is due at `nowMilliseconds` and was scheduled before the timer with
    /// the number `schedulingNumber`. Otherwise returns nil.
    mutating func popDue(at nowMilliseconds: Int64, scheduledBefore schedulingNumber: UInt64) -> RemovedTimer? {
        guard let first = heap.first, first.deadlineMilliseconds <= nowMilliseconds,
            first.schedulingNumber < schedulingNumber
        else {
            return nil
        }
        removeEntry(at: 0)
        return freeSlot(first.slot)
    }

    // MARK: - Slots of timers

    private mutating func allocateSlot(handler: any TimerHandler, tag: UInt64) -> UInt32 {
        if firstFreeSlot != TimerHeap.noSlot {
            let slot = firstFreeSlot
            firstFreeSlot = slots[Int(slot)].position
            slots[Int(slot)].handler = handler
            slots[Int(slot)].tag = tag
            return slot
        }
        precondition(slots.count < TimerHeap.timersMax, "more timers than the limit allows")
        slots.append(Slot(handler: handler, tag: tag, generation: 1, position: 0))
        return UInt32(slots.count - 1)
    }

    private mutating func freeSlot(_ slot: UInt32) -> RemovedTimer? {
        let index = Int(slot)
        let handler = slots[index].handler
        slots[index].handler = nil
        slots[index].generation &+= 1
        slots[index].position = firstFreeSlot
        firstFreeSlot = slot
        return handler.map { RemovedTimer(handler: $0, tag: slots[index].tag) }
    }

    // MARK: - Order of the heap

    private mutating func removeEntry(at position: Int) {
        let last = heap.removeLast()
        guard position < heap.count else { return }
        place(last, at: position)
        siftDown(position)
        siftUp(position)
    }

    private mutating func place(_ entry: Entry, at position: Int) {
        heap[position] = entry
        slots[Int(entry.slot)].position = UInt32(truncatingIfNeeded: position)
    }

    private mutating func siftUp(_ start: Int) {
        var position = start
        let entry = heap[position]
        while position > 0 {
            let parent = (position - 1) / 2
            guard entry.precedes(heap[parent]) else { break }
            place(heap[parent], at: position)
            position = parent
        }
        place(entry, at: position)
    }

    private mutating func siftDown(_ start: Int) {
        var position = start
        let entry = heap[position]
        while true {
            var child = 2 * position + 1
            guard child < heap.count else { break }
            if child + 1 < heap.count, heap[child + 1].precedes(heap[child]) { child += 1 }
            guard heap[child].precedes(entry) else { break }
            place(heap[child], at: position)
            position = child
        }
        place(entry, at: position)
    }
}
