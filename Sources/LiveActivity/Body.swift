/// The body of a request to APNs: Apple's dictionary and the custom keys, byte for byte as the producer wrote them.
public enum Body {
    /// In front of the dictionary's bytes.
    private static let opening: StaticString = "{\"aps\":"

    /// Bytes of the body: the opening, the dictionary, a comma and the custom keys if there are any, the closing brace.
    @inline(__always)
    static func count(aps: ByteRange, members: ByteRange) -> Int {
        opening.utf8CodeUnitCount + Int(aps.count) + (members.isAbsent ? 0 : 1 + Int(members.count)) + 1
    }

    /// Writes the body of a command.
    /// - Parameters:
    ///   - record: the bytes that `command` was decoded from.
    ///   - target: room for at least `command.bodyCount` bytes.
    /// - Returns: the bytes written, which are `command.bodyCount`, and where among them the timestamp's digits begin.
    public static func write(
        _ command: Command,
        from record: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> (count: Int, timestampOffset: Int) {
        precondition(target.count >= command.bodyCount, "a body is written where there is room for it")
        let aps = command.aps.bytes(in: record)
        var count = 0
        func append(_ bytes: UnsafeRawBufferPointer) {
            UnsafeMutableRawBufferPointer(rebasing: target[count...]).copyMemory(from: bytes)
            count += bytes.count
        }
        append(UnsafeRawBufferPointer(start: opening.utf8Start, count: opening.utf8CodeUnitCount))
        let timestampOffset = count + Int(command.timestampDigits.offset) - Int(command.aps.offset)
        append(aps)
        if !command.payloadMembers.isAbsent {
            target[count] = UInt8(ascii: ",")
            count += 1
            append(command.payloadMembers.bytes(in: record))
        }
        target[count] = UInt8(ascii: "}")
        count += 1
        assert(count == command.bodyCount)
        return (count, timestampOffset)
    }

    /// Overwrites the ten digits of a body's timestamp.
    /// - Parameters:
    ///   - timestamp: UNIX seconds; clamped to ``Limits/timestampLeast``...``Limits/timestampMost``, since it may have
    ///     been raised above one that a producer chose.
    ///   - offset: as ``write(_:from:into:)`` returned it for this body.
    public static func setTimestamp(_ timestamp: Int64, in body: UnsafeMutableRawBufferPointer, at offset: Int) {
        precondition(offset >= 0 && offset <= body.count - 10, "a timestamp is replaced where one stands")
        var rest = min(max(timestamp, Limits.timestampLeast), Limits.timestampMost)
        for place in stride(from: offset + 9, through: offset, by: -1) {
            body[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
    }
}
