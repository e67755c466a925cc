extension UnsafeRawBufferPointer {
    /// Whether both buffers have the same bytes. The lane compares ids and tokens of each command, and `elementsEqual`
    /// would compare them byte by byte. So this function compares eight bytes at a time.
    package func hasSameBytes(as other: UnsafeRawBufferPointer) -> Bool {
        guard count == other.count else { return false }
        var byteOffset = 0
        while byteOffset + 8 <= count {
            guard
                loadUnaligned(fromByteOffset: byteOffset, as: UInt64.self)
                    == other.loadUnaligned(fromByteOffset: byteOffset, as: UInt64.self)
            else { return false }
            byteOffset += 8
        }
        while byteOffset < count {
            guard self[byteOffset] == other[byteOffset] else { return false }
            byteOffset += 1
        }
        return true
    }
}
