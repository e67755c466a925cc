import CHiredis

/// One reply, read completely. Its bytes are valid until the reader goes on.
public struct Reply {
    public enum Kind: Equatable {
        case string, status, error, integer, null
        case array(count: Int)
    }

    public var kind: Kind
    public var integer: Int64
    public var bytes: UnsafeRawBufferPointer

    /// Of an array; else 0.
    public var elementCount: Int { if case .array(let count) = kind { count } else { 0 } }
}

/// hiredis' parser, without the tree of objects that it would build: what a reply consists of goes into one buffer that is
/// made once, so a reply costs no allocation.
///
/// The scripts answer with a string, a number or a flat array of strings and errors, CONFIG with a flat array, and that is all that is
/// taken: no nesting, and limits on everything that the peer can make long.
public final class ReplyReader {
    /// Longest string in a reply.
    public static let stringBytesMax = 128 * 1024
    /// Most elements of an array: a reply and a value for each call of a batch, and the clock.
    static let elementsMax = 2 * RedisConnection.callsPerCommandMax + 1
    /// All strings of one reply together.
    static let replyBytesMax = stringBytesMax + RedisConnection.callsPerCommandMax * 512

    private let reader: UnsafeMutablePointer<redisReader>
    private let functions: UnsafeMutablePointer<redisReplyObjectFunctions>
    private let partial: UnsafeMutablePointer<PartialReply>

    /// Nil if there is no memory.
    init?() {
        functions = .allocate(capacity: 1)
        functions.initialize(
            to: redisReplyObjectFunctions(
                createString: takeString,
                createArray: takeArray,
                createInteger: takeInteger,
                createNil: takeNull,
                freeObject: { _ in }
            )
        )
        partial = .allocate(capacity: 1)
        partial.initialize(to: PartialReply())
        guard let reader = redisReaderCreateWithFunctions(functions) else {
            partial.pointee.deallocate()
            partial.deallocate()
            functions.deallocate()
            return nil
        }
        reader.pointee.privdata = UnsafeMutableRawPointer(partial)
        // Its buffer is kept: what it can grow to is limited by what `next` lets wait.
        reader.pointee.maxbuf = 0
        self.reader = reader
    }

    deinit {
        redisReaderFree(reader)
        partial.pointee.deallocate()
        partial.deallocate()
        functions.deallocate()
    }

    /// Takes bytes as they come. False if the reader has failed: then nothing more can be read.
    func feed(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count > 0 else { return true }
        return redisReaderFeed(reader, bytes.bindMemory(to: CChar.self).baseAddress, bytes.count) == REDIS_OK
    }

    enum Next {
        case reply(Reply)
        /// The rest has not come yet.
        case incomplete
        case violation
    }

    /// The next reply, if it is complete.
    func next() -> Next {
        var object: UnsafeMutableRawPointer?
        guard redisReaderGetReply(reader, &object) == REDIS_OK else { return .violation }
        if object == nil {
            // A string longer than may be would be waited for to the end: its length alone tells nothing to our functions.
            let waiting = Int(reader.pointee.len) - Int(reader.pointee.pos)
            return waiting > Self.stringBytesMax + 64 ? .violation : .incomplete
        }
        let reply = partial.pointee.whole()
        partial.pointee.reset()
        return reply.map { .reply($0) } ?? .violation
    }

    /// Looks at a reply that has come and is not read yet.
    ///
    /// - Parameter offset: from the first unread byte, where a reply begins; the last one that was read must have been complete.
    /// - Returns: where the next one begins, and the number if the reply is one; nil if the rest has not come yet.
    func unreadReply(at offset: Int) -> (end: Int, integer: Int64?)? {
        let (position, length) = (Int(reader.pointee.pos), Int(reader.pointee.len))
        guard let buffer = reader.pointee.buf, position < length else { return nil }
        let unread = UnsafeRawBufferPointer(start: buffer + position, count: length - position)
        return UnreadReplies(unread).reply(at: offset)
    }

    /// An element of the array that `next` returned last.
    public func element(_ index: Int) -> Reply { partial.pointee.element(index) }
}

/// A reply under way: its strings one after the other in one buffer, since the parser's own moves between two feeds.
private struct PartialReply {
    struct Element {
        var kind: Reply.Kind
        var integer: Int64
        var offset: Int
        var count: Int
    }

    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: ReplyReader.replyBytesMax, alignment: 16)
    /// Beside the reply, not in it: an array of a fixed size would be copied whole for each element that is read.
    private let elements = UnsafeMutablePointer<Element>.allocate(capacity: ReplyReader.elementsMax + 1)
    private var elementCount = 0
    private var byteCount = 0
    /// The last reply was handed out: the next object begins a new one.
    private var isFinished = true

    func deallocate() {
        bytes.deallocate()
        elements.deallocate()
    }

    mutating func reset() { isFinished = true }

    /// False if it does not fit.
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

// The parser's calls. What they return only has to be something; null makes the parser fail, which is how a limit is
// reported. `privdata` is the reader's partial reply.

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
    /// The release of hiredis that this was built with.
    public static var libraryVersion: String { "\(HIREDIS_MAJOR).\(HIREDIS_MINOR).\(HIREDIS_PATCH)" }
}
