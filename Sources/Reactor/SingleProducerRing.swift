import Synchronization

/// A queue without locks from one thread (the producer) to one other thread (the consumer) (R2). Its capacity is fixed.
///
/// Each side counts its elements, and keeps a copy of the opposite side's count. It reads the real count of the
/// opposite side only if the ring seems full or empty by the copy. So the threads rarely wait for each other's cache
/// lines.
public final class SingleProducerRing<Element: BitwiseCopyable>: @unchecked Sendable {
    /// Each side has two cache lines of 64 bytes, because processors fetch lines in pairs.
    @usableFromInline static var sideBytes: Int { 128 }

    @usableFromInline
    struct Side: ~Copyable {
        /// How many elements this side has pushed (producer) or popped (consumer). Only this side writes the number.
        @usableFromInline let pushedOrPoppedCount: Atomic<Int>
        /// The opposite side's `pushedOrPoppedCount` when this side last read it. The real count may have grown since.
        @usableFromInline var cachedOppositeCount: Int

        @usableFromInline
        init() {
            pushedOrPoppedCount = Atomic(0)
            cachedOppositeCount = 0
        }
    }

    @usableFromInline let producer: UnsafeMutablePointer<Side>
    @usableFromInline let consumer: UnsafeMutablePointer<Side>
    @usableFromInline let elements: UnsafeMutablePointer<Element>
    @usableFromInline let mask: Int
    private let sides: UnsafeMutableRawPointer

    /// - Parameter capacity: the maximum number of elements in the ring. A power of two, because a bit mask gives an
    ///   element's place.
    public init(capacity: Int) {
        precondition(capacity > 0 && capacity & (capacity - 1) == 0, "the capacity is a power of two")
        precondition(MemoryLayout<Side>.size <= Self.sideBytes)
        sides = .allocate(byteCount: 2 * Self.sideBytes, alignment: Self.sideBytes)
        producer = sides.bindMemory(to: Side.self, capacity: 1)
        consumer = (sides + Self.sideBytes).bindMemory(to: Side.self, capacity: 1)
        producer.initialize(to: Side())
        consumer.initialize(to: Side())
        elements = .allocate(capacity: capacity)
        mask = capacity - 1
    }

    deinit {
        producer.deinitialize(count: 1)
        consumer.deinitialize(count: 1)
        sides.deallocate()
        elements.deallocate()
    }

    public var capacity: Int { mask + 1 }

    /// Appends an element. Called on the producer's thread.
    ///
    /// - Returns: false, without appending, if the ring is full.
    @inlinable
    public func push(_ element: Element) -> Bool {
        let tail = producer.pointee.pushedOrPoppedCount.load(ordering: .relaxed)
        if tail &- producer.pointee.cachedOppositeCount > mask {
            producer.pointee.cachedOppositeCount = consumer.pointee.pushedOrPoppedCount.load(ordering: .acquiring)
            guard tail &- producer.pointee.cachedOppositeCount <= mask else { return false }
        }
        (elements + (tail & mask)).initialize(to: element)
        producer.pointee.pushedOrPoppedCount.store(tail &+ 1, ordering: .releasing)
        return true
    }

    /// Takes the oldest element. Called on the consumer's thread.
    ///
    /// - Returns: nil if the ring is empty.
    @inlinable
    public func pop() -> Element? {
        let head = consumer.pointee.pushedOrPoppedCount.load(ordering: .relaxed)
        if head == consumer.pointee.cachedOppositeCount {
            consumer.pointee.cachedOppositeCount = producer.pointee.pushedOrPoppedCount.load(ordering: .acquiring)
            guard head != consumer.pointee.cachedOppositeCount else { return nil }
        }
        let element = elements[head & mask]
        consumer.pointee.pushedOrPoppedCount.store(head &+ 1, ordering: .releasing)
        return element
    }

    /// Returns the element `offset` places behind the oldest, without taking it. Called on the consumer's thread.
    ///
    /// Returns nil if there is no such element. Also returns nil if the producer has pushed the element only after
    /// `pop` last read the producer's count.
    @inlinable
    public func peek(at offset: Int) -> Element? {
        let index = consumer.pointee.pushedOrPoppedCount.load(ordering: .relaxed) &+ offset
        return index < consumer.pointee.cachedOppositeCount ? elements[index & mask] : nil
    }

    /// The number of elements, between 0 and the capacity. While another thread pushes or pops, the number may already
    /// be out of date.
    @inlinable
    public var count: Int {
        let head = consumer.pointee.pushedOrPoppedCount.load(ordering: .acquiring)
        let tail = producer.pointee.pushedOrPoppedCount.load(ordering: .acquiring)
        return min(max(0, tail &- head), mask + 1)
    }
}
