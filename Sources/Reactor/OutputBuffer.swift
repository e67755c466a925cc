/// Bytes on their way out of one stream: appended at the tail, consumed at the head, always contiguous.
struct OutputBuffer: ~Copyable {
    private static let initialBytes = 16 * 1024
    /// A buffer that a burst has grown beyond this goes back when it is empty.
    private static let retainedBytes = 1024 * 1024

    private var memory = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    private var head = 0
    private var tail = 0

    deinit {
        memory.deallocate()
    }

    var count: Int { tail - head }

    /// What is to be sent; valid until the buffer changes.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[head..<tail]) }

    /// Room for `count` more bytes at least, uninitialised; valid until the buffer changes.
    mutating func reserve(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if memory.count - tail < count { makeRoom(count) }
        return UnsafeMutableRawBufferPointer(rebasing: memory[tail...])
    }

    /// Appends the first `count` bytes of what was reserved.
    mutating func commit(_ count: Int) {
        precondition(count >= 0 && count <= memory.count - tail, "more was committed than was reserved")
        tail += count
    }

    mutating func consume(_ count: Int) {
        precondition(count >= 0 && count <= tail - head)
        head += count
        guard head == tail else { return }
        if memory.count > OutputBuffer.retainedBytes {
            removeAll()
        } else {
            head = 0
            tail = 0
        }
    }

    /// Drops what is inside and gives the memory back.
    mutating func removeAll() {
        memory.deallocate()
        memory = UnsafeMutableRawBufferPointer(start: nil, count: 0)
        head = 0
        tail = 0
    }

    private mutating func makeRoom(_ room: Int) {
        let used = count
        // Moving down pays only if it frees at least as much as it moves: then each byte is moved once on average.
        if head >= used, memory.count - used >= room, let base = memory.baseAddress {
            base.copyMemory(from: base + head, byteCount: used)
        } else {
            var capacity = max(memory.count, OutputBuffer.initialBytes)
            while capacity - used < room { capacity *= 2 }
            let grown = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 16)
            grown.copyMemory(from: bytes)
            memory.deallocate()
            memory = grown
        }
        head = 0
        tail = used
    }
}
