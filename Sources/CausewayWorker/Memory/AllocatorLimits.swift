import CAllocator

/// The limits of the memory that glibc's allocator keeps for later although the program has freed it. (R4)
///
/// Without them, glibc raises its limits whenever the program frees a large block, up to 32 and 64 MiB. The
/// decompressed records of a backlog then come from heaps, and the heaps keep their memory for good: after 495,000
/// records from three brokers, a consumer kept 397 MiB more than before, and 9 MiB with these limits (Measurements.md).
package enum AllocatorLimits {
    /// A block of at least this size is mapped by itself, so its memory returns to the system when it is freed. This is
    /// glibc's value at the start.
    static let mappedBlockBytesMin: Int32 = 128 << 10
    /// A heap returns the unused memory at its top to the system when it is larger than this.
    static let unusedTopBytesMax: Int32 = 1 << 20

    /// Sets the limits of this process. Call it at the start, because glibc raises its limits while the process runs.
    package static func apply() {
        CAllocator_setLimits(mappedBlockBytesMin, unusedTopBytesMax)
    }
}
