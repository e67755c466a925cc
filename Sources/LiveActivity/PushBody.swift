/// The body of a request to APNs: `{"aps":DICTIONARY,KEYS}`, or `{"aps":DICTIONARY}` without custom keys.
///
/// The dictionary and the keys are byte for byte as in the command's record, or as in its shortened copy if fields were
/// dropped (R33). After a body is written, only its timestamp and its alert may be changed.
public enum PushBody {
    /// The bytes before the dictionary.
    private static let opening: StaticString = "{\"aps\":"
    /// The position of Apple's dictionary in a body, which is the length of `opening`.
    static let apsByteOffset = 7

    /// The positions of a body's parts, counted from its first byte.
    public struct Layout: Equatable, Sendable, BitwiseCopyable {
        /// Apple's dictionary, including its braces.
        public var aps: ByteRange
        /// The ten digits of the timestamp.
        public var timestampDigits: ByteRange
        /// The value of the alert; absent if there is none.
        public var alert: ByteRange
        /// The custom keys without braces; absent if there are none.
        public var payloadMembers: ByteRange

        /// The layout of a body that does not exist: all parts are absent.
        public static let none = Layout(
            aps: .absent,
            timestampDigits: .absent,
            alert: .absent,
            payloadMembers: .absent
        )
    }

    /// Returns the length of a body with these parts of a record.
    @inline(__always)
    static func byteCount(aps: ByteRange, payloadMembers: ByteRange) -> Int {
        opening.utf8CodeUnitCount + Int(aps.count) + (payloadMembers.isAbsent ? 0 : 1 + Int(payloadMembers.count)) + 1
    }

    /// Writes the body of a command.
    ///
    /// - Parameters:
    ///   - record: the bytes from which `command` was decoded.
    ///   - target: has room for at least `command.bodyByteCount` bytes.
    /// - Returns: the positions of the parts.
    public static func write(
        _ command: Command,
        from record: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> Layout {
        precondition(target.count >= command.bodyByteCount, "there is no room for the body")
        let aps = command.aps.bytes(in: record)
        var writtenByteCount = 0
        func append(_ bytes: UnsafeRawBufferPointer) {
            UnsafeMutableRawBufferPointer(rebasing: target[writtenByteCount...]).copyMemory(from: bytes)
            writtenByteCount += bytes.count
        }
        append(UnsafeRawBufferPointer(start: opening.utf8Start, count: opening.utf8CodeUnitCount))
        let distance = writtenByteCount - Int(command.aps.offset)
        var layout = Layout(
            aps: command.aps.moved(by: distance),
            timestampDigits: command.timestampDigits.moved(by: distance),
            alert: command.alert.moved(by: distance),
            payloadMembers: .absent
        )
        append(aps)
        if !command.payloadMembers.isAbsent {
            target[writtenByteCount] = UInt8(ascii: ",")
            writtenByteCount += 1
            let payloadDistance = writtenByteCount - Int(command.payloadMembers.offset)
            layout.payloadMembers = command.payloadMembers.moved(by: payloadDistance)
            append(command.payloadMembers.bytes(in: record))
        }
        target[writtenByteCount] = UInt8(ascii: "}")
        writtenByteCount += 1
        assert(writtenByteCount == command.bodyByteCount)
        return layout
    }

    /// Whether a body already has this timestamp, so that ``setTimestamp(_:in:_:)`` would change nothing.
    public static func hasTimestamp(_ timestamp: Int64, in body: UnsafeRawBufferPointer, _ layout: Layout) -> Bool {
        let digits = layout.timestampDigits.bytes(in: body)
        let number = digits.reduce(Int64(0)) { $0 &* 10 &+ Int64($1 &- UInt8(ascii: "0")) }
        return number == min(max(timestamp, Limits.timestampMin), Limits.timestampMax)
    }

    /// Overwrites the ten digits of a body's timestamp. Redis may have raised the timestamp above the last one sent
    /// (R11).
    ///
    /// - Parameters:
    ///   - timestamp: UNIX seconds. Clamped to ``Limits/timestampMin``...``Limits/timestampMax``, so that the number
    ///     always has ten digits.
    ///   - layout: this body's layout.
    public static func setTimestamp(
        _ timestamp: Int64,
        in body: UnsafeMutableRawBufferPointer,
        _ layout: Layout
    ) {
        let digits = layout.timestampDigits
        precondition(digits.count == 10 && digits.end <= body.count, "the body has no timestamp of ten digits")
        var remainingNumber = min(max(timestamp, Limits.timestampMin), Limits.timestampMax)
        for position in stride(from: digits.end - 1, through: Int(digits.offset), by: -1) {
            body[position] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: remainingNumber % 10)
            remainingNumber /= 10
        }
    }

    /// Returns a digest of everything that a phone can display: the custom keys, and Apple's dictionary without the
    /// digits of its timestamp. So bodies that differ only in the timestamp have the same digest, on every machine and
    /// in every release. Redis compares the digest with the digest of the state that was sent last.
    public static func digest(_ body: UnsafeRawBufferPointer, _ layout: Layout) -> UInt64 {
        var digest = Digest()
        digest.add(layout.aps, without: layout.timestampDigits, of: body)
        if !layout.payloadMembers.isAbsent { digest.add(layout.payloadMembers.bytes(in: body)) }
        return digest.value
    }
}
