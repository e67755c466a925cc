import CHiredis

/// One complete reply. Its bytes are valid until the next reply is read.
public struct Reply {
    public enum Kind: Equatable {
        case string, status, error, integer, null
        case array(count: Int)
    }

    public var kind: Kind
    public var integer: Int64
    public var bytes: UnsafeRawBufferPointer

    /// The number of elements of an array, else 0.
    public var elementCount: Int { if case .array(let count) = kind { count } else { 0 } }
}

/// Reads replies with hiredis' parser, without its tree of objects. The parts of a reply are copied into one
/// buffer that is allocated once, so reading a reply allocates nothing.
///
/// Accepts only what the servers send here: strings, numbers and flat arrays of strings and errors. Nested
/// arrays are refused, and every length that the server can choose has a limit.
public final class ReplyReader {
    /// The longest string in a reply.
    public static let stringBytesMax = 128 * 1024
    /// The most elements of an array: a reply and a value for each call of a batch, and the clock.
    static let elementsMax = 2 * RedisConnection.callsPerCommandMax + 1
    /// The limit for all strings of one reply together.
    static let replyBytesMax = stringBytesMax + RedisConnection.callsPerCommandMax * 512

    private let parser: ReplyParser
    private let partial: UnsafeMutablePointer<PartialReply>

    /// Nil if memory could not be allocated.
    init?() {
        let callbacks = redisReplyObjectFunctions(
            createString: takeString,
            createArray: takeArray,
            createInteger: takeInteger,
            createNil: takeNull,
            freeObject: { _ in }
        )
        partial = .allocate(capacity: 1)
        partial.initialize(to: PartialReply())
        guard let parser = ReplyParser(callbacks, context: partial) else {
            partial.pointee.deallocate()
            partial.deallocate()
            return nil
        }
        self.parser = parser
        // `next` limits how much may wait in the buffer, and so how large the buffer becomes.
        self.parser.keepBuffer()
    }

    deinit {
        partial.pointee.deallocate()
        partial.deallocate()
    }

    /// Adds received bytes. False if the reader has failed and can read nothing more.
    func feed(_ bytes: UnsafeRawBufferPointer) -> Bool { parser.feed(bytes) }

    enum Next {
        case reply(Reply)
        /// The reply has not arrived completely.
        case incomplete
        case violation
    }

    /// Reads the next reply, if it has arrived completely.
    func next() -> Next {
        switch parser.next() {
        case .violation: return .violation
        // hiredis reports a string only when it is complete. So a string that is too long is refused by the
        // number of its bytes that have arrived.
        case .incomplete(let bytes): return bytes > Self.stringBytesMax + 64 ? .violation : .incomplete
        case .whole:
            let reply = partial.pointee.whole()
            partial.pointee.reset()
            return reply.map { .reply($0) } ?? .violation
        }
    }

    /// Finds the end of a reply that has arrived and has not been read.
    ///
    /// - Parameter offset: the position of the reply, counted from the first unread byte. No reply may be
    ///   partly read.
    /// - Returns: the end of the reply, and its value if it is a number; nil if the reply has not arrived completely.
    func unreadReply(at offset: Int) -> (end: Int, integer: Int64?)? {
        guard let unread = parser.unread else { return nil }
        return UnreadReplies(unread).reply(at: offset)
    }

    /// Returns an element of the array that `next` returned last.
    public func element(_ index: Int) -> Reply { partial.pointee.element(index) }
}

/// A reply that is being parsed. Its strings are copied into one buffer, because the parser's own buffer may
/// move when bytes are added.
private struct PartialReply {
    struct Element {
        var kind: Reply.Kind
        var integer: Int64
        var offset: Int
        var count: Int
    }

    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: ReplyReader.replyBytesMax, alignment: 16)
    // A separate allocation: an array of a fixed size within this struct would be copied whole for each
    // element that is read.
    private let elements = UnsafeMutablePointer<Element>.allocate(capacity: ReplyReader.elementsMax + 1)
    private var elementCount = 0
    private var byteCount = 0
    /// Whether the last reply was returned, so that the next part begins a new reply.
    private var isFinished = true

    func deallocate() {
        bytes.deallocate()
        elements.deallocate()
    }

    mutating func reset() { isFinished = true }

    /// Appends a part. False if it does not fit.
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
                to: Element(kind: kind, integer: integer, offset: byteCount, count: string.count)
            )
        elementCount += 1
        byteCount += string.count
        return true
    }

    func whole() -> Reply? {
        guard elementCount > 0 else { return nil }
        return reply(elements[0])
    }

    func element(_ index: Int) -> Reply {
        precondition(index >= 0 && index + 1 < elementCount, "an element that the reply does not have")
        return reply(elements[index + 1])
    }

    private func reply(_ element: Element) -> Reply {
        let range = element.offset..<(element.offset + element.count)
        return Reply(
            kind: element.kind,
            integer: element.integer,
            bytes: UnsafeRawBufferPointer(rebasing: bytes[range])
        )
    }
}

// The parser's callbacks. They return null if a limit is exceeded, which makes the parser fail. Otherwise
// they may return any object that is not null. `privdata` is the reader's partial reply.

private func append(
    _ task: UnsafePointer<redisReadTask>?,
    _ kind: Reply.Kind,
    integer: Int64 = 0,
    string: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
) -> UnsafeMutableRawPointer? {
    guard let context = task?.pointee.privdata else { return nil }
    let partial = context.assumingMemoryBound(to: PartialReply.self)
    return partial.pointee.append(kind, integer: integer, string: string) ? context : nil
}

private func takeString(
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

private func takeArray(_ task: UnsafePointer<redisReadTask>?, _ count: Int32) -> UnsafeMutableRawPointer? {
    guard task?.pointee.parent == nil, count >= 0, count <= ReplyReader.elementsMax else { return nil }
    return append(task, .array(count: Int(count)))
}

private func takeInteger(_ task: UnsafePointer<redisReadTask>?, _ value: Int64) -> UnsafeMutableRawPointer? {
    append(task, .integer, integer: value)
}

private func takeNull(_ task: UnsafePointer<redisReadTask>?) -> UnsafeMutableRawPointer? {
    append(task, .null)
}

extension RedisConnection {
    /// The version of hiredis that this module was built with.
    public static var libraryVersion: String { "\(HIREDIS_MAJOR).\(HIREDIS_MINOR).\(HIREDIS_PATCH)" }
}
