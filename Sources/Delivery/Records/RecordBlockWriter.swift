import LiveActivity

/// Writes the texts of one record one after another into one block.
struct RecordBlockWriter {
    /// How many bytes a record's block reserves for a reason of APNs, of Redis or of Causeway, which the core learns
    /// when the size of the block is already fixed. A longer reason is cut.
    static let reasonBytesMax = 64

    let block: Arena.Block
    private var position = 0

    init(block: Arena.Block) { self.block = block }

    mutating func append(_ bytes: UnsafeRawBufferPointer) -> BlockRange {
        if let base = bytes.baseAddress { (block.base + position).copyMemory(from: base, byteCount: bytes.count) }
        return advance(by: bytes.count)
    }

    /// Copies a text from the record's JSON value into the block, and removes its JSON escapes. An absent text gets an
    /// empty range.
    mutating func append(_ text: TextRange, from value: UnsafeRawBufferPointer) -> BlockRange {
        guard !text.isAbsent else { return BlockRange(offset: UInt32(position), count: 0) }
        let buffer = UnsafeMutableRawBufferPointer(start: block.base + position, count: Int(text.range.count))
        return advance(by: unescape(text, from: value, into: buffer))
    }

    /// Writes the digests of the audiences that a registration names, each once.
    mutating func appendDigests(of audiences: ByteRange, count: Int, from value: UnsafeRawBufferPointer) -> BlockRange {
        let buffer = UnsafeMutableRawBufferPointer(
            start: block.base + position,
            count: count * AudienceList.digestBytes
        )
        return advance(by: Registration.writeDigests(of: audiences, in: value, into: buffer))
    }

    /// Reserves `byteCount` bytes for a text that is written later. The returned range is empty until the code that
    /// writes the text sets its count.
    mutating func reserve(_ byteCount: Int) -> BlockRange {
        var range = advance(by: byteCount)
        range.count = 0
        return range
    }

    /// Takes the next `byteCount` bytes of the block, which the caller has just written or reserves for later. Returns
    /// their range.
    mutating func advance(by byteCount: Int) -> BlockRange {
        let range = BlockRange(offset: UInt32(position), count: UInt32(byteCount))
        position += byteCount
        return range
    }

    var writePointer: UnsafeMutableRawPointer { block.base + position }
}

extension RecordSlot {
    func bytes(_ range: BlockRange) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: texts.block.base + Int(range.offset), count: Int(range.count))
    }

    /// The JSON value of the alert in the body; empty if the body has no alert.
    var alertJSON: UnsafeRawBufferPointer { bodyLayout.alert.bytes(in: body.bytes) }

    /// Sets the reason. Keeps only its first `RecordBlockWriter.reasonBytesMax` bytes.
    mutating func setReason(_ bytes: UnsafeRawBufferPointer) {
        let count = min(bytes.count, RecordBlockWriter.reasonBytesMax)
        if let base = bytes.baseAddress {
            (texts.block.base + Int(texts.reason.offset)).copyMemory(from: base, byteCount: count)
        }
        texts.reason.count = UInt32(count)
    }

    mutating func setReason(_ text: StaticString) { setReason(text.bytes) }
}

extension StaticString {
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: utf8Start, count: utf8CodeUnitCount) }
}
