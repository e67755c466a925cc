/// One push in flight. It stays at one index of its connection's table from submission to response.
struct PushSlot {
    enum Phase: UInt8 {
        /// The slot is in the list of free slots.
        case free
        /// The header is written to the connection, but the push's last byte is not. So APNs cannot have processed the
        /// push.
        case sending
        /// All bytes have been written to the connection; ``outputEndBytes`` says where they end.
        case sent
    }

    var tag: UInt64 = 0
    /// The part of the body that waits until the flow-control windows have room.
    var remainingBody = UnsafeRawBufferPointer(start: nil, count: 0)
    /// `apns-id`, or `apns-request-id` of a broadcast.
    var identifier: (UInt64, UInt64) = (0, 0)
    /// When the push times out, on the loop's monotonic clock.
    var deadlineMilliseconds: Int64 = 0
    /// The number of bytes in the output of the connection's `Stream` up to the end of the push. APNs can have the
    /// whole push only if the socket has taken so many (`Stream.takenOutputBytes`). Valid only in the phase `sent`.
    var outputEndBytes: Int64 = 0
    /// The wall clock when the push entered the phase `sent`, UNIX milliseconds; nil before.
    var sentAtWallMilliseconds: Int64?
    /// Whether the slot is in the list of deadlines. (Declared here, it fills a gap between other fields.)
    var isInDeadlineList = false
    var streamIdentifier: Int32 = 0
    /// The neighbours in the list of deadlines; -1 for none. In a free slot, `newerIndex` is the next free slot.
    var olderIndex: Int32 = -1
    var newerIndex: Int32 = -1
    /// The neighbours in the list of waiting bodies; -1 for none.
    var previousWaitingIndex: Int32 = -1
    var nextWaitingIndex: Int32 = -1
    /// How far the stream's send window differs from the initial window: sent bytes lower the number, and
    /// WINDOW_UPDATE frames raise it. For example, -300 after 300 bytes. The window itself is not stored, because new
    /// SETTINGS may change the initial window while the stream is open (RFC 9113, section 6.9.2).
    var windowDeltaBytes: Int64 = 0
    /// Bytes of the response's body that have arrived, padding included.
    var receivedResponseBytes: Int32 = 0
    /// How many more bytes of the response's body must arrive, according to its `content-length`. Valid only if
    /// `hasContentLength` is true.
    var remainingResponseBytes: Int32 = 0
    /// How many bytes of the response's body the table keeps for this slot.
    var keptResponseBytes: UInt16 = 0
    /// The final `:status`; 0 before it arrives, and after a malformed response.
    var status: UInt16 = 0
    var phase = Phase.free
    var isBodyWaiting = false
    var isBroadcast = false
    /// Whether the response's `content-length` announces the length of its body. False for a 204 or 304 response, which
    /// has no body.
    var hasContentLength = false
}

/// The slots of one connection, each with memory for the first bytes of its response's body. All memory is allocated
/// once, for the maximum number of pushes in flight. What changes is behind pointers, so that a connection can hold its
/// table in a `let`.
struct PushSlotTable: ~Copyable {
    /// The first and the last slots of the table's lists, and the number of pushes in flight. An index is -1 if its
    /// list is empty.
    private struct ListHeads {
        var firstFreeIndex: Int32 = 0
        var oldestIndex: Int32 = -1
        var newestIndex: Int32 = -1
        var firstWaitingIndex: Int32 = -1
        var lastWaitingIndex: Int32 = -1
        var count = 0
    }

    /// How many bytes of a response's body a slot keeps at most. APNs' own bodies have fewer than 100.
    static let keptResponseBytesMax = 256

    let capacity: Int
    private let slots: UnsafeMutablePointer<PushSlot>
    private let responseBodies: UnsafeMutablePointer<UInt8>
    private let listHeads: UnsafeMutablePointer<ListHeads>

    /// The number of pushes in flight.
    var count: Int { listHeads.pointee.count }
    /// The slot of the push that has waited longest for its response, first in the list of deadlines; -1 if the list is
    /// empty.
    var oldestIndex: Int32 { listHeads.pointee.oldestIndex }
    /// The slot of the push body that has waited longest to be sent; -1 if no body waits.
    var firstWaitingIndex: Int32 { listHeads.pointee.firstWaitingIndex }

    init(capacity: Int) {
        precondition(capacity > 0)
        self.capacity = capacity
        listHeads = .allocate(capacity: 1)
        listHeads.initialize(to: ListHeads())
        slots = .allocate(capacity: capacity)
        responseBodies = .allocate(capacity: capacity * Self.keptResponseBytesMax)
        responseBodies.initialize(repeating: 0, count: capacity * Self.keptResponseBytesMax)
        for index in 0..<capacity {
            var slot = PushSlot()
            slot.newerIndex = index + 1 < capacity ? Int32(index + 1) : -1
            slots.advanced(by: index).initialize(to: slot)
        }
    }

    deinit {
        listHeads.deallocate()
        slots.deallocate()
        responseBodies.deallocate()
    }

    /// Returns the slot at an index. The pointer is valid as long as the table lives.
    func pointer(_ index: Int32) -> UnsafeMutablePointer<PushSlot> {
        precondition(index >= 0 && index < capacity)
        return slots + Int(index)
    }

    /// The memory for the first bytes of a response's body, `keptResponseBytesMax` in all.
    func responseBodyMemory(_ index: Int32) -> UnsafeMutablePointer<UInt8> {
        responseBodies + Int(index) * Self.keptResponseBytesMax
    }

    /// Keeps the next part of a response's body, up to `keptResponseBytesMax` in all.
    func keepResponseBody(_ index: Int32, _ bytes: UnsafeRawBufferPointer) {
        let slot = pointer(index)
        let keptBytes = Int(slot.pointee.keptResponseBytes)
        let count = min(bytes.count, Self.keptResponseBytesMax - keptBytes)
        guard count > 0 else { return }
        UnsafeMutableRawBufferPointer(start: responseBodyMemory(index) + keptBytes, count: count)
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        slot.pointee.keptResponseBytes = UInt16(truncatingIfNeeded: keptBytes + count)
    }

    /// Takes a free slot and appends it to the list of deadlines. All pushes of a connection have the same
    /// timeout, so the list is in the order of the deadlines.
    func allocate(deadlineMilliseconds: Int64) -> Int32 {
        let index = listHeads.pointee.firstFreeIndex
        let slot = pointer(index)
        precondition(slot.pointee.phase == .free)
        listHeads.pointee.firstFreeIndex = slot.pointee.newerIndex
        slot.pointee = PushSlot()
        slot.pointee.phase = .sending
        slot.pointee.deadlineMilliseconds = deadlineMilliseconds
        slot.pointee.isInDeadlineList = true
        let newestIndex = listHeads.pointee.newestIndex
        slot.pointee.olderIndex = newestIndex
        if newestIndex >= 0 {
            slots[Int(newestIndex)].newerIndex = index
        } else {
            listHeads.pointee.oldestIndex = index
        }
        listHeads.pointee.newestIndex = index
        listHeads.pointee.count += 1
        return index
    }

    func removeFromDeadlines(_ index: Int32) {
        let slot = pointer(index)
        guard slot.pointee.isInDeadlineList else { return }
        slot.pointee.isInDeadlineList = false
        let (olderIndex, newerIndex) = (slot.pointee.olderIndex, slot.pointee.newerIndex)
        if olderIndex >= 0 {
            slots[Int(olderIndex)].newerIndex = newerIndex
        } else {
            listHeads.pointee.oldestIndex = newerIndex
        }
        if newerIndex >= 0 {
            slots[Int(newerIndex)].olderIndex = olderIndex
        } else {
            listHeads.pointee.newestIndex = olderIndex
        }
    }

    func appendToWaitingBodies(_ index: Int32) {
        let slot = pointer(index)
        precondition(!slot.pointee.isBodyWaiting && slot.pointee.phase == .sending)
        slot.pointee.isBodyWaiting = true
        let lastIndex = listHeads.pointee.lastWaitingIndex
        slot.pointee.previousWaitingIndex = lastIndex
        if lastIndex >= 0 {
            slots[Int(lastIndex)].nextWaitingIndex = index
        } else {
            listHeads.pointee.firstWaitingIndex = index
        }
        listHeads.pointee.lastWaitingIndex = index
    }

    func removeFromWaitingBodies(_ index: Int32) {
        let slot = pointer(index)
        guard slot.pointee.isBodyWaiting else { return }
        slot.pointee.isBodyWaiting = false
        let (previousIndex, nextIndex) = (slot.pointee.previousWaitingIndex, slot.pointee.nextWaitingIndex)
        if previousIndex >= 0 {
            slots[Int(previousIndex)].nextWaitingIndex = nextIndex
        } else {
            listHeads.pointee.firstWaitingIndex = nextIndex
        }
        if nextIndex >= 0 {
            slots[Int(nextIndex)].previousWaitingIndex = previousIndex
        } else {
            listHeads.pointee.lastWaitingIndex = previousIndex
        }
        slot.pointee.previousWaitingIndex = -1
        slot.pointee.nextWaitingIndex = -1
    }

    /// Frees a slot. The bytes of its response stay valid until the slot gets another response.
    func free(_ index: Int32) {
        removeFromDeadlines(index)
        removeFromWaitingBodies(index)
        let slot = pointer(index)
        precondition(slot.pointee.phase != .free)
        slot.pointee.phase = .free
        slot.pointee.newerIndex = listHeads.pointee.firstFreeIndex
        listHeads.pointee.firstFreeIndex = index
        listHeads.pointee.count -= 1
    }
}
