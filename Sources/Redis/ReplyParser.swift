import CHiredis

/// hiredis' parser of replies, which calls a callback for each part of a reply. The callback gets a `redisReadTask`
/// that describes the part; its field `privdata` is the `context` of this parser.
struct ReplyParser: ~Copyable {
    private let reader: UnsafeMutablePointer<redisReader>
    private let callbacks: UnsafeMutablePointer<redisReplyObjectFunctions>

    enum ParseResult {
        /// The callbacks have got all parts of the next reply.
        case complete
        /// The next reply is not complete. `unparsedByteCount` of its bytes have arrived but are not parsed.
        case incomplete(unparsedByteCount: Int)
        case violation
    }

    /// Makes a parser; nil if memory could not be allocated.
    init?(_ callbacks: redisReplyObjectFunctions, context: UnsafeMutableRawPointer) {
        self.callbacks = .allocate(capacity: 1)
        self.callbacks.initialize(to: callbacks)
        guard let reader = redisReaderCreateWithFunctions(self.callbacks) else {
            self.callbacks.deallocate()
            return nil
        }
        reader.pointee.privdata = context
        self.reader = reader
    }

    deinit {
        redisReaderFree(reader)
        self.callbacks.deallocate()
    }

    /// Makes hiredis keep its buffer between replies, so that a reply allocates no memory (R3). Then hiredis never
    /// shrinks the buffer, so the caller must limit the bytes in the buffer.
    func keepBuffer() { reader.pointee.maxbuf = 0 }

    /// Adds received bytes. Returns false if the parser has failed. A failed parser can read nothing more.
    func feed(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count > 0 else { return true }
        return redisReaderFeed(reader, bytes.bindMemory(to: CChar.self).baseAddress, bytes.count) == REDIS_OK
    }

    /// Parses the next reply as far as it has arrived.
    func next() -> ParseResult {
        var object: UnsafeMutableRawPointer?
        guard redisReaderGetReply(reader, &object) == REDIS_OK else { return .violation }
        guard object == nil else { return .complete }
        return .incomplete(unparsedByteCount: Int(reader.pointee.len) - Int(reader.pointee.pos))
    }

    /// The received bytes that are not parsed; nil if there are none. Valid until the next call.
    var unparsedInput: UnsafeRawBufferPointer? {
        let (position, length) = (Int(reader.pointee.pos), Int(reader.pointee.len))
        guard let buffer = reader.pointee.buf, position < length else { return nil }
        return UnsafeRawBufferPointer(start: buffer + position, count: length - position)
    }
}
