/// Records of one trivial type, named by index: a free list over raw memory that grows to `limit` and never moves an index.
///
/// The index of a freed record is given out again, so whoever keeps an index across a free is wrong; the core frees a record only when
/// nothing outside names it any more.
struct Slab<Element: BitwiseCopyable>: ~Copyable {
    private var storage: UnsafeMutablePointer<Element>
    private var nextFree: UnsafeMutablePointer<UInt32>
    private var capacity: Int
    private var firstFree: UInt32 = .max
    private var everUsed = 0
    private(set) var count = 0
    let limit: Int

    init(limit: Int) {
        precondition(limit > 0 && limit < Int(UInt32.max))
        self.limit = limit
        capacity = min(limit, 1024)
        storage = .allocate(capacity: capacity)
        nextFree = .allocate(capacity: capacity)
    }

    deinit {
        storage.deallocate()
        nextFree.deallocate()
    }

    var isFull: Bool { count == limit }
    /// One above the largest index that was ever given out: the bound for a walk over all records.
    var indexBound: UInt32 { UInt32(everUsed) }

    mutating func allocate(_ element: Element) -> UInt32 {
        precondition(count < limit, "the slab was asked for more than its limit")
        count += 1
        let index: UInt32
        if firstFree != .max {
            index = firstFree
            firstFree = nextFree[Int(index)]
        } else {
            if everUsed == capacity { grow() }
            index = UInt32(everUsed)
            everUsed += 1
        }
        nextFree[Int(index)] = Self.inUse
        (storage + Int(index)).initialize(to: element)
        return index
    }

    mutating func free(_ index: UInt32) {
        precondition(isInUse(index), "a record was freed twice")
        nextFree[Int(index)] = firstFree
        firstFree = index
        count -= 1
    }

    func isInUse(_ index: UInt32) -> Bool { Int(index) < everUsed && nextFree[Int(index)] == Self.inUse }

    subscript(_ index: UInt32) -> Element {
        unsafeAddress {
            precondition(isInUse(index))
            return UnsafePointer(storage + Int(index))
        }
        unsafeMutableAddress {
            precondition(isInUse(index))
            return storage + Int(index)
        }
    }

    /// Valid until the next allocation.
    func address(of index: UInt32) -> UnsafePointer<Element> {
        precondition(isInUse(index))
        return UnsafePointer(storage + Int(index))
    }

    /// Valid until the next allocation.
    mutating func mutableAddress(of index: UInt32) -> UnsafeMutablePointer<Element> {
        precondition(isInUse(index))
        return storage + Int(index)
    }

    private mutating func grow() {
        let larger = min(limit, capacity * 2)
        let newStorage = UnsafeMutablePointer<Element>.allocate(capacity: larger)
        let newNextFree = UnsafeMutablePointer<UInt32>.allocate(capacity: larger)
        newStorage.update(from: storage, count: everUsed)
        newNextFree.update(from: nextFree, count: everUsed)
        storage.deallocate()
        nextFree.deallocate()
        storage = newStorage
        nextFree = newNextFree
        capacity = larger
    }

    private static var inUse: UInt32 { .max - 1 }
}
