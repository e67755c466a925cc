import CProcessor

/// A table of elements of one trivial type. A ``SlabIndex`` names an element, until the element is freed. The memory
/// grows up to `limit` elements and never shrinks. (R3)
///
/// A freed index is used again for a new element. So an index must not be used after its element was freed, except to
/// prefetch.
///
/// The methods that run for every push are public, because Swift specializes only public generic code in other modules.
/// Otherwise the core of audiences would ask Swift's runtime for the element's size at each access. This took 11 % of a
/// round's CPU.
public struct Slab<Element: BitwiseCopyable>: ~Copyable {
    /// The elements. In front of each are a header of four bytes, and four bytes that align the element. The header is
    /// `inUseHeader`, or the index of the next free element. Each access checks the header, and traps if the element
    /// was freed.
    private var storage: UnsafeMutableRawPointer
    private var capacity: Int
    private var firstFreeIndex = SlabIndex<Element>.null
    private var everUsedCount = 0
    public private(set) var count = 0
    public let limit: Int

    private static var cacheLineBytes: Int { 64 }
    private static var elementByteOffset: Int { 8 }
    /// Bytes from one element to the next, with the header. The header of an element that needs several cache lines is
    /// at the start of a cache line.
    package static var strideBytes: Int {
        let bytes = elementByteOffset + MemoryLayout<Element>.size
        let alignmentBytes = bytes > cacheLineBytes ? cacheLineBytes : 16
        return (bytes + alignmentBytes - 1) / alignmentBytes * alignmentBytes
    }

    package init(limit: Int) {
        precondition(limit > 0 && limit < Int(UInt32.max) && MemoryLayout<Element>.alignment <= Self.elementByteOffset)
        self.limit = limit
        capacity = min(limit, 1024)
        storage = .allocate(byteCount: capacity * Self.strideBytes, alignment: Self.cacheLineBytes)
    }

    deinit { storage.deallocate() }

    public var isFull: Bool { count == limit }
    /// One above the largest index that was ever allocated: the end of a loop over all elements.
    package var indexBound: UInt32 { UInt32(everUsedCount) }

    /// Allocates an element. Inlined, so that a large element is built in place and not copied.
    @inline(__always)
    package mutating func allocate(_ element: @autoclosure () -> Element) -> SlabIndex<Element> {
        precondition(count < limit, "the slab was asked for more than its limit")
        count += 1
        let index: SlabIndex<Element>
        if firstFreeIndex != .null {
            index = firstFreeIndex
            firstFreeIndex = SlabIndex(rawValue: header(of: index))
            // Prefetch the element that the next call will allocate. It may not be in the cache, because it may have
            // been free for a long time.
            prefetch(firstFreeIndex)
        } else {
            if everUsedCount == capacity { grow() }
            index = SlabIndex(rawValue: UInt32(everUsedCount))
            everUsedCount += 1
        }
        setHeader(of: index, to: Self.inUseHeader)
        elementAddress(of: index).initialize(to: element())
        return index
    }

    /// Frees an element, whose index `allocate` then returns again. Traps if the element is not in use.
    package mutating func free(_ index: SlabIndex<Element>) {
        precondition(isInUse(index), "an element was freed twice")
        setHeader(of: index, to: firstFreeIndex.rawValue)
        firstFreeIndex = index
        count -= 1
    }

    public func isInUse(_ index: SlabIndex<Element>) -> Bool {
        Int(index.rawValue) < everUsedCount && header(of: index) == Self.inUseHeader
    }

    private func header(of index: SlabIndex<Element>) -> UInt32 {
        storage.load(fromByteOffset: Int(index.rawValue) &* Self.strideBytes, as: UInt32.self)
    }

    private func setHeader(of index: SlabIndex<Element>, to header: UInt32) {
        storage.storeBytes(of: header, toByteOffset: Int(index.rawValue) &* Self.strideBytes, as: UInt32.self)
    }

    private func elementAddress(of index: SlabIndex<Element>) -> UnsafeMutablePointer<Element> {
        (storage + (Int(index.rawValue) &* Self.strideBytes &+ Self.elementByteOffset))
            .assumingMemoryBound(to: Element.self)
    }

    /// Prefetches the first cache lines of an element that will be read soon. The element may be free, and the index
    /// may be out of range.
    func prefetch(_ index: SlabIndex<Element>) {
        guard Int(index.rawValue) < everUsedCount else { return }
        let header = storage + Int(index.rawValue) &* Self.strideBytes
        CProcessor_prefetch(header)
        CProcessor_prefetch(header + Self.cacheLineBytes)
        CProcessor_prefetch(header + 2 * Self.cacheLineBytes)
    }

    public subscript(_ index: SlabIndex<Element>) -> Element {
        unsafeAddress {
            precondition(isInUse(index))
            return UnsafePointer(elementAddress(of: index))
        }
        unsafeMutableAddress {
            precondition(isInUse(index))
            return elementAddress(of: index)
        }
    }

    /// Returns the address of an element, which is valid until the next allocation.
    public func address(of index: SlabIndex<Element>) -> UnsafePointer<Element> {
        precondition(isInUse(index))
        return UnsafePointer(elementAddress(of: index))
    }

    /// Returns the address of an element, which is valid until the next allocation.
    public mutating func mutableAddress(of index: SlabIndex<Element>) -> UnsafeMutablePointer<Element> {
        precondition(isInUse(index))
        return elementAddress(of: index)
    }

    /// Calls `body` for each element in use, for example to free what the elements own. Slow outside this module, where
    /// the compiler does not specialize this method: not for hot loops.
    package func forEachInUse(_ body: (Element) -> Void) {
        for rawIndex in 0..<indexBound {
            let index = SlabIndex<Element>(rawValue: rawIndex)
            if isInUse(index) { body(self[index]) }
        }
    }

    private mutating func grow() {
        let newCapacity = min(limit, capacity * 2)
        let newStorage = UnsafeMutableRawPointer.allocate(
            byteCount: newCapacity * Self.strideBytes,
            alignment: Self.cacheLineBytes
        )
        newStorage.copyMemory(from: storage, byteCount: everUsedCount * Self.strideBytes)
        storage.deallocate()
        storage = newStorage
        capacity = newCapacity
    }

    /// The header of an element in use. No free element has this header: a free element's header is the index of the
    /// next free element, or `SlabIndex.null` at the end of the list.
    private static var inUseHeader: UInt32 { .max - 1 }
}
