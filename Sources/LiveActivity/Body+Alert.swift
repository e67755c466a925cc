/// How a body is changed when another command's alert rides on with it, and when its stale date has passed.
extension Body {
    /// In front of an alert that is put in at the dictionary's beginning; a comma follows it.
    private static let alertKey: StaticString = "\"alert\":"
    private static let comma = UInt8(ascii: ",")

    /// Bytes of a body that carries an alert of `alertCount` bytes, in place of the one that it has, if it has one.
    public static func count(_ body: UnsafeRawBufferPointer, _ layout: Layout, carryingAlertOf alertCount: Int) -> Int {
        layout.alert.isAbsent
            ? body.count + alertKey.utf8CodeUnitCount + alertCount + 1
            : body.count - Int(layout.alert.count) + alertCount
    }

    /// Writes a body with an alert, in place of the one that it has, if it has one.
    /// - Parameters:
    ///   - body: a body that ``write(_:from:into:)`` composed; its dictionary is never empty.
    ///   - alert: the value of an alert: a JSON object.
    ///   - target: room for the bytes that ``count(_:_:carryingAlertOf:)`` names, away from `body` and `alert`.
    /// - Returns: where the parts lie in `target`.
    public static func write(
        _ body: UnsafeRawBufferPointer,
        _ layout: Layout,
        carrying alert: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> Layout {
        let written = Self.count(body, layout, carryingAlertOf: alert.count)
        precondition(target.count >= written, "a body is written where there is room for it")
        let isNew = layout.alert.isAbsent
        let start = isNew ? apsOffset + 1 : Int(layout.alert.offset)
        let end = isNew ? start : layout.alert.end
        var count = 0
        func append(_ bytes: UnsafeRawBufferPointer) {
            UnsafeMutableRawBufferPointer(rebasing: target[count...]).copyMemory(from: bytes)
            count += bytes.count
        }
        append(UnsafeRawBufferPointer(rebasing: body[..<start]))
        if isNew { append(UnsafeRawBufferPointer(start: alertKey.utf8Start, count: alertKey.utf8CodeUnitCount)) }
        let alertStart = count
        append(alert)
        let alertEnd = count
        if isNew {
            target[count] = comma
            count += 1
        }
        append(UnsafeRawBufferPointer(rebasing: body[end...]))
        assert(count == written)

        let growth = written - body.count
        func moved(_ range: ByteRange) -> ByteRange {
            range.isAbsent || Int(range.offset) < start ? range : range.moved(by: growth)
        }
        var aps = layout.aps
        aps.count = UInt32(truncatingIfNeeded: Int(aps.count) + growth)
        return Layout(
            aps: aps,
            timestampDigits: moved(layout.timestampDigits),
            alert: ByteRange(from: alertStart, to: alertEnd),
            staleDateMember: moved(layout.staleDateMember),
            members: moved(layout.members)
        )
    }

    /// Bytes of a body without an alert that it carries.
    public static func count(_ body: UnsafeRawBufferPointer, withoutCarriedAlert layout: Layout) -> Int {
        body.count - alertKey.utf8CodeUnitCount - Int(layout.alert.count) - 1
    }

    /// Writes a body without the alert that ``write(_:_:carrying:into:)`` put into one that had none: as it was before.
    /// - Parameter target: room for the bytes that ``count(_:withoutCarriedAlert:)`` names, away from `body`.
    /// - Returns: where the parts lie in `target`.
    public static func write(
        _ body: UnsafeRawBufferPointer,
        _ layout: Layout,
        withoutCarriedAlertInto target: UnsafeMutableRawBufferPointer
    ) -> Layout {
        let start = apsOffset + 1
        let end = layout.alert.end + 1
        precondition(
            Int(layout.alert.offset) == start + alertKey.utf8CodeUnitCount && end < body.count
                && body[end - 1] == comma,
            "a carried alert stands at its dictionary's beginning"
        )
        target.copyMemory(from: UnsafeRawBufferPointer(rebasing: body[..<start]))
        UnsafeMutableRawBufferPointer(rebasing: target[start...])
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: body[end...]))
        func moved(_ range: ByteRange) -> ByteRange { range.isAbsent ? range : range.moved(by: start - end) }
        var aps = layout.aps
        aps.count -= UInt32(truncatingIfNeeded: end - start)
        return Layout(
            aps: aps,
            timestampDigits: moved(layout.timestampDigits),
            alert: .absent,
            staleDateMember: moved(layout.staleDateMember),
            members: moved(layout.members)
        )
    }

    /// Blanks the stale date out of a body in place: spaces stand where it stood, and the comma beside it goes too, so that
    /// what remains is a valid object. Nothing if there is none.
    public static func removeStaleDate(from body: UnsafeMutableRawBufferPointer, _ layout: inout Layout) {
        let member = layout.staleDateMember
        guard !member.isAbsent else { return }
        precondition(member.end < body.count, "a stale date is removed from the body that holds it")
        var start = Int(member.offset)
        var end = member.end
        while end < body.count, isWhitespace(body[end]) { end += 1 }
        if end < body.count, body[end] == comma {
            end += 1
        } else {
            end = member.end
            // Something stands before it: a dictionary without its event is none.
            while start > apsOffset, body[start] != comma { start -= 1 }
        }
        for place in start..<end { body[place] = UInt8(ascii: " ") }
        layout.staleDateMember = .absent
    }

    private static func isWhitespace(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r")
            || byte == UInt8(ascii: "\t")
    }
}
