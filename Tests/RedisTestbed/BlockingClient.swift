import CHiredis

/// A blocking client of hiredis, with which a test sends commands to a server directly.
public final class BlockingClient {
    private let context: UnsafeMutablePointer<redisContext>

    /// Connects to the server; nil if this fails.
    public convenience init?(port: UInt16) { self.init(redisConnect("127.0.0.1", Int32(port))) }

    public convenience init?(socketPath: String) { self.init(redisConnectUnix(socketPath)) }

    private init?(_ context: UnsafeMutablePointer<redisContext>?) {
        guard let context else { return nil }
        self.context = context
        if context.pointee.err != 0 { return nil }
    }

    deinit {
        redisFree(context)
    }

    @discardableResult
    public func command(_ arguments: [String]) -> [String] {
        appendCommand(arguments)
        return readReply()
    }

    @discardableResult
    public func command(_ arguments: String...) -> [String] { command(arguments) }

    /// Appends a command to the pipeline. Its reply is read later, in order.
    public func appendCommand(_ arguments: [String]) { appendCommand(bytes: arguments.map { Array($0.utf8) }) }

    /// Appends a command whose arguments may have any bytes. Its reply is read later, in order.
    public func appendCommand(bytes words: [[UInt8]]) {
        let copies = words.map { word in
            let copy = UnsafeMutablePointer<CChar>.allocate(capacity: word.count + 1)
            for (index, byte) in word.enumerated() { copy[index] = CChar(bitPattern: byte) }
            return copy
        }
        defer { for copy in copies { copy.deallocate() } }
        var pointers = copies.map { Optional(UnsafePointer($0)) }
        redisAppendCommandArgv(context, Int32(words.count), &pointers, words.map(\.count))
    }

    public func readReply() -> [String] { readReplyBytes().map { String(decoding: $0, as: UTF8.self) } }

    /// Returns the parts of the next reply, also of nested arrays, in one list: strings, numbers and error texts, and
    /// an empty string for each null. The list is empty if the reply is an empty array, or if the connection is lost.
    public func readReplyBytes() -> [[UInt8]] {
        var rawReply: UnsafeMutableRawPointer?
        guard redisGetReply(context, &rawReply) == REDIS_OK, let rawReply else { return [] }
        defer { freeReplyObject(rawReply) }
        return Self.flatten(rawReply.assumingMemoryBound(to: redisReply.self))
    }

    private static func flatten(_ reply: UnsafeMutablePointer<redisReply>) -> [[UInt8]] {
        switch reply.pointee.type {
        case REDIS_REPLY_ARRAY:
            (0..<Int(reply.pointee.elements)).flatMap { reply.pointee.element[$0].map(flatten) ?? [] }
        case REDIS_REPLY_INTEGER:
            [Array(String(reply.pointee.integer).utf8)]
        case REDIS_REPLY_NIL:
            [[]]
        default:
            [Array(UnsafeRawBufferPointer(start: reply.pointee.str, count: Int(reply.pointee.len)))]
        }
    }
}
