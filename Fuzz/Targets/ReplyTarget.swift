@testable import Redis

/// Checks the two readers of Redis' replies. The input's first byte, plus 1, is a size in bytes. Rule: each reader
/// gives the same replies whether it gets the other bytes at once or in pieces of this size.
func replyViolation(_ input: UnsafeRawBufferPointer) -> String? {
    guard let first = input.first else { return nil }
    let bytes = UnsafeRawBufferPointer(rebasing: input.dropFirst())
    let pieceBytes = 1 + Int(first)
    if readReplies(bytes, pieceBytes: max(1, bytes.count)) != readReplies(bytes, pieceBytes: pieceBytes) {
        return "replies differ when they come in pieces of \(pieceBytes) bytes"
    }
    if readValues(bytes, pieceBytes: max(1, bytes.count)) != readValues(bytes, pieceBytes: pieceBytes) {
        return "values differ when they come in pieces of \(pieceBytes) bytes"
    }
    return nil
}

private enum ReplyPart: Equatable {
    case reply(Reply.Kind, Int64, [UInt8])
    case value(RedisValue)
    case violation

    init(_ reply: Reply) { self = .reply(reply.kind, reply.integer, Array(reply.bytes)) }
}

private func readReplies(_ bytes: UnsafeRawBufferPointer, pieceBytes: Int) -> [ReplyPart] {
    guard let reader = ReplyReader() else { return [] }
    var parts: [ReplyPart] = []
    forEachPiece(of: bytes, pieceBytes) { piece in
        guard reader.feed(piece) else {
            parts.append(.violation)
            return false
        }
        while true {
            switch reader.next() {
            case .incomplete: return true
            case .violation:
                parts.append(.violation)
                return false
            case .reply(let reply):
                parts.append(ReplyPart(reply))
                for index in 0..<reply.elementCount { parts.append(ReplyPart(reader.element(index))) }
            }
        }
    }
    return parts
}

private func readValues(_ bytes: UnsafeRawBufferPointer, pieceBytes: Int) -> [ReplyPart] {
    guard let reader = RedisValueReader() else { return [] }
    var parts: [ReplyPart] = []
    forEachPiece(of: bytes, pieceBytes) { piece in
        guard reader.feed(piece) else {
            parts.append(.violation)
            return false
        }
        while true {
            switch reader.next() {
            case .incomplete: return true
            case .violation:
                parts.append(.violation)
                return false
            case .value(let value): parts.append(.value(value))
            }
        }
    }
    return parts
}
