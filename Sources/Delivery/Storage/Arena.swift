/// The bytes of the core's records: blocks of a few sizes, carved out of large chunks and used again, so that a steady stream of
/// records allocates nothing.
///
/// A block above the largest class is allocated by itself; only records that are far over every limit of the domain (and so go to the
/// dead letters) need one.
struct Arena: ~Copyable {
    struct Block {
        var base: UnsafeMutableRawPointer
        var sizeClass: UInt8

        /// Stands for a block that is not there; never read, and free already.
        static var none: Block {
            Block(base: UnsafeMutableRawPointer(bitPattern: 16).unsafelyUnwrapped, sizeClass: Arena.absent)
        }
    }

    /// Powers of two from 64 bytes to 128 KiB.
    private static var classCount: Int { 12 }
    private static var smallestShift: Int { 6 }
    private static var chunkBytes: Int { 1 << 20 }
    private static var outsized: UInt8 { 255 }
    private static var absent: UInt8 { 254 }

    private var freeLists: InlineArray<12, UnsafeMutableRawPointer?> = .init(repeating: nil)
    private var chunks: [UnsafeMutableRawPointer] = []

    init() {}

    deinit {
        for chunk in chunks { chunk.deallocate() }
    }

    mutating func allocate(_ count: Int) -> Block {
        let sizeClass = Self.sizeClass(of: count)
        guard sizeClass < Self.classCount else {
            return Block(base: .allocate(byteCount: count, alignment: 16), sizeClass: Self.outsized)
        }
        if freeLists[sizeClass] == nil { carve(sizeClass) }
        guard let base = freeLists[sizeClass] else { preconditionFailure("a carved chunk gave no block") }
        freeLists[sizeClass] = base.load(as: UnsafeMutableRawPointer?.self)
        return Block(base: base, sizeClass: UInt8(sizeClass))
    }

    mutating func free(_ block: Block) {
        guard block.sizeClass < Self.classCount else {
            if block.sizeClass == Self.outsized { block.base.deallocate() }
            return
        }
        let sizeClass = Int(block.sizeClass)
        block.base.storeBytes(of: freeLists[sizeClass], as: UnsafeMutableRawPointer?.self)
        freeLists[sizeClass] = block.base
    }

    private static func sizeClass(of count: Int) -> Int {
        precondition(count >= 0)
        let rounded = max(count, 1 << smallestShift) - 1
        return Int.bitWidth - rounded.leadingZeroBitCount - smallestShift
    }

    private mutating func carve(_ sizeClass: Int) {
        let blockBytes = 1 << (sizeClass + Self.smallestShift)
        let chunkBytes = max(Self.chunkBytes, blockBytes)
        let chunk = UnsafeMutableRawPointer.allocate(byteCount: chunkBytes, alignment: 64)
        chunks.append(chunk)
        var position = 0
        while position + blockBytes <= chunkBytes {
            let block = chunk + position
            block.storeBytes(of: freeLists[sizeClass], as: UnsafeMutableRawPointer?.self)
            freeLists[sizeClass] = block
            position += blockBytes
        }
    }
}
