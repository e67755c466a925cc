import LiveActivity

/// The bytes of a request's body, or of a record that goes to the dead letters as it came. Records may hold the same ones.
///
/// One state goes to each activity that follows a match, so that their bodies are the same byte for byte: however many of them wait, the
/// bytes lie in memory once.
///
/// What must hold: bytes are changed only while they have one holder (`Records.ownBody`); each holder releases them once.
struct SharedBody: BitwiseCopyable {
    /// The count of holders precedes the bytes.
    private static var headerBytes: Int { 16 }

    private let block: Arena.Block
    let count: Int

    /// Of a record without a body.
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

    /// The same, to be written by their only holder.
    var room: UnsafeMutableRawBufferPointer {
        isNone
            ? UnsafeMutableRawBufferPointer(start: nil, count: 0)
            : UnsafeMutableRawBufferPointer(start: block.base + Self.headerBytes, count: count)
    }

    /// One more holder.
    func held() -> SharedBody {
        guard !isNone else { return self }
        // There are not as many records as this can count.
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

/// The body that was laid out last, as long as Apple's dictionary is the one that it was laid out from.
struct RepeatedBody: BitwiseCopyable {
    var body = SharedBody.none
    var layout = Body.Layout.none
    /// Of `RepeatedAps`; 0 is none.
    var dictionary: UInt64 = 0
}
