import LiveActivity

/// The bytes of a push's request body, or of a value that goes to the dead letters. Several records may share them. For
/// example, one state of a match is sent to every activity that follows the match. If the lane reads these commands one
/// after another, the bytes are in memory only once.
///
/// What must hold: bytes are changed only while they have one reference (`Records.copyBodyIfShared`), and each
/// reference is released once.
struct SharedBody: BitwiseCopyable {
    /// The size of the header in front of the bytes. The header has the reference count. With a header of 16 bytes, the
    /// bytes behind it stay aligned.
    private static var headerBytes: Int { 16 }

    private let block: Arena.Block
    let byteCount: Int

    static var none: SharedBody { SharedBody(block: .none, byteCount: 0) }

    /// Allocates bytes with one reference.
    init(_ byteCount: Int, in arena: inout Arena) {
        self.init(block: arena.allocate(Self.headerBytes + byteCount), byteCount: byteCount)
        referenceCount = 1
    }

    private init(block: Arena.Block, byteCount: Int) {
        self.block = block
        self.byteCount = byteCount
    }

    private var referenceCount: UInt32 {
        get { block.base.load(as: UInt32.self) }
        nonmutating set { block.base.storeBytes(of: newValue, as: UInt32.self) }
    }

    private var isNone: Bool { block.isNone }
    var isShared: Bool { !isNone && referenceCount > 1 }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(mutableBuffer) }

    /// The bytes for writing. Write only while the bytes have one reference.
    var mutableBuffer: UnsafeMutableRawBufferPointer {
        isNone
            ? UnsafeMutableRawBufferPointer(start: nil, count: 0)
            : UnsafeMutableRawBufferPointer(start: block.base + Self.headerBytes, count: byteCount)
    }

    /// Returns the same bytes with one more reference.
    func retain() -> SharedBody {
        guard !isNone else { return self }
        // The reference count cannot overflow: each reference belongs to a record or to `bodyCache`, and a lane has
        // fewer than `UInt32.max` records.
        referenceCount += 1
        return self
    }

    /// Removes one reference. Frees the bytes when none is left.
    func release(to arena: inout Arena) {
        guard !isNone else { return }
        precondition(referenceCount > 0, "a body was released more often than it was retained")
        referenceCount -= 1
        if referenceCount == 0 { arena.free(block) }
    }
}

/// The last body that `Records` made for a command. The next command with the same `aps` dictionary shares this body:
/// `ApsCache` gives equal dictionaries the same number.
struct BodyCache: BitwiseCopyable {
    var body = SharedBody.none
    var bodyLayout = PushBody.Layout.none
    /// The number that `ApsCache` gave to the dictionary; 0: none.
    var apsDictionaryNumber: UInt64 = 0
}
