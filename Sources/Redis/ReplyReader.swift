import CHiredis

/// One complete reply, or one element of an array. Its bytes are valid until the reader continues to parse.
public struct Reply {
    public enum Kind: Equatable {
        case string, status, error, integer, null
        case array(count: Int)
    }

    public var kind: Kind
    public var integer: Int64
    public var bytes: UnsafeRawBufferPointer

    /// The number of elements of an array; 0 for any other reply.
    public var elementCount: Int { if case .array(let count) = kind { count } else { 0 } }
}

/// Reads replies with hiredis' parser, but without its tree of objects. The parts of a reply are copied into one buffer
/// that is allocated once, so reading a reply allocates nothing.
///
/// It accepts only the replies that a connection's commands can have: strings, numbers, nulls, errors, and flat arrays
/// of these. It limits every length that the server can choose.
public final class ReplyReader {
    /// The maximum length of a string in a reply, in bytes.
    public static let stringBytesMax = 128 * 1024
    /// The maximum number of elements of an array. The reply to several calls has at most two elements for each call
    /// (its reply and a stored value), and one more for the server's clock.
    static let elementsMax = 2 * RedisConnection.callsPerCommandMax + 1
    /// The maximum length of all strings of one reply together, in bytes: ``stringBytesMax`` for held commands, to
    /// which the scripts limit them, and 512 for the rest of each call.
    static let replyBytesMax = stringBytesMax + RedisConnection.callsPerCommandMax * 512

    private let parser: ReplyParser
    private let partialReply: UnsafeMutablePointer<PartialReply>

    /// Makes a reader; nil if memory could not be allocated.
    init?() {
        let callbacks = redisReplyObjectFunctions(
            createString: appendString,
            createArray: appendArray,
            createInteger: appendInteger,
            createNil: appendNull,
            freeObject: { _ in }
        )
        partialReply = .allocate(capacity: 1)
        partialReply.initialize(to: PartialReply())
        guard let parser = ReplyParser(callbacks, context: partialReply) else {
            partialReply.pointee.deallocate()
            partialReply.deallocate()
            return nil
        }
        self.parser = parser
        // From now on hiredis never frees its buffer, so that no reply allocates memory (R3). The buffer stays limited:
        // `next` refuses an incomplete reply that is too long, and there are never more complete replies than
        // outstanding calls.
        self.parser.keepBuffer()
    }

    deinit {
        partialReply.pointee.deallocate()
        partialReply.deallocate()
    }

    /// Adds received bytes. Returns false if the reader has failed; it can then read nothing more.
    func feed(_ bytes: UnsafeRawBufferPointer) -> Bool { parser.feed(bytes) }

    enum ReadResult {
        case reply(Reply)
        /// The reply has not arrived completely.
        case incomplete
        case violation
    }

    /// Reads the next reply, if it is complete.
    func next() -> ReadResult {
        switch parser.next() {
        case .violation: return .violation
        // hiredis reports a string only when it is complete. So refuse a string that is too long before that, when too
        // many of its bytes have arrived. The lengths and line ends around a string need less than 64 bytes.
        case .incomplete(let unparsedByteCount):
            return unparsedByteCount > Self.stringBytesMax + 64 ? .violation : .incomplete
        case .complete:
            let reply = partialReply.pointee.parsedReply()
            partialReply.pointee.reset()
            return reply.map { .reply($0) } ?? .violation
        }
    }

    /// Finds where an unread reply ends, without reading it.
    ///
    /// - Parameter offset: where the reply begins, counted from the first unread byte. Call this method only while no
    ///   reply is partly parsed: otherwise the first unread byte is in the middle of a reply.
    /// - Returns: the end of the reply, and its value if it is a number; nil if the reply is not complete.
    func findEndOfUnreadReply(at offset: Int) -> (end: Int, integer: Int64?)? {
        guard let bytes = parser.unparsedInput else { return nil }
        return UnreadReplies(bytes).findEndOfReply(at: offset)
    }

    /// Returns an element of the array that the last call of `next` returned. The next call overwrites the elements and
    /// their bytes.
    public func element(_ index: Int) -> Reply { partialReply.pointee.element(index) }
}

/// A reply that is being parsed. Its strings are copied into one buffer, because hiredis may move its own buffer when
/// bytes are added.
private struct PartialReply {
    struct Element {
        var kind: Reply.Kind
        var integer: Int64
        var offset: Int
        var byteCount: Int
    }

    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: ReplyReader.replyBytesMax, alignment: 16)
    // The elements have memory of their own. In an array of a fixed size in this struct, reading one element would copy
    // the whole array.
    private let elements = UnsafeMutablePointer<Element>.allocate(capacity: ReplyReader.elementsMax + 1)
    private var elementCount = 0
    private var byteCount = 0
    /// Whether the last reply is complete, so that the next part begins a new reply.
    private var isFinished = true

    func deallocate() {
        bytes.deallocate()
        elements.deallocate()
    }

    mutating func reset() { isFinished = true }

    /// Appends a reply that is no array, the head of an array, or an element of an array. Returns false if the reply
    /// exceeds ``ReplyReader/elementsMax``, ``ReplyReader/stringBytesMax`` or ``ReplyReader/replyBytesMax``.
    mutating func append(_ kind: Reply.Kind, integer: Int64 = 0, string: UnsafeRawBufferPointer) -> Bool {
        if isFinished {
            isFinished = false
            elementCount = 0
            byteCount = 0
        }
        guard elementCount <= ReplyReader.elementsMax, string.count <= ReplyReader.stringBytesMax,
            string.count <= bytes.count - byteCount
        else { return false }
        UnsafeMutableRawBufferPointer(rebasing: bytes[byteCount...]).copyMemory(from: string)
        (elements + elementCount)
            .initialize(
                to: Element(kind: kind, integer: integer, offset: byteCount, byteCount: string.count)
            )
        elementCount += 1
        byteCount += string.count
        return true
    }

    func parsedReply() -> Reply? {
        guard elementCount > 0 else { return nil }
        return reply(elements[0])
    }

    func element(_ index: Int) -> Reply {
        precondition(index >= 0 && index + 1 < elementCount, "an element that the reply does not have")
        return reply(elements[index + 1])
    }

    private func reply(_ element: Element) -> Reply {
        let range = element.offset..<(element.offset + element.byteCount)
        return Reply(
            kind: element.kind,
            integer: element.integer,
            bytes: UnsafeRawBufferPointer(rebasing: bytes[range])
        )
    }
}

// hiredis calls these functions for each part of a reply. If a part exceeds a limit or is an array within an array, the
// function returns nil, and the parser fails. `privdata` is the reader's `PartialReply`.

private func append(
    _ task: UnsafePointer<redisReadTask>?,
    _ kind: Reply.Kind,
    integer: Int64 = 0,
    string: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
) -> UnsafeMutableRawPointer? {
    guard let context = task?.pointee.privdata else { return nil }
    let partialReply = context.assumingMemoryBound(to: PartialReply.self)
    return partialReply.pointee.append(kind, integer: integer, string: string) ? context : nil
}

private func appendString(
    _ task: UnsafePointer<redisReadTask>?,
    _ bytes: UnsafeMutablePointer<CChar>?,
    _ count: Int
) -> UnsafeMutableRawPointer? {
    let kind: Reply.Kind
    switch task?.pointee.type {
    case REDIS_REPLY_ERROR: kind = .error
    case REDIS_REPLY_STATUS: kind = .status
    default: kind = .string
    }
    return append(task, kind, string: UnsafeRawBufferPointer(start: bytes, count: count))
}

private func appendArray(_ task: UnsafePointer<redisReadTask>?, _ count: Int32) -> UnsafeMutableRawPointer? {
    guard task?.pointee.parent == nil, count >= 0, count <= ReplyReader.elementsMax else { return nil }
    return append(task, .array(count: Int(count)))
}

private func appendInteger(_ task: UnsafePointer<redisReadTask>?, _ value: Int64) -> UnsafeMutableRawPointer? {
    append(task, .integer, integer: value)
}

private func appendNull(_ task: UnsafePointer<redisReadTask>?) -> UnsafeMutableRawPointer? {
    append(task, .null)
}

extension RedisConnection {
    /// The release of hiredis with which this module was built.
    public static var libraryVersion: String { "\(HIREDIS_MAJOR).\(HIREDIS_MINOR).\(HIREDIS_PATCH)" }
}
