import LiveActivity

/// The body of the push to a member that joins, in the form in which the store keeps it: the body without its alert,
/// then two bytes (little-endian) that say where the timestamp is in the body.
///
/// The store may raise the timestamp above the command's. When a member joins, the core writes the raised timestamp
/// into the body at this place.
package enum JoinerBody {
    private static let timestampOffsetByteCount = 2

    /// Returns ``storedBody(_:_:)`` as an array.
    package static func storedBytes(_ body: UnsafeRawBufferPointer, _ layout: PushBody.Layout) -> [UInt8] {
        let stored = storedBody(body, layout)
        defer { stored.free() }
        return Array(stored.bytes)
    }

    /// Returns a body in the form in which the store keeps it. The caller must free the result.
    ///
    /// - Parameter layout: the layout of `body`, which has no alert.
    static func storedBody(_ body: UnsafeRawBufferPointer, _ layout: PushBody.Layout) -> HeapBytes {
        let stored = HeapBytes(count: body.count + timestampOffsetByteCount)
        stored.mutableBuffer.copyMemory(from: body)
        let timestampOffset = UInt16(truncatingIfNeeded: layout.timestampDigits.offset)
        stored.mutableBuffer.storeBytes(of: timestampOffset.littleEndian, toByteOffset: body.count, as: UInt16.self)
        return stored
    }

    /// Returns the body for a member that joins, with the timestamp that the store chose. Nil if `stored` does not have
    /// the form of ``storedBody(_:_:)``.
    static func body(of stored: UnsafeRawBufferPointer, timestamp: Int64) -> HeapBytes? {
        let bodyByteCount = stored.count - timestampOffsetByteCount
        guard bodyByteCount > 0 else { return nil }
        let timestampOffset = UInt32(
            UInt16(littleEndian: stored.loadUnaligned(fromByteOffset: bodyByteCount, as: UInt16.self))
        )
        // `PushBody.setTimestamp` overwrites ten bytes at this place, so check first that they are digits of the body.
        let digits = ByteRange(offset: timestampOffset, count: 10)
        guard digits.end <= bodyByteCount,
            digits.bytes(in: stored).allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 })
        else {
            return nil
        }
        let body = HeapBytes(copying: UnsafeRawBufferPointer(rebasing: stored[..<bodyByteCount]))
        var layout = PushBody.Layout.none
        layout.timestampDigits = digits
        PushBody.setTimestamp(timestamp, in: body.mutableBuffer, layout)
        return body
    }
}
