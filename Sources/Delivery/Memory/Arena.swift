/// Holds the bytes of the core's records and of the activities' ids. It allocates memory in chunks (of 1 MiB, if the
/// lane has enough memory), cuts each chunk into blocks of one size, and reuses freed blocks. So at a steady load no
/// memory is allocated. (R3)
///
/// The lists of free blocks are outside the blocks. Otherwise taking or freeing a block would read the block, which
/// would often be a cache miss.
///
/// A block above the largest size (128 KiB) is allocated separately. Only a record that is much too large to be valid
/// needs one, for its dead letter.
struct Arena: ~Copyable {
    struct Block {
        var base: UnsafeMutableRawPointer
        var sizeClass: UInt8

        /// The value for "no block". Its address is never read, and freeing it does nothing.
        static var none: Block {
            Block(base: UnsafeMutableRawPointer(bitPattern: 16).unsafelyUnwrapped, sizeClass: Arena.absentSizeClass)
        }

        var isNone: Bool { sizeClass == Arena.absentSizeClass }
    }

    /// The number of block sizes. They are powers of two, from 64 bytes to 128 KiB.
    private static var sizeClassCount: Int { 12 }
    /// The logarithm to the base 2 of the smallest size: 2⁶ = 64 bytes.
    private static var smallestSizeShift: Int { 6 }
    /// The bytes of the smallest chunk, which has one block of the largest size.
    static var chunkBytesMin: Int { 128 << 10 }
    static var chunkBytesMax: Int { 1 << 20 }
    /// The size class of a block above the largest size. `free` deallocates such a block.
    private static var outsizedSizeClass: UInt8 { 255 }
    /// The size class of `Block.none`. `free` does nothing for it.
    private static var absentSizeClass: UInt8 { 254 }

    /// A stack of the free blocks of one size. It has room for every block of this size.
    private struct FreeBlocks: BitwiseCopyable {
        var stack: UnsafeMutablePointer<UnsafeMutableRawPointer>
        var count = 0
        var capacity = 0
    }

    /// The bytes of each chunk: a power of two.
    private let chunkBytes: Int
    private let freeBlocks: UnsafeMutablePointer<FreeBlocks>
    private var chunks: [UnsafeMutableRawPointer] = []
    /// Bytes of the blocks in use, also of those above the largest size.
    private(set) var usedBlockBytes = 0
    /// Bytes of all chunks, in use or free. Blocks above the largest size are not counted.
    private(set) var allocatedChunkBytes = 0

    init(chunkBytes: Int = Arena.chunkBytesMax) {
        precondition((Self.chunkBytesMin...Self.chunkBytesMax).contains(chunkBytes) && chunkBytes.nonzeroBitCount == 1)
        self.chunkBytes = chunkBytes
        freeBlocks = .allocate(capacity: Self.sizeClassCount)
        for sizeClass in 0..<Self.sizeClassCount {
            (freeBlocks + sizeClass).initialize(to: FreeBlocks(stack: .allocate(capacity: 1)))
        }
    }

    deinit {
        for chunk in chunks { chunk.deallocate() }
        for sizeClass in 0..<Self.sizeClassCount { freeBlocks[sizeClass].stack.deallocate() }
        freeBlocks.deallocate()
    }

    /// Returns a block of at least `count` bytes, whose content is undefined.
    mutating func allocate(_ count: Int) -> Block {
        let sizeClass = Self.sizeClass(of: count)
        guard sizeClass < Self.sizeClassCount else { return allocateOutsized(count) }
        usedBlockBytes &+= Self.blockBytes(sizeClass)
        if freeBlocks[sizeClass].count == 0 { addBlocks(sizeClass) }
        let topPosition = freeBlocks[sizeClass].count &- 1
        freeBlocks[sizeClass].count = topPosition
        return Block(base: freeBlocks[sizeClass].stack[topPosition], sizeClass: UInt8(truncatingIfNeeded: sizeClass))
    }

    /// Takes a block back, so that `allocate` can return it again. Does nothing for `Block.none`.
    mutating func free(_ block: Block) {
        guard block.sizeClass < Self.sizeClassCount else {
            if block.sizeClass == Self.outsizedSizeClass { freeOutsized(block) }
            return
        }
        let sizeClass = Int(block.sizeClass)
        usedBlockBytes &-= Self.blockBytes(sizeClass)
        let count = freeBlocks[sizeClass].count
        precondition(count < freeBlocks[sizeClass].capacity, "a block was freed twice")
        freeBlocks[sizeClass].stack[count] = block.base
        freeBlocks[sizeClass].count = count &+ 1
    }

    /// Returns the smallest size class with blocks of at least `count` bytes; `sizeClassCount` or more if there is
    /// none.
    private static func sizeClass(of count: Int) -> Int {
        precondition(count >= 0)
        let lastByteIndex = max(count, 1 << smallestSizeShift) - 1
        return Int.bitWidth - lastByteIndex.leadingZeroBitCount - smallestSizeShift
    }

    private static func blockBytes(_ sizeClass: Int) -> Int { 1 << (sizeClass &+ smallestSizeShift) }

    /// Allocates a block above the largest size separately, with its size in front of it.
    private mutating func allocateOutsized(_ count: Int) -> Block {
        let allocation = UnsafeMutableRawPointer.allocate(byteCount: Self.outsizedHeaderBytes + count, alignment: 16)
        allocation.storeBytes(of: count, as: Int.self)
        usedBlockBytes += count
        return Block(base: allocation + Self.outsizedHeaderBytes, sizeClass: Self.outsizedSizeClass)
    }

    private mutating func freeOutsized(_ block: Block) {
        let allocation = block.base - Self.outsizedHeaderBytes
        usedBlockBytes -= allocation.load(as: Int.self)
        allocation.deallocate()
    }

    /// The size of the header in front of a block above the largest size. The header stores the block's size in 8
    /// bytes. It has 16 bytes, so that the block behind it is aligned to 16 bytes too.
    private static var outsizedHeaderBytes: Int { 16 }

    /// Deallocates the chunks in which every block is free, for example after a backlog. Call this rarely, because it
    /// visits every free block.
    mutating func deallocateFreeChunks() {
        var deallocatedChunks: Set<UnsafeMutableRawPointer> = []
        for sizeClass in 0..<Self.sizeClassCount {
            let (stack, count) = (freeBlocks[sizeClass].stack, freeBlocks[sizeClass].count)
            var freeBlockCounts: [UnsafeMutableRawPointer: Int] = [:]
            for position in 0..<count { freeBlockCounts[chunk(of: stack[position]), default: 0] += 1 }
            let blocksPerChunk = chunkBytes / Self.blockBytes(sizeClass)
            let freeChunks = Set(freeBlockCounts.filter { $0.value == blocksPerChunk }.keys)
            guard !freeChunks.isEmpty else { continue }
            var keptCount = 0
            for position in 0..<count where !freeChunks.contains(chunk(of: stack[position])) {
                stack[keptCount] = stack[position]
                keptCount += 1
            }
            freeBlocks[sizeClass].count = keptCount
            freeBlocks[sizeClass].capacity -= freeChunks.count * blocksPerChunk
            deallocatedChunks.formUnion(freeChunks)
        }
        chunks.removeAll { deallocatedChunks.contains($0) }
        for chunk in deallocatedChunks { chunk.deallocate() }
        allocatedChunkBytes = chunks.count * chunkBytes
    }

    /// Returns the address of the chunk that contains a block.
    private func chunk(of block: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
        block - Int(bitPattern: block) % chunkBytes
    }

    /// Allocates a chunk and cuts it into free blocks of one size. Called when this size has no free block.
    private mutating func addBlocks(_ sizeClass: Int) {
        let blockBytes = Self.blockBytes(sizeClass)
        // The chunk is aligned to its own size, so that a block's address gives its chunk.
        let chunk = UnsafeMutableRawPointer.allocate(byteCount: chunkBytes, alignment: chunkBytes)
        chunks.append(chunk)
        allocatedChunkBytes += chunkBytes
        let blocksPerChunk = chunkBytes / blockBytes
        freeBlocks[sizeClass].stack.deallocate()
        freeBlocks[sizeClass].capacity += blocksPerChunk
        freeBlocks[sizeClass].stack = .allocate(capacity: freeBlocks[sizeClass].capacity)
        freeBlocks[sizeClass].count = blocksPerChunk
        for position in 0..<blocksPerChunk {
            (freeBlocks[sizeClass].stack + position)
                .initialize(to: chunk + (blocksPerChunk - 1 - position) * blockBytes)
        }
    }
}
