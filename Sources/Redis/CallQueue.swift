/// The calls of one connection that have no reply yet, oldest first. Replies come in the same order. The capacity is
/// fixed, so that a call allocates no memory. (R3)
public struct CallQueue<Call: BitwiseCopyable>: ~Copyable {
    @usableFromInline let calls: UnsafeMutableBufferPointer<Call>
    @usableFromInline var oldestIndex = 0
    @usableFromInline var storedCount = 0

    @inlinable
    public var count: Int { storedCount }

    @inlinable
    public init(capacity: Int) {
        precondition(capacity > 0)
        calls = .allocate(capacity: capacity)
    }

    @inlinable
    deinit {
        calls.deallocate()
    }

    @inlinable
    public var oldest: Call? { count == 0 ? nil : calls[oldestIndex] }

    @inlinable
    func bufferIndex(_ index: Int) -> Int {
        let sum = oldestIndex + index
        return sum >= calls.count ? sum - calls.count : sum
    }

    /// The call at this place in the queue: 0 is the oldest call, 1 the next one, and so on.
    @inlinable
    public subscript(index: Int) -> Call {
        get {
            precondition(index >= 0 && index < count)
            return calls[bufferIndex(index)]
        }
        set {
            precondition(index >= 0 && index < count)
            calls[bufferIndex(index)] = newValue
        }
    }

    @inlinable
    public mutating func append(_ call: Call) {
        precondition(count < calls.count, "more calls are outstanding than the limit allows")
        calls.initializeElement(at: bufferIndex(count), to: call)
        storedCount += 1
    }

    @inlinable
    public mutating func removeOldest() -> Call? {
        guard count > 0 else { return nil }
        let call = calls[oldestIndex]
        oldestIndex = oldestIndex + 1 == calls.count ? 0 : oldestIndex + 1
        storedCount -= 1
        return call
    }
}
