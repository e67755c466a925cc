import CNghttp2
import Glibc

/// The memory of one nghttp2 session: free lists by size over chunks that are given back together.
///
/// nghttp2 allocates about five small blocks per request and frees them with its stream. With a thousand streams open,
/// malloc's per-thread caches overflow and every one of them takes its slow path; here each is a pop and a push. It also
/// puts a limit on what a hostile peer can make a session hold: past it allocation fails, and with it the connection.
struct SessionMemory: ~Copyable {
    /// Most bytes that one session may hold. 4,096 requests in flight take about 6 MiB.
    static let bytesMax = 32 << 20

    private let state: UnsafeMutablePointer<SessionMemoryState>

    /// What nghttp2 is given; it copies the struct, and holds the address of `state` in it.
    private(set) var functions: nghttp2_mem

    init() {
        state = .allocate(capacity: 1)
        state.initialize(to: SessionMemoryState())
        functions = nghttp2_mem(
            mem_user_data: UnsafeMutableRawPointer(state),
            malloc: { count, state in SessionMemoryState.of(state)?.pointee.allocate(count) },
            free: { block, state in SessionMemoryState.of(state)?.pointee.free(block) },
            calloc: { count, size, state in
                let (bytes, overflow) = count.multipliedReportingOverflow(by: size)
                guard !overflow, let block = SessionMemoryState.of(state)?.pointee.allocate(bytes) else { return nil }
                memset(block, 0, bytes)
                return block
            },
            realloc: { block, count, state in SessionMemoryState.of(state)?.pointee.reallocate(block, count) }
        )
    }

    /// Every block must have been freed: the session is deleted before its memory.
    deinit {
        state.pointee.releaseChunks()
        state.deinitialize(count: 1)
        state.deallocate()
    }

    var bytesHeld: Int { state.pointee.bytesHeld }
}

/// At a fixed address, since nghttp2 keeps it.
private struct SessionMemoryState {
    /// Before each block stands its class, in as many bytes as keep the block aligned.
    static let headerBytes = 16
    /// Blocks come in multiples of this size.
    static let classBytes = 32
    /// Blocks of this class and above are malloc's own; class 0 marks them.
    static let classCount = 65
    static let chunkBytes = 64 << 10

    var freeBlocks = InlineArray<65, UnsafeMutableRawPointer?>(repeating: nil)
    var chunks: UnsafeMutableRawPointer?
    var chunkNext: UnsafeMutableRawPointer?
    var chunkBytesLeft = 0
    var bytesHeld = 0
    var blocksHeld = 0

    static func of(_ state: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<SessionMemoryState>? {
        state?.assumingMemoryBound(to: SessionMemoryState.self)
    }

    mutating func allocate(_ count: Int) -> UnsafeMutableRawPointer? {
        guard count >= 0, count <= SessionMemory.bytesMax else { return nil }
        let classIndex = (count + Self.headerBytes + Self.classBytes - 1) / Self.classBytes
        guard classIndex < Self.classCount else { return allocateLarge(count) }
        let block: UnsafeMutableRawPointer
        if let free = freeBlocks[classIndex] {
            freeBlocks[classIndex] = free.load(as: UnsafeMutableRawPointer?.self)
            block = free
        } else {
            guard let fresh = carve(classIndex * Self.classBytes) else { return nil }
            block = fresh
        }
        block.storeBytes(of: classIndex, as: Int.self)
        blocksHeld += 1
        return block + Self.headerBytes
    }

    mutating func free(_ pointer: UnsafeMutableRawPointer?) {
        guard let pointer else { return }
        let block = pointer - Self.headerBytes
        let classIndex = block.load(as: Int.self)
        blocksHeld -= 1
        if classIndex == 0 {
            bytesHeld -= block.load(fromByteOffset: 8, as: Int.self)
            Glibc.free(block)
        } else {
            block.storeBytes(of: freeBlocks[classIndex], as: UnsafeMutableRawPointer?.self)
            freeBlocks[classIndex] = block
        }
    }

    mutating func reallocate(_ pointer: UnsafeMutableRawPointer?, _ count: Int) -> UnsafeMutableRawPointer? {
        guard let pointer else { return allocate(count) }
        let block = pointer - Self.headerBytes
        let classIndex = block.load(as: Int.self)
        let capacity =
            classIndex == 0 ? block.load(fromByteOffset: 8, as: Int.self) : classIndex * Self.classBytes
        if count <= capacity - Self.headerBytes { return pointer }
        guard let larger = allocate(count) else { return nil }
        memcpy(larger, pointer, capacity - Self.headerBytes)
        free(pointer)
        return larger
    }

    private mutating func allocateLarge(_ count: Int) -> UnsafeMutableRawPointer? {
        let bytes = count + Self.headerBytes
        guard bytesHeld + bytes <= SessionMemory.bytesMax, let block = malloc(bytes) else { return nil }
        block.storeBytes(of: 0, as: Int.self)
        block.storeBytes(of: bytes, toByteOffset: 8, as: Int.self)
        bytesHeld += bytes
        blocksHeld += 1
        return block + Self.headerBytes
    }

    /// Takes bytes from the current chunk, or from a new one; what is left of the old one is lost until the end.
    private mutating func carve(_ bytes: Int) -> UnsafeMutableRawPointer? {
        if chunkBytesLeft < bytes {
            guard bytesHeld + Self.chunkBytes <= SessionMemory.bytesMax, let chunk = malloc(Self.chunkBytes) else {
                return nil
            }
            chunk.storeBytes(of: chunks, as: UnsafeMutableRawPointer?.self)
            chunks = chunk
            chunkNext = chunk + Self.headerBytes
            chunkBytesLeft = Self.chunkBytes - Self.headerBytes
            bytesHeld += Self.chunkBytes
        }
        guard let block = chunkNext else { return nil }
        chunkNext = block + bytes
        chunkBytesLeft -= bytes
        return block
    }

    mutating func releaseChunks() {
        precondition(blocksHeld == 0, "a session outlived its memory")
        while let chunk = chunks {
            chunks = chunk.load(as: UnsafeMutableRawPointer?.self)
            Glibc.free(chunk)
        }
    }
}
