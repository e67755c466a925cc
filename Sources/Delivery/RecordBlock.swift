import LiveActivity

/// Room that records have for a token that Redis will name and for a reason that APNs will give.
enum BlockRoom {
    static let tokenBytes = Limits.tokenDigitsMost
    static let reasonBytes = 64
}

/// Lays the texts of one record out in one block.
struct RecordBlockWriter {
    let block: Arena.Block
    private var position = 0

    init(block: Arena.Block) { self.block = block }

    mutating func append(_ bytes: UnsafeRawBufferPointer) -> Piece {
        if let base = bytes.baseAddress { (block.base + position).copyMemory(from: base, byteCount: bytes.count) }
        return advance(bytes.count)
    }

    mutating func append(_ text: TextRange, from record: UnsafeRawBufferPointer) -> Piece {
        guard !text.isAbsent else { return Piece(offset: UInt32(position), count: 0) }
        let room = UnsafeMutableRawBufferPointer(start: block.base + position, count: Int(text.range.count))
        return advance(unescape(text, from: record, into: room))
    }

    /// A piece that is filled in later, `room` bytes long at most.
    mutating func reserve(_ room: Int) -> Piece {
        var piece = advance(room)
        piece.count = 0
        return piece
    }

    mutating func advance(_ count: Int) -> Piece {
        let piece = Piece(offset: UInt32(position), count: UInt32(count))
        position += count
        return piece
    }

    var remaining: UnsafeMutableRawPointer { block.base + position }
}

extension RecordSlot {
    func bytes(_ piece: Piece) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: block.base + Int(piece.offset), count: Int(piece.count))
    }

    var tokenBytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: content.base + Int(token.offset), count: Int(token.count))
    }

    var bodyBytes: UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(start: content.base + Int(body.offset), count: Int(body.count))
    }

    /// The value of the alert in its body; empty if there is none.
    var alert: UnsafeRawBufferPointer { layout.alert.bytes(in: UnsafeRawBufferPointer(bodyBytes)) }

    /// Fills a reserved piece; what is over its room is cut.
    private func filled(
        _ piece: Piece,
        of block: Arena.Block,
        room: Int,
        with bytes: UnsafeRawBufferPointer
    ) -> Piece {
        let count = min(bytes.count, room)
        if let base = bytes.baseAddress { (block.base + Int(piece.offset)).copyMemory(from: base, byteCount: count) }
        return Piece(offset: piece.offset, count: UInt32(count))
    }

    mutating func setToken(_ bytes: UnsafeRawBufferPointer) {
        token = filled(token, of: content, room: BlockRoom.tokenBytes, with: bytes)
    }

    /// A token as a producer wrote it, in the lower case in which tokens are stored, compared and sent.
    mutating func setToken(registering text: TextRange, from record: UnsafeRawBufferPointer) {
        let room = UnsafeMutableRawBufferPointer(start: content.base + Int(token.offset), count: BlockRoom.tokenBytes)
        token.count = UInt32(Hexadecimal.copyLowercased(text.range.bytes(in: record), into: room))
    }

    mutating func setReason(_ bytes: UnsafeRawBufferPointer) {
        reason = filled(reason, of: block, room: BlockRoom.reasonBytes, with: bytes)
    }

    mutating func setReason(_ text: StaticString) {
        setReason(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }
}
