/// One push in flight. Lives at a fixed index of its connection's table from submission to answer.
struct Slot {
    enum Stage: UInt8 {
        /// In the list of free slots.
        case free
        /// Submitted; its last byte has not been handed to the connection. APNs cannot have processed it.
        case queued
        /// Completely handed to the connection.
        case sent
    }

    var tag: UInt64 = 0
    var body = UnsafeRawBufferPointer(start: nil, count: 0)
    /// Bytes of the body that nghttp2 has taken.
    var bodySent = 0
    /// By the loop's monotonic clock.
    var deadlineMilliseconds: Int64 = 0
    /// Wall clock when the stage became `sent`; -1 before.
    var sentAtMilliseconds: Int64 = -1
    var streamIdentifier: Int32 = 0
    /// Raised each time the slot is freed, so that a handle of an earlier push is told from this one's.
    var generation: UInt32 = 0
    /// The neighbours in the list of deadlines, or the next free slot; -1 for none.
    var older: Int32 = -1
    var newer: Int32 = -1
    /// The last :status seen, 0 before.
    var status: UInt16 = 0
    /// Bytes of the answer's body that are kept.
    var answerBytes: UInt16 = 0
    var retryAfterSeconds: Int32 = -1
    /// Name and value bytes of the answer's headers so far.
    var answerHeaderBytes: Int32 = 0
    var stage = Stage.free
    /// Whether it is in the list of deadlines; it leaves that list when its time runs out, before its answer.
    var isTimed = false
}

/// The slots of one connection, and beside each the texts that nghttp2 reads in place and the answer's body.
///
/// Everything is allocated once, for the most pushes that the connection may carry. What changes lies behind pointers, so
/// that a connection holds its table as a constant: a stored struct with mutating methods would be checked for exclusive
/// access at run time, dozens of times per push.
struct SlotTable: ~Copyable {
    private struct Lists {
        var firstFree: Int32 = 0
        var oldest: Int32 = -1
        var newest: Int32 = -1
        var count = 0
        var timedCount = 0
    }

    /// Bytes kept of an answer's body: APNs's own are below 100, what else may come there needs no more.
    static let answerBytesMax = 256
    /// Offsets into a slot's text: the path first, then the two numbers.
    static let identifierOffset = PushProfileLimits.pathBytesMax
    static let expirationOffset = identifierOffset + Hexadecimal.identifierBytes + 4
    static let textBytes = expirationOffset + Decimal.digitsMax + 1

    let capacity: Int
    private let slots: UnsafeMutablePointer<Slot>
    private let texts: UnsafeMutablePointer<UInt8>
    private let answers: UnsafeMutablePointer<UInt8>
    private let pathPrefixBytes: Int
    private let lists: UnsafeMutablePointer<Lists>

    /// Pushes in flight.
    var count: Int { lists.pointee.count }
    /// How many are in the list of deadlines.
    var timedCount: Int { lists.pointee.timedCount }
    /// The end of the list of deadlines whose push has waited longest; -1 if it is empty.
    var oldest: Int32 { lists.pointee.oldest }

    init(capacity: Int, pathPrefix: String) {
        precondition(capacity > 0 && pathPrefix.utf8.count <= PushProfileLimits.pathPrefixBytesMax)
        self.capacity = capacity
        lists = .allocate(capacity: 1)
        lists.initialize(to: Lists())
        slots = .allocate(capacity: capacity)
        texts = .allocate(capacity: capacity * Self.textBytes)
        answers = .allocate(capacity: capacity * Self.answerBytesMax)
        texts.initialize(repeating: 0, count: capacity * Self.textBytes)
        answers.initialize(repeating: 0, count: capacity * Self.answerBytesMax)
        pathPrefixBytes = pathPrefix.utf8.count
        for index in 0..<capacity {
            var slot = Slot()
            slot.newer = index + 1 < capacity ? Int32(index + 1) : -1
            slots.advanced(by: index).initialize(to: slot)
            for (offset, byte) in pathPrefix.utf8.enumerated() {
                texts[index * Self.textBytes + offset] = byte
            }
        }
    }

    deinit {
        lists.deallocate()
        slots.deallocate()
        texts.deallocate()
        answers.deallocate()
    }

    /// The slot at an index; the pointer stays valid as long as the table.
    func pointer(_ index: Int32) -> UnsafeMutablePointer<Slot> {
        precondition(index >= 0 && index < capacity)
        return slots + Int(index)
    }

    /// The memory that holds a slot's path, identifier and expiration.
    func text(_ index: Int32) -> UnsafeMutablePointer<UInt8> {
        texts + Int(index) * Self.textBytes
    }

    /// The memory that holds a slot's answer body.
    func answer(_ index: Int32) -> UnsafeMutablePointer<UInt8> {
        answers + Int(index) * Self.answerBytesMax
    }

    /// Copies the device token behind the path's constant part and gives the path's length.
    func writePath(_ index: Int32, deviceToken: UnsafeRawBufferPointer) -> Int {
        precondition(deviceToken.count <= PushRequest.deviceTokenBytesMax)
        UnsafeMutableRawBufferPointer(start: text(index) + pathPrefixBytes, count: deviceToken.count)
            .copyMemory(from: deviceToken)
        return pathPrefixBytes + deviceToken.count
    }

    /// Takes a free slot and puts it at the young end of the list of deadlines. The deadlines of one connection are all
    /// equally long, so that the list is in the order in which they run out.
    func take(deadlineMilliseconds: Int64) -> Int32 {
        let index = lists.pointee.firstFree
        let slot = pointer(index)
        precondition(slot.pointee.stage == .free)
        lists.pointee.firstFree = slot.pointee.newer
        let generation = slot.pointee.generation
        slot.pointee = Slot()
        slot.pointee.generation = generation
        slot.pointee.stage = .queued
        slot.pointee.deadlineMilliseconds = deadlineMilliseconds
        slot.pointee.isTimed = true
        let newest = lists.pointee.newest
        slot.pointee.older = newest
        if newest >= 0 { slots[Int(newest)].newer = index } else { lists.pointee.oldest = index }
        lists.pointee.newest = index
        lists.pointee.count += 1
        lists.pointee.timedCount += 1
        return index
    }

    /// Takes a slot out of the list of deadlines.
    func untime(_ index: Int32) {
        let slot = pointer(index)
        guard slot.pointee.isTimed else { return }
        slot.pointee.isTimed = false
        lists.pointee.timedCount -= 1
        let (older, newer) = (slot.pointee.older, slot.pointee.newer)
        if older >= 0 { slots[Int(older)].newer = newer } else { lists.pointee.oldest = newer }
        if newer >= 0 { slots[Int(newer)].older = older } else { lists.pointee.newest = older }
    }

    /// Frees a slot. Its texts and answer stay as they are until it is taken again.
    func free(_ index: Int32) {
        untime(index)
        let slot = pointer(index)
        precondition(slot.pointee.stage != .free)
        slot.pointee.stage = .free
        slot.pointee.generation &+= 1
        slot.pointee.newer = lists.pointee.firstFree
        lists.pointee.firstFree = index
        lists.pointee.count -= 1
    }

    /// What nghttp2 carries as a stream's user data: index and generation, never an address.
    func handle(_ index: Int32) -> UnsafeMutableRawPointer? {
        let bits = UInt(pointer(index).pointee.generation) << 32 | UInt(index + 1)
        return UnsafeMutableRawPointer(bitPattern: bits)
    }

    /// The slot of a handle; nil if its push has come to its answer already.
    func index(of handle: UnsafeMutableRawPointer?) -> Int32? {
        let bits = UInt(bitPattern: handle)
        let position = Int(bits & 0xFFFF_FFFF) - 1
        guard position >= 0, position < capacity else { return nil }
        let slot = slots + position
        guard slot.pointee.stage != .free, slot.pointee.generation == UInt32(bits >> 32) else { return nil }
        return Int32(position)
    }
}

/// How much room a path takes.
enum PushProfileLimits {
    static let pathPrefixBytesMax = 24
    static let pathBytesMax = pathPrefixBytesMax + PushRequest.deviceTokenBytesMax
}
