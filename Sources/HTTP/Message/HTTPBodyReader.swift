import Numbers

/// Collects the body of a request or response (RFC 9112, section 6). The body has a known length, is chunked,
/// or lasts until the connection ends.
struct HTTPBodyReader {
    enum Length: Sendable, Equatable {
        case bytes(Int)
        case chunked
        /// The body lasts until the connection ends. Only responses have such a body.
        case untilEnd
    }

    /// The maximum number of bytes in each line of the chunked coding, with its line end (RFC 9112, section 7.1). Such
    /// lines are a chunk's size, the line end after a chunk, and each line of the trailer section. `bytesMax` does not
    /// count them, so they need limits of their own.
    private static let lineBytesMax = 1_024
    private static let trailerLinesMax = 64

    private enum State: Equatable {
        case fixedLength(remaining: Int)
        case untilEnd
        /// Reads the line with a chunk's size. Next: `chunk`, or `trailer` after the chunk of size 0.
        case chunkSize
        /// Reads the data of a chunk. Next: `chunkEnd`.
        case chunk(remaining: Int)
        /// Reads the line end after a chunk's data. Next: `chunkSize`.
        case chunkEnd
        /// Reads the lines of the trailer section. Next: `complete`.
        case trailer(lines: Int)
        /// The body is complete. No state follows.
        case complete
    }

    private(set) var body: [UInt8] = []
    private var state: State
    private let bytesMax: Int
    /// The received part of an incomplete line: a chunk's size, a chunk's end, or a trailer field.
    private var line: [UInt8] = []

    /// - Throws: `bodyTooLarge` if the announced length is above `bytesMax`.
    init(_ length: Length, bytesMax: Int) throws(HTTPFault) {
        self.bytesMax = bytesMax
        switch length {
        case .bytes(let count):
            guard count <= bytesMax else { throw .bodyTooLarge }
            state = count == 0 ? .complete : .fixedLength(remaining: count)
            // A large reservation uses almost no physical memory until bytes arrive, because the system provides
            // memory only when it is written.
            body.reserveCapacity(count)
        case .chunked: state = .chunkSize
        case .untilEnd: state = .untilEnd
        }
    }

    var isComplete: Bool { state == .complete }
    var endsWithConnection: Bool { state == .untilEnd }

    /// Takes the next bytes of the body.
    ///
    /// - Returns: how many of the bytes belong to the body. The bytes after them belong to the next message.
    /// - Throws: if the body becomes larger than `bytesMax`, or its chunked coding is malformed.
    mutating func read(_ bytes: UnsafeRawBufferPointer) throws(HTTPFault) -> Int {
        var rest = bytes[...]
        while !isComplete, !rest.isEmpty {
            switch state {
            case .fixedLength(let remaining):
                let count = try appendToBody(&rest, atMost: remaining)
                state = count == remaining ? .complete : .fixedLength(remaining: remaining - count)
            case .untilEnd: _ = try appendToBody(&rest, atMost: rest.count)
            case .chunk(let remaining):
                let count = try appendToBody(&rest, atMost: remaining)
                state = count == remaining ? .chunkEnd : .chunk(remaining: remaining - count)
            case .chunkSize, .chunkEnd, .trailer:
                guard try takeLine(&rest) else { break }
                try parseLine()
                line = []
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

    /// - Returns: whether the line is complete.
    private mutating func takeLine(_ rest: inout Slice<UnsafeRawBufferPointer>) throws(HTTPFault) -> Bool {
        let end = rest.firstIndex(of: 0x0A)
        let part = rest[..<(end.map { $0 + 1 } ?? rest.endIndex)]
        guard line.count + part.count <= Self.lineBytesMax else { throw .malformed }
        line.append(contentsOf: UnsafeRawBufferPointer(rebasing: part))
        rest = rest.dropFirst(part.count)
        guard end != nil else { return false }
        guard line.suffix(2).elementsEqual([0x0D, 0x0A]) else { throw .malformed }
        line.removeLast(2)
        return true
    }

    private mutating func parseLine() throws(HTTPFault) {
        switch state {
        case .chunkSize:
            // RFC 9112 allows chunk extensions after a semicolon. The reader ignores them.
            let digits = line.prefix { $0 != UInt8(ascii: ";") }
            let size = String(decoding: digits, as: UTF8.self)[...].trimmed
            guard !size.isEmpty, size.utf8.allSatisfy({ Hexadecimal.digitValue($0) != nil }) else { throw .malformed }
            guard let count = Int(size, radix: 16), count <= bytesMax - body.count else { throw .bodyTooLarge }
            state = count == 0 ? .trailer(lines: 0) : .chunk(remaining: count)
        case .chunkEnd:
            guard line.isEmpty else { throw .malformed }
            state = .chunkSize
        case .trailer(let lines):
            guard lines < Self.trailerLinesMax else { throw .malformed }
            state = line.isEmpty ? .complete : .trailer(lines: lines + 1)
        case .fixedLength, .untilEnd, .chunk, .complete: break
        }
    }

    /// Returns the body without a copy, and leaves the reader without a body.
    mutating func takeBody() -> [UInt8] {
        defer { body = [] }
        return body
    }
}
