/// One push in flight. Lives at a fixed index of its connection's table from submission to answer.
struct Slot {
    enum Stage: UInt8 {
        /// In the list of free slots.
        case free
        /// Its header is out; its last byte has not been handed to the connection. APNs cannot have processed it.
        case queued
        /// Completely handed to the connection.
        case sent
    }

    var tag: UInt64 = 0
    /// The body's bytes that wait for room in the windows.
    var bodyRest = UnsafeRawBufferPointer(start: nil, count: 0)
    /// `apns-id`, of a broadcast `apns-request-id`.
    var identifier: (UInt64, UInt64) = (0, 0)
    /// By the loop's monotonic clock.
    var deadlineMilliseconds: Int64 = 0
    /// Wall clock when the stage became `sent`; -1 before.
    var sentAtMilliseconds: Int64 = -1
    var streamIdentifier: Int32 = 0
    /// The neighbours in the list of deadlines, or the next free slot; -1 for none.
    var older: Int32 = -1
    var newer: Int32 = -1
    /// The neighbours among those whose body waits; -1 for none.
    var waitingBefore: Int32 = -1
    var waitingBehind: Int32 = -1
    /// What the stream's window has gained by WINDOW_UPDATE less what was sent: its window is this above the initial one.
    var windowGain: Int64 = 0
    var retryAfterSeconds: Int32 = -1
    /// Bytes of the answer's body that came, padding included.
    var answerBytesReceived: Int32 = 0
    /// Bytes of it that are still to come by the answer's `content-length`; only looked at if there was one.
    var answerBytesLeft: Int32 = 0
    /// Bytes of it that are kept.
    var answerBytes: UInt16 = 0
    /// The final :status, 0 before.
    var status: UInt16 = 0
    var stage = Stage.free
    /// Whether it is in the list of deadlines; it leaves that list when its time runs out.
    var isTimed = false
    var isWaiting = false
    var isBroadcast = false
    /// Whether the answer has said how long its body is.
    var hasContentLength = false
}

/// The slots of one connection, and beside each the body of its answer.
///
/// Everything is allocated once, for the most pushes that the connection may carry. What changes lies behind pointers, so
/// that a connection holds its table as a constant.
struct SlotTable: ~Copyable {
    private struct Lists {
        var firstFree: Int32 = 0
        var oldest: Int32 = -1
        var newest: Int32 = -1
        var firstWaiting: Int32 = -1
        var lastWaiting: Int32 = -1
        var count = 0
    }

    /// Bytes kept of an answer's body: APNs's own are below 100, what else may come there needs no more.
    static let answerBytesMax = 256

    let capacity: Int
    private let slots: UnsafeMutablePointer<Slot>
    private let answers: UnsafeMutablePointer<UInt8>
    private let lists: UnsafeMutablePointer<Lists>

    /// Pushes in flight.
    var count: Int { lists.pointee.count }
    /// The end of the list of deadlines whose push has waited longest; -1 if it is empty.
    var oldest: Int32 { lists.pointee.oldest }
    /// The first of those whose body waits; -1 if there is none.
    var firstWaiting: Int32 { lists.pointee.firstWaiting }

    init(capacity: Int) {
        precondition(capacity > 0)
        self.capacity = capacity
        lists = .allocate(capacity: 1)
        lists.initialize(to: Lists())
        slots = .allocate(capacity: capacity)
        answers = .allocate(capacity: capacity * Self.answerBytesMax)
        answers.initialize(repeating: 0, count: capacity * Self.answerBytesMax)
        for index in 0..<capacity {
            var slot = Slot()
            slot.newer = index + 1 < capacity ? Int32(index + 1) : -1
            slots.advanced(by: index).initialize(to: slot)
        }
    }

    deinit {
        lists.deallocate()
        slots.deallocate()
        answers.deallocate()
    }

    /// The slot at an index; the pointer stays valid as long as the table.
    func pointer(_ index: Int32) -> UnsafeMutablePointer<Slot> {
        precondition(index >= 0 && index < capacity)
        return slots + Int(index)
    }

    /// The memory that holds a slot's answer body.
    func answer(_ index: Int32) -> UnsafeMutablePointer<UInt8> {
        answers + Int(index) * Self.answerBytesMax
    }

    /// Keeps a part of the answer's body, as far as there is room.
    func keepAnswer(_ index: Int32, _ bytes: UnsafeRawBufferPointer) {
        let slot = pointer(index)
        let kept = Int(slot.pointee.answerBytes)
        let count = min(bytes.count, Self.answerBytesMax - kept)
        guard count > 0 else { return }
        UnsafeMutableRawBufferPointer(start: answer(index) + kept, count: count)
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        slot.pointee.answerBytes = UInt16(truncatingIfNeeded: kept + count)
    }

    /// Takes a free slot and puts it at the young end of the list of deadlines. The deadlines of one connection are all
    /// equally long, so that the list is in the order in which they run out.
    func take(deadlineMilliseconds: Int64) -> Int32 {
        let index = lists.pointee.firstFree
        let slot = pointer(index)
        precondition(slot.pointee.stage == .free)
        lists.pointee.firstFree = slot.pointee.newer
        slot.pointee = Slot()
        slot.pointee.stage = .queued
        slot.pointee.deadlineMilliseconds = deadlineMilliseconds
        slot.pointee.isTimed = true
        let newest = lists.pointee.newest
        slot.pointee.older = newest
        if newest >= 0 { slots[Int(newest)].newer = index } else { lists.pointee.oldest = index }
        lists.pointee.newest = index
        lists.pointee.count += 1
        return index
    }

    /// Takes a slot out of the list of deadlines.
    func untime(_ index: Int32) {
        let slot = pointer(index)
        guard slot.pointee.isTimed else { return }
        slot.pointee.isTimed = false
        let (older, newer) = (slot.pointee.older, slot.pointee.newer)
        if older >= 0 { slots[Int(older)].newer = newer } else { lists.pointee.oldest = newer }
        if newer >= 0 { slots[Int(newer)].older = older } else { lists.pointee.newest = older }
    }

    /// Puts a slot behind those whose body waits.
    func wait(_ index: Int32) {
        let slot = pointer(index)
        precondition(!slot.pointee.isWaiting && slot.pointee.stage == .queued)
        slot.pointee.isWaiting = true
        let last = lists.pointee.lastWaiting
        slot.pointee.waitingBefore = last
        if last >= 0 { slots[Int(last)].waitingBehind = index } else { lists.pointee.firstWaiting = index }
        lists.pointee.lastWaiting = index
    }

    func unwait(_ index: Int32) {
        let slot = pointer(index)
        guard slot.pointee.isWaiting else { return }
        slot.pointee.isWaiting = false
        let (before, behind) = (slot.pointee.waitingBefore, slot.pointee.waitingBehind)
        if before >= 0 { slots[Int(before)].waitingBehind = behind } else { lists.pointee.firstWaiting = behind }
        if behind >= 0 { slots[Int(behind)].waitingBefore = before } else { lists.pointee.lastWaiting = before }
        slot.pointee.waitingBefore = -1
        slot.pointee.waitingBehind = -1
    }

    /// Frees a slot. Its answer stays as it is until it is taken again.
    func free(_ index: Int32) {
        untime(index)
        unwait(index)
        let slot = pointer(index)
        precondition(slot.pointee.stage != .free)
        slot.pointee.stage = .free
        slot.pointee.newer = lists.pointee.firstFree
        lists.pointee.firstFree = index
        lists.pointee.count -= 1
    }
}
