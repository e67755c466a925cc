import Numbers

/// Collects the body of a request or response (RFC 9112, section 6). The body has a known length, is chunked,
/// or lasts until the connection ends.
struct HTTPBodyReader {
    /// How the reader finds the end of the body (RFC 9112, section 6.3).
    enum Framing: Sendable, Equatable {
        /// The body has this many bytes.
        case contentLength(Int)
        case chunked
        /// The body lasts until the connection ends. Only responses have such a body.
        case untilConnectionEnds
    }

    /// The maximum number of bytes in each line of the chunked coding (RFC 9112, section 7.1), its end included: a
    /// chunk's size, the empty line after a chunk, or a trailer field. `bytesMax` does not limit these lines, because
    /// it counts only the body.
    private static let chunkedLineBytesMax = 1_024
    private static let trailerLinesMax = 64

    private enum Phase: Equatable {
        case contentLength(remainingBytes: Int)
        case untilConnectionEnds
        /// Reads the line with a chunk's size. Next: `chunk`, or `trailer` after the chunk of size 0.
        case chunkSize
        /// Reads the data of a chunk. Next: `chunkEnd`.
        case chunk(remainingBytes: Int)
        /// Reads the line end after a chunk's data. Next: `chunkSize`.
        case chunkEnd
        /// Reads the lines of the trailer section. Next: `complete`.
        case trailer(lineCount: Int)
        /// The body is complete. No phase follows.
        case complete
    }

    private(set) var body: [UInt8] = []
    private var phase: Phase
    private let bytesMax: Int
    /// The bytes of the current line of the chunked coding that have arrived so far.
    private var currentLine: [UInt8] = []

    /// - Throws: `bodyTooLarge` if the announced length is above `bytesMax`.
    init(_ framing: Framing, bytesMax: Int) throws(HTTPFault) {
        self.bytesMax = bytesMax
        switch framing {
        case .contentLength(let count):
            guard count <= bytesMax else { throw .bodyTooLarge }
            phase = count == 0 ? .complete : .contentLength(remainingBytes: count)
            // Reserve the announced length, even if it may be false: memory is used only when bytes are written to it.
            body.reserveCapacity(count)
        case .chunked: phase = .chunkSize
        case .untilConnectionEnds: phase = .untilConnectionEnds
        }
    }

    var isComplete: Bool { phase == .complete }
    var lastsUntilConnectionEnds: Bool { phase == .untilConnectionEnds }

    /// Takes the next bytes of the body.
    ///
    /// - Returns: how many of the bytes belong to the body. The bytes after them belong to the next message.
    /// - Throws: if the body becomes larger than `bytesMax`, or its chunked coding is malformed.
    mutating func read(_ bytes: UnsafeRawBufferPointer) throws(HTTPFault) -> Int {
        var rest = bytes[...]
        while !isComplete, !rest.isEmpty {
            switch phase {
            case .contentLength(let remainingBytes):
                let count = try appendToBody(&rest, atMost: remainingBytes)
                phase = count == remainingBytes ? .complete : .contentLength(remainingBytes: remainingBytes - count)
            case .untilConnectionEnds: _ = try appendToBody(&rest, atMost: rest.count)
            case .chunk(let remainingBytes):
                let count = try appendToBody(&rest, atMost: remainingBytes)
                phase = count == remainingBytes ? .chunkEnd : .chunk(remainingBytes: remainingBytes - count)
            case .chunkSize, .chunkEnd, .trailer:
                guard try takeLine(&rest) else { break }
                try parseLine()
                currentLine = []
            case .complete: break
            }
        }
        return bytes.count - rest.count
    }

    mutating func read(_ bytes: [UInt8]) throws(HTTPFault) -> Int {
        let count = bytes.withUnsafeBytes { bytes in Result { () throws(HTTPFault) in try read(bytes) } }
        return try count.get()
    }

    private mutating func appendToBody(_ rest: inout Slice<UnsafeRawBufferPointer>, atMost limit: Int) throws(HTTPFault)
        -> Int
    {
        let part = rest.prefix(limit)
        guard part.count <= bytesMax - body.count else { throw .bodyTooLarge }
        body.append(contentsOf: UnsafeRawBufferPointer(rebasing: part))
        rest = rest.dropFirst(part.count)
        return part.count
    }

    /// Moves the received bytes of one line to `currentLine`, and removes the line end when the line is complete.
    ///
    /// - Returns: whether the line is complete.
    private mutating func takeLine(_ rest: inout Slice<UnsafeRawBufferPointer>) throws(HTTPFault) -> Bool {
        let end = rest.firstIndex(of: 0x0A)
        let part = rest[..<(end.map { $0 + 1 } ?? rest.endIndex)]
        guard currentLine.count + part.count <= Self.chunkedLineBytesMax else { throw .malformed }
        currentLine.append(contentsOf: UnsafeRawBufferPointer(rebasing: part))
        rest = rest.dropFirst(part.count)
        guard end != nil else { return false }
        guard currentLine.suffix(2).elementsEqual([0x0D, 0x0A]) else { throw .malformed }
        currentLine.removeLast(2)
        return true
    }

    /// Reads what the complete line in `currentLine` says, and begins the next phase.
    private mutating func parseLine() throws(HTTPFault) {
        switch phase {
        case .chunkSize:
            // RFC 9112 allows chunk extensions after a semicolon. The reader ignores them.
            let digits = currentLine.prefix { $0 != UInt8(ascii: ";") }
            let size = String(decoding: digits, as: UTF8.self)[...].trimmed
            guard !size.isEmpty, size.utf8.allSatisfy({ Hexadecimal.digitValue($0) != nil }) else { throw .malformed }
            guard let count = Int(size, radix: 16), count <= bytesMax - body.count else { throw .bodyTooLarge }
            phase = count == 0 ? .trailer(lineCount: 0) : .chunk(remainingBytes: count)
        case .chunkEnd:
            guard currentLine.isEmpty else { throw .malformed }
            phase = .chunkSize
        case .trailer(let lineCount):
            guard lineCount < Self.trailerLinesMax else { throw .malformed }
            phase = currentLine.isEmpty ? .complete : .trailer(lineCount: lineCount + 1)
        case .contentLength, .untilConnectionEnds, .chunk, .complete: break
        }
    }

    /// Returns the body without a copy, and leaves the reader without a body.
    mutating func takeBody() -> [UInt8] {
        defer { body = [] }
        return body
    }
}
