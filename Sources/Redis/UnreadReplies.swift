import Numbers

/// Finds where each reply ends in bytes that were received but not read yet. A connection looks for the reply to WAIT
/// in these bytes, while the replies before it must stay unread. ``ReplyReader`` reads the replies later, and checks
/// their content.
struct UnreadReplies {
    private let bytes: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
    }

    /// Finds where the reply at `offset` ends.
    ///
    /// - Returns: the end of the reply, and its value if it is a number; nil if the reply is not complete.
    func findEndOfReply(at offset: Int) -> (end: Int, integer: Int64?)? {
        guard let line = findLine(at: offset) else { return nil }
        let text = UnsafeRawBufferPointer(rebasing: bytes[(offset + 1)..<line.textEnd])
        let number = Decimal.parse(text).flatMap { Int64(exactly: $0) }
        switch bytes[offset] {
        case UInt8(ascii: "$"):
            // A null (`$-1`) has no further bytes. The end of a string over the limit does not matter, because
            // `ReplyReader` refuses the reply later.
            guard let number, number <= Int64(ReplyReader.stringBytesMax) else { return (line.nextLineStart, nil) }
            let end = line.nextLineStart + Int(number) + 2
            return end <= bytes.count ? (end, nil) : nil
        case UInt8(ascii: "*"):
            guard let number, number > 0, number <= Int64(ReplyReader.elementsMax) else {
                return (line.nextLineStart, nil)
            }
            var end = line.nextLineStart
            for _ in 0..<number {
                // Do not look into an array within an array: the scripts return none, and `ReplyReader` later refuses
                // the reply.
                guard end < bytes.count else { return nil }
                guard bytes[end] != UInt8(ascii: "*") else { return (end, nil) }
                guard let element = findEndOfReply(at: end) else { return nil }
                end = element.end
            }
            return (end, nil)
        case UInt8(ascii: ":"): return (line.nextLineStart, number)
        default: return (line.nextLineStart, nil)
        }
    }

    /// Finds where the text of the line at `offset` ends, and where the next line starts. Nil if the line has not
    /// arrived completely.
    private func findLine(at offset: Int) -> (textEnd: Int, nextLineStart: Int)? {
        guard offset < bytes.count,
            let newline = bytes[offset...].firstIndex(of: UInt8(ascii: "\n")), newline > offset + 1
        else { return nil }
        return (newline - 1, newline + 1)
    }
}
