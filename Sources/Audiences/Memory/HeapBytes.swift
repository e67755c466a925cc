/// Bytes on the heap that belong to one slot. A slot is `BitwiseCopyable` (see ``Slab``), so it cannot contain an
/// array. The owner of the slot must free these bytes. No code that runs for each push to a member may create such
/// bytes, because this allocates memory. (R3)
struct HeapBytes: BitwiseCopyable {
    private let base: UnsafeMutableRawPointer?
    let count: Int

    static var none: HeapBytes { HeapBytes(base: nil, count: 0) }

    private init(base: UnsafeMutableRawPointer?, count: Int) {
        self.base = base
        self.count = count
    }

    /// Allocates bytes, which are not initialized.
    init(count: Int) {
        self.init(base: count == 0 ? nil : .allocate(byteCount: count, alignment: 16), count: count)
    }

    init(copying bytes: UnsafeRawBufferPointer) {
        self.init(count: bytes.count)
        mutableBuffer.copyMemory(from: bytes)
    }

    var isNone: Bool { base == nil }
    var mutableBuffer: UnsafeMutableRawBufferPointer { UnsafeMutableRawBufferPointer(start: base, count: count) }
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

    func free() { base?.deallocate() }
}
