/// The output of one stream that waits to be sent. New bytes are appended at the tail, and sent bytes are removed at
/// the head. The bytes are always contiguous, because a write to OpenSSL takes one range of bytes.
struct OutputBuffer: ~Copyable {
    private static let initialBytes = 16 * 1024
    /// An empty buffer keeps at most this much memory, so that a burst does not occupy memory forever. The usual output
    /// of an iteration fits, for example 95 pushes of 1.3 KiB, so a busy stream does not allocate for each flush. The
    /// worker's `MemoryBudget` counts these bytes for each connection.
    static let retainedBytesMax = 128 * 1024

    private var memory = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    private var head = 0
    private var tail = 0

    deinit {
        memory.deallocate()
    }

    var count: Int { tail - head }
    var allocatedBytes: Int { memory.count }

    /// The bytes to be sent; valid until the buffer changes.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[head..<tail]) }

    /// Reserves uninitialised room for at least `count` more bytes; valid until the buffer changes.
    mutating func reserve(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if memory.count - tail < count { makeRoom(count) }
        return UnsafeMutableRawBufferPointer(rebasing: memory[tail...])
    }

    /// Appends the first `count` bytes of the reserved room.
    mutating func commit(_ count: Int) {
        precondition(count >= 0 && count <= memory.count - tail, "more was committed than was reserved")
        tail += count
    }

    /// Removes the first `count` bytes, which the socket has taken.
    mutating func consume(_ count: Int) {
        precondition(count >= 0 && count <= tail - head)
        head += count
        guard head == tail else { return }
        if memory.count > OutputBuffer.retainedBytesMax {
            removeAll()
        } else {
            head = 0
            tail = 0
        }
    }

    /// Discards the content and deallocates the memory.
    mutating func removeAll() {
        memory.deallocate()
        memory = UnsafeMutableRawBufferPointer(start: nil, count: 0)
        head = 0
        tail = 0
    }

    /// Makes room for `neededBytes` at the tail: moves the waiting bytes to the front, or allocates larger memory.
    private mutating func makeRoom(_ neededBytes: Int) {
        let usedBytes = count
        // Move the waiting bytes to the front only if the move frees at least as many bytes as it moves. So, on
        // average, a byte is moved at most once.
        if head >= usedBytes, memory.count - usedBytes >= neededBytes, let base = memory.baseAddress {
            base.copyMemory(from: base + head, byteCount: usedBytes)
        } else {
            var capacity = max(memory.count, OutputBuffer.initialBytes)
            while capacity - usedBytes < neededBytes { capacity *= 2 }
            let newMemory = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 16)
            newMemory.copyMemory(from: bytes)
            memory.deallocate()
            memory = newMemory
        }
        head = 0
        tail = usedBytes
    }
}
