import LiveActivity

/// The bytes of a request's body, or of a record that goes to the dead letters unchanged. Several records may hold the same
/// bytes.
///
/// One state goes to every activity that follows a match, so their bodies are equal byte for byte. However many of them wait, the
/// bytes are in memory once.
///
/// What must hold: bytes are changed only while they have one holder (`Records.ownBody`), and each holder releases them once.
struct SharedBody: BitwiseCopyable {
    /// The count of holders precedes the bytes.
    private static var headerBytes: Int { 16 }

    private let block: Arena.Block
    let count: Int

    /// For a record without a body.
    static var none: SharedBody { SharedBody(block: .none, count: 0) }

    init(_ count: Int, in arena: inout Arena) {
        self.init(block: arena.allocate(Self.headerBytes + count), count: count)
        holders = 1
    }

    private init(block: Arena.Block, count: Int) {
        self.block = block
        self.count = count
    }

    private var holders: UInt32 {
        get { block.base.load(as: UInt32.self) }
        nonmutating set { block.base.storeBytes(of: newValue, as: UInt32.self) }
    }

    private var isNone: Bool { block.isNone }
    var isShared: Bool { !isNone && holders > 1 }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(room) }

    /// The same bytes for writing by their only holder.
    var room: UnsafeMutableRawBufferPointer {
        isNone
            ? UnsafeMutableRawBufferPointer(start: nil, count: 0)
            : UnsafeMutableRawBufferPointer(start: block.base + Self.headerBytes, count: count)
    }

    /// Adds a holder.
    func held() -> SharedBody {
        guard !isNone else { return self }
        // No overflow: there are fewer records than this can count.
        holders += 1
        return self
    }

    func release(to arena: inout Arena) {
        guard !isNone else { return }
        precondition(holders > 0, "a body was released more often than it was held")
        holders -= 1
        if holders == 0 { arena.free(block) }
    }
}

/// The last body that was laid out, and the dictionary that it was laid out from.
struct RepeatedBody: BitwiseCopyable {
    var body = SharedBody.none
    var layout = Body.Layout.none
    /// The number of the dictionary in `RepeatedAps`; 0: none.
    var dictionary: UInt64 = 0
}
