/// A first-in first-out queue of trivial values, such as slot indices. Its memory doubles when it is full, and never
/// shrinks. (R3)
///
/// The queue traps if it gets more than `limit` elements. Its owner chooses a limit that it never exceeds, so more
/// elements are a fault of the program.
package struct IndexQueue<Element: BitwiseCopyable>: ~Copyable {
    private var storage: UnsafeMutablePointer<Element>
    private var capacity: Int
    private var head = 0
    private let limit: Int
    package private(set) var count = 0

    /// - Parameter limit: the maximum number of elements that the owner can ever have in the queue.
    package init(limit: Int) {
        precondition(limit > 0)
        self.limit = limit
        capacity = 16
        storage = .allocate(capacity: capacity)
    }

    deinit { storage.deallocate() }

    package var isEmpty: Bool { count == 0 }

    /// Inlined, which saves two instructions for each call: otherwise the queues of records and of activities share one
    /// function.
    @inline(__always)
    package mutating func append(_ element: Element) {
        precondition(count < limit, "a queue of the core outgrew its limit")
        if count == capacity { grow() }
        storage[(head &+ count) & (capacity &- 1)] = element
        count &+= 1
    }

    package mutating func prepend(_ element: Element) {
        precondition(count < limit, "a queue of the core outgrew its limit")
        if count == capacity { grow() }
        head = (head &- 1) & (capacity &- 1)
        storage[head] = element
        count &+= 1
    }

    /// The element that `popFirst` removes next; nil if the queue is empty.
    package var first: Element? { count == 0 ? nil : storage[head] }

    package mutating func popFirst() -> Element? {
        guard count > 0 else { return nil }
        let element = storage[head]
        head = (head &+ 1) & (capacity &- 1)
        count &-= 1
        return element
    }

    private mutating func grow() {
        let newStorage = UnsafeMutablePointer<Element>.allocate(capacity: capacity * 2)
        for position in 0..<count {
            (newStorage + position).initialize(to: storage[(head + position) & (capacity - 1)])
        }
        storage.deallocate()
        storage = newStorage
        capacity *= 2
        head = 0
    }
}
