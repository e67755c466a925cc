import LiveActivity

/// The settled offsets of a partition above its committable offset, as text: the metadata of an offset commit. It tells
/// the partition's next owner which records must not be processed again. (R10)
///
/// | characters | meaning |
/// | --- | --- |
/// | 1 | the version of the format, `1` |
/// | 2 | the form: `r` for runs, `b` for bits |
/// | 3– | the payload, six bits in each character, from `0` (0) to `o` (63), highest bits first |
///
/// The payload begins with the committable offset as a varint, so that text which was copied to another offset is
/// refused. Then follow:
/// - In the form `r`: the lengths of runs as varints, unsettled and settled in turn. For example, 2, 1, 3, 4 means 2
///   unsettled offsets, 1 settled, 3 unsettled, 4 settled. The first length may be 0.
/// - In the form `b`: one bit for each offset from the committable offset on, lowest offset first.
///
/// `encode` uses the form that can name more of the settled offsets. If there is no settled offset to name, the text is
/// empty.
package enum SettledOffsetsText {
    /// The broker's default limit for the metadata of a commit, `offset.metadata.max.bytes`. In this many bytes, the
    /// form `b` has a bit for each of about 24,000 offsets.
    package static let bytesMax = 4_096
    static let payloadBytesMax = (bytesMax - headBytes) * 6 / 8
    /// How far each form reaches: `r` can name at most `rangesMax` ranges of settled offsets, and `b` only offsets less
    /// than `bitsMax` above the committable one. An offset beyond both limits cannot be named.
    static let rangesMax = payloadBytesMax / 2 + 1
    static let bitsMax = Int64(payloadBytesMax) * 8

    /// The size of the head: a byte for the format version, and one for the form.
    private static let headBytes = 2
    private static let formatVersion = UInt8(ascii: "1")
    private static let runsForm = UInt8(ascii: "r")
    private static let bitsForm = UInt8(ascii: "b")
    /// The character for six bits that are all 0. The 63 characters after it stand for 1 to 63.
    private static let zeroCharacter = UInt8(ascii: "0")

    // MARK: - Writing the text

    /// Encodes ranges. If not all of them fit, the highest offsets are left out.
    ///
    /// - Parameter ranges: ascending and disjoint, none below `committableOffset`.
    package static func encode(_ ranges: [Range<Int64>], above committableOffset: Int64) -> [UInt8] {
        guard !ranges.isEmpty else { return [] }
        let runs = encodeAsRuns(ranges, above: committableOffset)
        let bits = encodeAsBits(ranges, above: committableOffset)
        // Use the form that names more offsets. If both name the same number, use the shorter one.
        let usesRuns =
            runs.offsetCount != bits.offsetCount
            ? runs.offsetCount > bits.offsetCount : runs.payload.count <= bits.payload.count
        let encoding = usesRuns ? runs : bits
        guard encoding.offsetCount > 0 else { return [] }
        var text = [formatVersion, usesRuns ? runsForm : bitsForm]
        appendCharacters(of: encoding.payload, to: &text)
        return text
    }

    /// A payload, and the number of settled offsets that it names.
    private typealias Encoding = (payload: [UInt8], offsetCount: Int64)

    /// Encodes the ranges in the form `r`, lowest first, as far as there is room.
    private static func encodeAsRuns(_ ranges: [Range<Int64>], above committableOffset: Int64) -> Encoding {
        var payload: [UInt8] = []
        appendVarint(committableOffset, to: &payload)
        var (offset, offsetCount) = (committableOffset, Int64(0))
        for range in ranges {
            let previousByteCount = payload.count
            appendVarint(range.lowerBound - offset, to: &payload)
            appendVarint(Int64(range.count), to: &payload)
            guard payload.count <= payloadBytesMax else {
                payload.removeSubrange(previousByteCount...)
                break
            }
            offset = range.upperBound
            offsetCount += Int64(range.count)
        }
        return (payload, offsetCount)
    }

    /// Encodes the ranges in the form `b`, lowest first, as far as there is room.
    private static func encodeAsBits(_ ranges: [Range<Int64>], above committableOffset: Int64) -> Encoding {
        var payload: [UInt8] = []
        appendVarint(committableOffset, to: &payload)
        let offsetByteCount = payload.count
        let endOffset = committableOffset + Int64(payloadBytesMax - offsetByteCount) * 8
        var offsetCount: Int64 = 0
        for range in ranges where range.lowerBound < endOffset {
            let settledRange = range.clamped(to: committableOffset..<endOffset)
            let byteCount = offsetByteCount + Int((settledRange.upperBound - committableOffset + 7) / 8)
            payload.append(contentsOf: repeatElement(0, count: max(0, byteCount - payload.count)))
            for offset in settledRange {
                let bit = Int(offset - committableOffset)
                payload[offsetByteCount + bit / 8] |= 1 << UInt8(bit % 8)
            }
            offsetCount += Int64(settledRange.count)
        }
        return (payload, offsetCount)
    }

    private static func appendVarint(_ number: Int64, to payload: inout [UInt8]) {
        var rest = UInt64(number)
        while rest >= 128 {
            payload.append(UInt8(truncatingIfNeeded: rest) | 128)
            rest >>= 7
        }
        payload.append(UInt8(rest))
    }

    /// Appends a payload to the text, six bits in each character.
    package static func appendCharacters(of payload: [UInt8], to text: inout [UInt8]) {
        var (bitBuffer, bitCount) = (UInt32(0), 0)
        for byte in payload {
            bitBuffer = bitBuffer << 8 | UInt32(byte)
            bitCount += 8
            while bitCount >= 6 {
                bitCount -= 6
                text.append(zeroCharacter + UInt8(bitBuffer >> UInt32(bitCount) & 63))
            }
        }
        if bitCount > 0 { text.append(zeroCharacter + UInt8(bitBuffer << UInt32(6 - bitCount) & 63)) }
    }

    // MARK: - Reading the text

    /// Decodes the text of a commit's metadata. The text may be wrong: a mirroring tool may copy it to another offset,
    /// or a topic may have been deleted and created again.
    ///
    /// - Returns: ascending and disjoint ranges, none below `committedOffset`; nil if the text names another offset,
    ///   has another version of the format, or is malformed.
    package static func decode(_ text: UnsafeRawBufferPointer, committedOffset: Int64) -> [Range<Int64>]? {
        guard !text.isEmpty else { return [] }
        guard text.count > headBytes, text.count <= bytesMax, text[0] == formatVersion else { return nil }
        let characters = UnsafeRawBufferPointer(rebasing: text[headBytes...])
        guard let payload = decodePayload(of: characters) else { return nil }
        var position = 0
        guard let offset = readVarint(in: payload, at: &position), offset == committedOffset else { return nil }
        switch text[1] {
        case runsForm: return ranges(ofRuns: payload, from: position, above: offset)
        case bitsForm: return ranges(ofBits: payload[position...], above: offset)
        default: return nil
        }
    }

    /// Decodes the payload, which has six bits in each character; nil if a character is not one of the 64, or the
    /// unused bits at the end are not 0.
    package static func decodePayload(of characters: UnsafeRawBufferPointer) -> [UInt8]? {
        var payload: [UInt8] = []
        payload.reserveCapacity(characters.count * 6 / 8)
        var (bitBuffer, bitCount) = (UInt32(0), 0)
        for character in characters {
            guard character >= zeroCharacter, character - zeroCharacter < 64 else { return nil }
            bitBuffer = bitBuffer << 6 | UInt32(character - zeroCharacter)
            bitCount += 6
            guard bitCount >= 8 else { continue }
            bitCount -= 8
            payload.append(UInt8(truncatingIfNeeded: bitBuffer >> UInt32(bitCount)))
        }
        // The bits that fill up the last character must be fewer than six, and all of them zero.
        let isPaddingValid = bitCount < 6 && bitBuffer & (1 << UInt32(bitCount) - 1) == 0
        return isPaddingValid ? payload : nil
    }

    /// Reads a number and moves `position` behind it; nil if the number is cut off or above `Limits.offsetMax`.
    private static func readVarint(in payload: [UInt8], at position: inout Int) -> Int64? {
        var (number, shift) = (UInt64(0), UInt64(0))
        while position < payload.count, shift < 63 {
            let byte = payload[position]
            position += 1
            number |= UInt64(byte & 127) << shift
            guard byte >= 128 else { return number <= UInt64(Limits.offsetMax) ? Int64(number) : nil }
            shift += 7
        }
        return nil
    }

    private static func ranges(
        ofRuns payload: [UInt8],
        from firstPosition: Int,
        above committedOffset: Int64
    ) -> [Range<Int64>]? {
        var ranges: [Range<Int64>] = []
        var (position, offset) = (firstPosition, committedOffset)
        while position < payload.count {
            guard let unsettledCount = readVarint(in: payload, at: &position),
                let settledCount = readVarint(in: payload, at: &position),
                unsettledCount > 0 || ranges.isEmpty, settledCount > 0, unsettledCount <= Limits.offsetMax - offset,
                settledCount <= Limits.offsetMax - offset - unsettledCount
            else { return nil }
            ranges.append(offset + unsettledCount..<offset + unsettledCount + settledCount)
            offset += unsettledCount + settledCount
        }
        return ranges
    }

    private static func ranges(ofBits bytes: ArraySlice<UInt8>, above committedOffset: Int64) -> [Range<Int64>]? {
        guard committedOffset <= Limits.offsetMax - bitsMax else { return nil }
        var ranges: [Range<Int64>] = []
        for (index, byte) in bytes.enumerated() {
            for bit in 0..<8 where byte & (1 << UInt8(bit)) != 0 {
                let offset = committedOffset + Int64(index * 8 + bit)
                if let last = ranges.last, last.upperBound == offset {
                    ranges[ranges.count - 1] = last.lowerBound..<offset + 1
                } else {
                    ranges.append(offset..<offset + 1)
                }
            }
        }
        return ranges
    }
}
