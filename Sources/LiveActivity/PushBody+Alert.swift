/// Puts another command's alert into a body, or removes a body's alert, for example because the alert is too old.
extension PushBody {
    /// An alert is inserted at the dictionary's beginning: first this key, then the alert, then a comma.
    private static let alertKey: StaticString = "\"alert\":"
    private static let comma = UInt8(ascii: ",")

    /// Returns the length of a body with another alert of `alertBytes` bytes. This alert replaces the body's own alert,
    /// or is inserted if the body has none.
    public static func byteCount(_ body: UnsafeRawBufferPointer, _ layout: Layout, carryingAlertBytes alertBytes: Int)
        -> Int
    {
        layout.alert.isAbsent
            ? body.count + alertKey.utf8CodeUnitCount + alertBytes + 1
            : body.count - Int(layout.alert.count) + alertBytes
    }

    /// Writes a body with another alert. The alert replaces the body's own alert, if there is one.
    ///
    /// - Parameters:
    ///   - body: a body that a function of ``PushBody`` wrote; its dictionary is never empty.
    ///   - alert: the value of an alert: a JSON object.
    ///   - target: has room for ``byteCount(_:_:carryingAlertBytes:)`` bytes and does not overlap `body` or `alert`.
    /// - Returns: the positions of the parts in `target`.
    public static func write(
        _ body: UnsafeRawBufferPointer,
        _ layout: Layout,
        carrying alert: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> Layout {
        let newByteCount = Self.byteCount(body, layout, carryingAlertBytes: alert.count)
        precondition(target.count >= newByteCount, "there is no room for the body")
        let isInserted = layout.alert.isAbsent
        let start = isInserted ? apsByteOffset + 1 : Int(layout.alert.offset)
        let end = isInserted ? start : layout.alert.end
        var writtenByteCount = 0
        func append(_ bytes: UnsafeRawBufferPointer) {
            UnsafeMutableRawBufferPointer(rebasing: target[writtenByteCount...]).copyMemory(from: bytes)
            writtenByteCount += bytes.count
        }
        append(UnsafeRawBufferPointer(rebasing: body[..<start]))
        if isInserted { append(UnsafeRawBufferPointer(start: alertKey.utf8Start, count: alertKey.utf8CodeUnitCount)) }
        let alertStart = writtenByteCount
        append(alert)
        let alertEnd = writtenByteCount
        if isInserted {
            target[writtenByteCount] = comma
            writtenByteCount += 1
        }
        append(UnsafeRawBufferPointer(rebasing: body[end...]))
        assert(writtenByteCount == newByteCount)

        let growthBytes = newByteCount - body.count
        func movedIfBehindAlert(_ range: ByteRange) -> ByteRange {
            range.isAbsent || Int(range.offset) < start ? range : range.moved(by: growthBytes)
        }
        var aps = layout.aps
        aps.count = UInt32(truncatingIfNeeded: Int(aps.count) + growthBytes)
        return Layout(
            aps: aps,
            timestampDigits: movedIfBehindAlert(layout.timestampDigits),
            alert: ByteRange(from: alertStart, to: alertEnd),
            payloadMembers: movedIfBehindAlert(layout.payloadMembers)
        )
    }

    /// Returns the length of a body without its alert. The body must have an alert.
    public static func byteCountWithoutAlert(_ body: UnsafeRawBufferPointer, _ layout: Layout) -> Int {
        body.count - alertMemberRange(of: body, layout).count
    }

    /// Writes a body without its alert, as if the producer had written none. The body must have an alert.
    ///
    /// - Parameter target: has room for ``byteCountWithoutAlert(_:_:)`` bytes and does not overlap `body`.
    /// - Returns: the positions of the parts in `target`.
    public static func writeWithoutAlert(
        _ body: UnsafeRawBufferPointer,
        _ layout: Layout,
        into target: UnsafeMutableRawBufferPointer
    ) -> Layout {
        let removedRange = alertMemberRange(of: body, layout)
        precondition(target.count >= body.count - removedRange.count, "there is no room for the body")
        target.copyMemory(from: UnsafeRawBufferPointer(rebasing: body[..<removedRange.lowerBound]))
        UnsafeMutableRawBufferPointer(rebasing: target[removedRange.lowerBound...])
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: body[removedRange.upperBound...]))

        func movedIfBehindAlert(_ range: ByteRange) -> ByteRange {
            range.isAbsent || Int(range.offset) < removedRange.lowerBound ? range : range.moved(by: -removedRange.count)
        }
        var aps = layout.aps
        aps.count -= UInt32(truncatingIfNeeded: removedRange.count)
        return Layout(
            aps: aps,
            timestampDigits: movedIfBehindAlert(layout.timestampDigits),
            alert: .absent,
            payloadMembers: movedIfBehindAlert(layout.payloadMembers)
        )
    }

    /// Returns the range of the bytes to remove: the alert's key, its value, and one comma. This is the comma after the
    /// value or, if there is none, the comma before the key. One of the two commas exists, because `aps` has other
    /// required keys.
    private static func alertMemberRange(of body: UnsafeRawBufferPointer, _ layout: Layout) -> Range<Int> {
        let quote = UInt8(ascii: "\"")
        // Finds the two quotes around the key, from right to left. Between them is `alert`, perhaps with escapes such
        // as `\u0061`, but without a quote.
        var start = Int(layout.alert.offset) - 1
        for _ in 0..<2 {
            while body[start] != quote { start -= 1 }
            start -= 1
        }
        start += 1
        var end = layout.alert.end
        var next = end
        while isWhitespace(body[next]) { next += 1 }
        if body[next] == comma {
            end = next + 1
        } else {
            while body[start] != comma { start -= 1 }
        }
        return start..<end
    }

    private static func isWhitespace(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r")
            || byte == UInt8(ascii: "\t")
    }
}
