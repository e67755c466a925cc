/// One request in flight, from its first header to the end of its stream.
struct RequestSlot {
    let memory: RequestMemory
    var head = RequestHead()
    /// The number of received bytes of the body. Bytes for which `RequestMemory.bodyByteRange` has no room are counted,
    /// but not kept.
    var receivedBodyByteCount = 0
    var streamIdentifier: Int32 = 0
    /// How often the slot has been freed. A delayed response stores this number when it is scheduled. If the number has
    /// changed when the response is due, the request has ended, and the response is not sent.
    var generation: UInt32 = 0
    /// The connection of the request. A connection frees its slots before the connection itself is freed, so the
    /// reference is always valid.
    var connection: Unmanaged<ServerConnection>?
    var responseByteCount = 0
    var sentResponseByteCount = 0
    var response = SimulatedResponse.success
    /// The HTTP status if `response` is `success`: 201 for a created channel, 204 for a deleted channel, else 200.
    var successStatus = SuccessStatus.ok
    /// The body of a response that describes or lists channels. A list may be longer than the request's memory.
    var managementResponseBody: [UInt8] = []
    /// The response that Apple does not document, if a fault demands one; else nil.
    var undocumentedResponse: UndocumentedResponse?
    /// For a 410: the `timestamp` in the response, UNIX milliseconds. It is the time when the token became invalid, or
    /// the present time if a fault causes the 410.
    var tokenRetiredAtWallMilliseconds: Int64 = 0
    /// The neighbours in the list of the connection's slots, or in the slab's free list.
    var previousSlot: UnsafeMutablePointer<RequestSlot>?
    var nextSlot: UnsafeMutablePointer<RequestSlot>?
}

/// Memory for requests. A freed slot is used again without allocation. The memory of all slots is deallocated together
/// with the slab.
struct RequestSlab: ~Copyable {
    private static let slotsPerChunk = 64

    let slotsMax: Int
    private var chunks: [UnsafeMutablePointer<RequestSlot>] = []
    private var memoryBlocks: [UnsafeMutableRawPointer] = []
    private var firstFreeSlot: UnsafeMutablePointer<RequestSlot>?
    private(set) var usedSlotCount = 0

    init(slotsMax: Int) {
        self.slotsMax = slotsMax
    }

    deinit {
        for chunk in chunks {
            chunk.deinitialize(count: Self.slotsPerChunk)
            chunk.deallocate()
        }
        for block in memoryBlocks { block.deallocate() }
    }

    /// Takes and returns a free slot; nil if all slots are in use.
    mutating func allocate() -> UnsafeMutablePointer<RequestSlot>? {
        guard usedSlotCount < slotsMax else { return nil }
        if firstFreeSlot == nil { addChunk() }
        guard let slot = firstFreeSlot else { return nil }
        firstFreeSlot = slot.pointee.nextSlot
        slot.pointee.nextSlot = nil
        usedSlotCount += 1
        return slot
    }

    /// Empties a slot for another request. A delayed response to the old request is not sent any more, because the
    /// slot's `generation` changes.
    mutating func free(_ slot: UnsafeMutablePointer<RequestSlot>) {
        precondition(usedSlotCount > 0)
        slot.pointee.head = RequestHead()
        slot.pointee.receivedBodyByteCount = 0
        slot.pointee.generation &+= 1
        slot.pointee.connection = nil
        slot.pointee.responseByteCount = 0
        slot.pointee.sentResponseByteCount = 0
        slot.pointee.undocumentedResponse = nil
        slot.pointee.successStatus = .ok
        if !slot.pointee.managementResponseBody.isEmpty { slot.pointee.managementResponseBody = [] }
        slot.pointee.tokenRetiredAtWallMilliseconds = 0
        slot.pointee.previousSlot = nil
        slot.pointee.nextSlot = firstFreeSlot
        firstFreeSlot = slot
        usedSlotCount -= 1
    }

    private mutating func addChunk() {
        let block = UnsafeMutableRawPointer.allocate(
            byteCount: RequestMemory.byteCount * Self.slotsPerChunk,
            alignment: 64
        )
        let chunk = UnsafeMutablePointer<RequestSlot>.allocate(capacity: Self.slotsPerChunk)
        for index in 0..<Self.slotsPerChunk {
            let memory = RequestMemory(start: block + index * RequestMemory.byteCount)
            (chunk + index).initialize(to: RequestSlot(memory: memory))
            (chunk + index).pointee.nextSlot = firstFreeSlot
            firstFreeSlot = chunk + index
        }
        chunks.append(chunk)
        memoryBlocks.append(block)
    }
}

/// Delayed responses, in a binary heap by due time.
struct ResponseQueue {
    struct Entry {
        var dueMilliseconds: Int64
        var slot: UnsafeMutablePointer<RequestSlot>
        var generation: UInt32
    }

    /// The maximum number of entries (R4). The entry of a cancelled request stays in the queue until its due time,
    /// because to find it would mean to search the whole heap.
    static let entriesMax = 1 << 20

    private var heap: [Entry] = []

    var isFull: Bool { heap.count >= Self.entriesMax }

    var earliestDueMilliseconds: Int64? { heap.first?.dueMilliseconds }

    mutating func insert(_ entry: Entry) {
        heap.append(entry)
        var child = heap.count - 1
        while child > 0, heap[child].dueMilliseconds < heap[(child - 1) / 2].dueMilliseconds {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// Removes and returns the earliest entry if it is due.
    mutating func pop(nowMilliseconds: Int64) -> Entry? {
        guard let first = heap.first, first.dueMilliseconds <= nowMilliseconds else { return nil }
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while true {
            let left = parent * 2 + 1
            guard left < heap.count else { break }
            let right = left + 1
            let least =
                right < heap.count && heap[right].dueMilliseconds < heap[left].dueMilliseconds ? right : left
            guard heap[least].dueMilliseconds < heap[parent].dueMilliseconds else { break }
            heap.swapAt(least, parent)
            parent = least
        }
        return first
    }
}

/// The HTTP status of a successful response, which has no reason.
enum SuccessStatus: UInt8, CaseIterable {
    case ok, created, deleted

    var statusCode: Int {
        switch self {
        case .ok: 200
        case .created: 201
        case .deleted: 204
        }
    }
}
