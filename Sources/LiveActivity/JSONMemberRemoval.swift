/// Removes keys with their values from a JSON object in place, and closes the gaps.
///
/// Invariant: `writtenByteCount` <= `copyStart` <= the position that is read. So a byte is overwritten only after it
/// was read.
struct JSONMemberRemoval {
    private let text: JSONText
    private let record: UnsafeMutableRawBufferPointer
    /// The length of the result so far. The result is written over the record, from the record's first byte on.
    private var writtenByteCount = 0
    /// The position of the next byte to copy. All bytes before it have been copied to the result or are removed.
    private var copyStart = 0

    private init(_ text: JSONText, _ record: UnsafeMutableRawBufferPointer) {
        self.text = text
        self.record = record
    }

    /// Removes every member at a path of keys, such as `["alert", "sound"]`.
    ///
    /// - Parameters:
    ///   - path: keys, from outside to inside.
    ///   - start: the position of the object in which the path begins.
    ///   - record: a record that was decoded.
    /// - Returns: the record's new length; nil if the text is not valid, which never happens for a decoded record.
    static func remove(_ path: [[UInt8]], from start: Int, in record: UnsafeMutableRawBufferPointer) -> Int? {
        do throws(Fault) {
            var removal = JSONMemberRemoval(try JSONText(UnsafeRawBufferPointer(record)), record)
            _ = try removal.removeMembers(start, path[...])
            return removal.copyRestToResult()
        } catch {
            assertionFailure("the record has been decoded")
            return nil
        }
    }

    /// Removes the members at the path from the object at `start`. If a key occurs twice, both members are removed,
    /// because a phone would read the remaining one.
    ///
    /// - Returns: the position after the object.
    private mutating func removeMembers(_ start: Int, _ path: ArraySlice<[UInt8]>) throws(Fault) -> Int {
        var members = try JSONMembers(text, at: start, of: .contentState, unknownKeys: .unchecked)
        // The position, in the result, of the comma after the last kept member; nil if there is no such comma.
        var lastCommaPosition: Int?
        while try members.next(in: text, { _ in nil }) != nil {
            let keyPosition = members.keyPosition
            let isOnPath = try isKey(at: keyPosition, equalTo: path.first)
            if isOnPath, path.count > 1, text.peek(members.position) == UInt8(ascii: "{") {
                members.position = try removeMembers(members.position, path.dropFirst())
            } else {
                members.position = try text.skipValue(members.position, depth: 0, .contentState)
            }
            let end = text.skipWhitespace(members.position)
            let hasNext = text.peek(end) == UInt8(ascii: ",")
            guard isOnPath, path.count == 1 else {
                if hasNext { lastCommaPosition = writtenByteCount + (end - copyStart) }
                continue
            }
            copyToResult(upTo: keyPosition)
            if hasNext {
                copyStart = end + 1
            } else {
                // No member follows, so the comma before the removed member is removed too.
                if let lastCommaPosition { writtenByteCount = lastCommaPosition }
                copyStart = members.position
            }
        }
        return members.position
    }

    /// Copies the end of the record to the result.
    ///
    /// - Returns: the length of the whole result.
    private mutating func copyRestToResult() -> Int {
        copyToResult(upTo: record.count)
        return writtenByteCount
    }

    /// Whether the key at a position equals `key`. An escape in the record's key counts as the character that it
    /// represents.
    private func isKey(at position: Int, equalTo key: [UInt8]?) throws(Fault) -> Bool {
        guard let key else { return false }
        let string = try text.readString(position, .contentState)
        return UnescapedBytes(text.bytes(string.range)).elementsEqual(key)
    }

    private mutating func copyToResult(upTo position: Int) {
        let byteCount = position - copyStart
        if writtenByteCount != copyStart, let base = record.baseAddress {
            // The source and the destination may overlap, which `copyMemory` permits.
            (base + writtenByteCount).copyMemory(from: base + copyStart, byteCount: byteCount)
        }
        writtenByteCount += byteCount
        copyStart = position
    }
}
