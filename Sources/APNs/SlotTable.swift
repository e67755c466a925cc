/// One push in flight. It stays at one index of its connection's table from submission to response.
struct Slot {
    enum Stage: UInt8 {
        /// The slot is in the list of free slots.
        case free
        /// The header is written to the connection, but the body's last byte is not. APNs cannot have
        /// processed the push.
        case queued
        /// All bytes have been written to the connection.
        case sent
    }

    var tag: UInt64 = 0
    /// The part of the body that waits until the flow-control windows have room.
    var remainingBody = UnsafeRawBufferPointer(start: nil, count: 0)
    /// `apns-id`, or `apns-request-id` of a broadcast.
    var identifier: (UInt64, UInt64) = (0, 0)
    /// When the push times out, on the loop's monotonic clock.
    var deadlineMilliseconds: Int64 = 0
    /// The wall clock when the stage became `sent`; -1 before.
    var sentAtMilliseconds: Int64 = -1
    var streamIdentifier: Int32 = 0
    /// The neighbours in the list of deadlines; -1 for none. In a free slot, `newer` is the next free slot.
    var older: Int32 = -1
    var newer: Int32 = -1
    /// The neighbours in the list of waiting bodies; -1 for none.
    var waitingBefore: Int32 = -1
    var waitingBehind: Int32 = -1
    /// The WINDOW_UPDATE increments minus the bytes sent. The stream's window is this number plus the initial
    /// window of the server's SETTINGS.
    var windowDelta: Int64 = 0
    /// Bytes of the response's body that have arrived, padding included.
    var responseBytesReceived: Int32 = 0
    /// How many more bytes of the body must arrive, according to the response's `content-length`. Undefined unless
    /// `hasContentLength`.
    var responseBytesLeft: Int32 = 0
    /// How many bytes of the response's body the table keeps for this slot.
    var responseBytes: UInt16 = 0
    /// The final `:status`; 0 before it arrives, and after a malformed response.
    var status: UInt16 = 0
    var stage = Stage.free
    /// Whether the slot is in the list of deadlines.
    var hasDeadline = false
    var isBodyWaiting = false
    var isBroadcast = false
    /// Whether the response's `content-length` announces the length of its body. False for a 204 or 304 response, which
    /// has no body in any case.
    var hasContentLength = false
}

/// The slots of one connection. Each slot has memory for the first bytes of its response's body.
///
/// The table allocates all memory once, for the most pushes that the connection may carry. The parts that
/// change are behind pointers, so that a connection can hold its table in a `let`.
struct SlotTable: ~Copyable {
    private struct Lists {
        var firstFree: Int32 = 0
        var oldest: Int32 = -1
        var newest: Int32 = -1
        var firstWaiting: Int32 = -1
        var lastWaiting: Int32 = -1
        var count = 0
    }

    /// The most bytes of a response's body that a slot keeps. APNs' own bodies have fewer than 100.
    static let responseBytesMax = 256

    let capacity: Int
    private let slots: UnsafeMutablePointer<Slot>
    private let responses: UnsafeMutablePointer<UInt8>
    private let lists: UnsafeMutablePointer<Lists>

    /// The number of pushes in flight.
    var count: Int { lists.pointee.count }
    /// The slot whose push has waited longest, first in the list of deadlines; -1 if the list is empty.
    var oldest: Int32 { lists.pointee.oldest }
    /// The slot whose body has waited longest; -1 if none waits.
    var firstWaiting: Int32 { lists.pointee.firstWaiting }

    init(capacity: Int) {
        precondition(capacity > 0)
        self.capacity = capacity
        lists = .allocate(capacity: 1)
        lists.initialize(to: Lists())
        slots = .allocate(capacity: capacity)
        responses = .allocate(capacity: capacity * Self.responseBytesMax)
        responses.initialize(repeating: 0, count: capacity * Self.responseBytesMax)
        for index in 0..<capacity {
            var slot = Slot()
            slot.newer = index + 1 < capacity ? Int32(index + 1) : -1
            slots.advanced(by: index).initialize(to: slot)
        }
    }

    deinit {
        lists.deallocate()
        slots.deallocate()
        responses.deallocate()
    }

    /// Returns the slot at an index. The pointer is valid as long as the table lives.
    func pointer(_ index: Int32) -> UnsafeMutablePointer<Slot> {
        precondition(index >= 0 && index < capacity)
        return slots + Int(index)
    }

    /// Returns the memory for a slot's response body.
    func responseMemory(_ index: Int32) -> UnsafeMutablePointer<UInt8> {
        responses + Int(index) * Self.responseBytesMax
    }

    /// Keeps the next part of a response's body, up to `responseBytesMax` in all.
    func storeResponse(_ index: Int32, _ bytes: UnsafeRawBufferPointer) {
        let slot = pointer(index)
        let keptBytes = Int(slot.pointee.responseBytes)
        let count = min(bytes.count, Self.responseBytesMax - keptBytes)
        guard count > 0 else { return }
        UnsafeMutableRawBufferPointer(start: responseMemory(index) + keptBytes, count: count)
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        slot.pointee.responseBytes = UInt16(truncatingIfNeeded: keptBytes + count)
    }

    /// Takes a free slot and appends it to the list of deadlines. All pushes of a connection have the same
    /// timeout, so the list is in the order of the deadlines.
    func allocate(deadlineMilliseconds: Int64) -> Int32 {
        let index = lists.pointee.firstFree
        let slot = pointer(index)
        precondition(slot.pointee.stage == .free)
        lists.pointee.firstFree = slot.pointee.newer
        slot.pointee = Slot()
        slot.pointee.stage = .queued
        slot.pointee.deadlineMilliseconds = deadlineMilliseconds
        slot.pointee.hasDeadline = true
        let newest = lists.pointee.newest
        slot.pointee.older = newest
        if newest >= 0 { slots[Int(newest)].newer = index } else { lists.pointee.oldest = index }
        lists.pointee.newest = index
        lists.pointee.count += 1
        return index
    }

    /// Removes a slot from the list of deadlines.
    func cancelDeadline(_ index: Int32) {
        let slot = pointer(index)
        guard slot.pointee.hasDeadline else { return }
        slot.pointee.hasDeadline = false
        let (older, newer) = (slot.pointee.older, slot.pointee.newer)
        if older >= 0 { slots[Int(older)].newer = newer } else { lists.pointee.oldest = newer }
        if newer >= 0 { slots[Int(newer)].older = older } else { lists.pointee.newest = older }
    }

    /// Appends a slot to the list of waiting bodies.
    func queueBody(_ index: Int32) {
        let slot = pointer(index)
        precondition(!slot.pointee.isBodyWaiting && slot.pointee.stage == .queued)
        slot.pointee.isBodyWaiting = true
        let last = lists.pointee.lastWaiting
        slot.pointee.waitingBefore = last
        if last >= 0 { slots[Int(last)].waitingBehind = index } else { lists.pointee.firstWaiting = index }
        lists.pointee.lastWaiting = index
    }

    func removeFromBodyQueue(_ index: Int32) {
        let slot = pointer(index)
        guard slot.pointee.isBodyWaiting else { return }
        slot.pointee.isBodyWaiting = false
        let (before, behind) = (slot.pointee.waitingBefore, slot.pointee.waitingBehind)
        if before >= 0 { slots[Int(before)].waitingBehind = behind } else { lists.pointee.firstWaiting = behind }
        if behind >= 0 { slots[Int(behind)].waitingBefore = before } else { lists.pointee.lastWaiting = before }
        slot.pointee.waitingBefore = -1
        slot.pointee.waitingBehind = -1
    }

    /// Frees a slot. The bytes of its response stay valid until the slot gets another response.
    func free(_ index: Int32) {
        cancelDeadline(index)
        removeFromBodyQueue(index)
        let slot = pointer(index)
        precondition(slot.pointee.stage != .free)
        slot.pointee.stage = .free
        slot.pointee.newer = lists.pointee.firstFree
        lists.pointee.firstFree = index
        lists.pointee.count -= 1
    }
}
