import CHiredis

/// A reply to a command of a ``CommandConnection``, as a tree of values.
enum RedisValue: Equatable {
    case string([UInt8])
    case integer(Int64)
    case null
    case array([RedisValue])
    /// The error's text.
    case error([UInt8])

    /// The bytes of a string as text; nil for any other value.
    var text: String? {
        if case .string(let bytes) = self { String(decoding: bytes, as: UTF8.self) } else { nil }
    }

    var elements: [RedisValue]? {
        if case .array(let elements) = self { elements } else { nil }
    }

    var integer: Int64? {
        if case .integer(let number) = self { number } else { nil }
    }

    func valueOrThrow() throws(RedisError) -> RedisValue {
        guard case .error(let text) = self else { return self }
        throw text.withUnsafeBytes { RedisError(reply: $0) }
    }
}

/// Reads replies with hiredis' parser, as trees of values. It limits every length that the server can choose. Each
/// reply allocates memory, so a lane's calls use ``ReplyReader`` instead.
final class RedisValueReader {
    /// The maximum number of parts of a reply. Even the list of hash slots of a large cluster has fewer.
    static let elementsMax = 1 << 20
    static let replyBytesMax = 16 * 1024 * 1024
    /// The maximum number of arrays within each other. The reply to CLUSTER SLOTS has four: the list, a range of hash
    /// slots, a server, and what the server says about itself.
    static let nestedArraysMax = 6

    private let parser: ReplyParser
    private let partialValue: UnsafeMutablePointer<PartialValue>

    /// Makes a reader; nil if memory could not be allocated.
    init?() {
        let callbacks = redisReplyObjectFunctions(
            createString: appendString,
            createArray: appendArray,
            createInteger: appendInteger,
            createNil: appendNull,
            freeObject: { _ in }
        )
        partialValue = .allocate(capacity: 1)
        partialValue.initialize(to: PartialValue())
        guard let parser = ReplyParser(callbacks, context: partialValue) else {
            partialValue.deinitialize(count: 1)
            partialValue.deallocate()
            return nil
        }
        self.parser = parser
    }

    deinit {
        partialValue.deinitialize(count: 1)
        partialValue.deallocate()
    }

    /// Adds received bytes. Returns false if the reader has failed.
    func feed(_ bytes: UnsafeRawBufferPointer) -> Bool { parser.feed(bytes) }

    enum ReadResult {
        case value(RedisValue)
        case incomplete
        case violation
    }

    func next() -> ReadResult {
        switch parser.next() {
        case .violation: .violation
        case .incomplete(let unparsedByteCount): unparsedByteCount > Self.replyBytesMax ? .violation : .incomplete
        case .complete: partialValue.pointee.takeCompleteValue().map { .value($0) } ?? .violation
        }
    }
}

/// A reply that is being parsed. Its parts are in the order of their arrival: an array comes before its elements.
private struct PartialValue {
    private enum Part {
        case value(RedisValue)
        case array(count: Int)
    }

    private var parts: [Part] = []
    private var byteCount = 0

    /// Appends a string, a number, an error or null. Returns false if the reply exceeds
    /// ``RedisValueReader/elementsMax`` or ``RedisValueReader/replyBytesMax``.
    mutating func append(_ value: RedisValue, byteCount addedByteCount: Int = 0) -> Bool {
        byteCount += addedByteCount
        guard parts.count < RedisValueReader.elementsMax, byteCount <= RedisValueReader.replyBytesMax else {
            return false
        }
        parts.append(.value(value))
        return true
    }

    /// Appends the head of an array. Its `count` elements follow. Returns false if the reply exceeds
    /// ``RedisValueReader/elementsMax`` or ``RedisValueReader/nestedArraysMax``.
    ///
    /// - Parameter outerArrayCount: the number of arrays that this one is in.
    mutating func appendArray(count: Int, outerArrayCount: Int) -> Bool {
        guard parts.count < RedisValueReader.elementsMax, (0...RedisValueReader.elementsMax).contains(count),
            outerArrayCount < RedisValueReader.nestedArraysMax
        else { return false }
        parts.append(.array(count: count))
        return true
    }

    mutating func takeCompleteValue() -> RedisValue? {
        var position = 0
        let completeValue = buildValue(at: &position)
        let isComplete = position == parts.count
        parts = []
        byteCount = 0
        return isComplete ? completeValue : nil
    }

    /// Builds the value that begins at `position`, and moves `position` to its end. Nil if the parts end before the
    /// value is complete. The recursion is limited, because `appendArray` allows only
    /// ``RedisValueReader/nestedArraysMax`` arrays within each other.
    private func buildValue(at position: inout Int) -> RedisValue? {
        guard position < parts.count else { return nil }
        let part = parts[position]
        position += 1
        guard case .array(let count) = part else {
            if case .value(let value) = part { return value }
            return nil
        }
        var elements: [RedisValue] = []
        for _ in 0..<count {
            guard let element = buildValue(at: &position) else { return nil }
            elements.append(element)
        }
        return .array(elements)
    }
}

// hiredis calls these functions for each part of a reply. If a limit is exceeded, the function returns nil, and the
// parser fails.

private func append(
    _ task: UnsafePointer<redisReadTask>?,
    _ add: (inout PartialValue) -> Bool
) -> UnsafeMutableRawPointer? {
    guard let context = task?.pointee.privdata else { return nil }
    return add(&context.assumingMemoryBound(to: PartialValue.self).pointee) ? context : nil
}

private func appendString(
    _ task: UnsafePointer<redisReadTask>?,
    _ bytes: UnsafeMutablePointer<CChar>?,
    _ count: Int
) -> UnsafeMutableRawPointer? {
    let copy = [UInt8](UnsafeRawBufferPointer(start: bytes, count: count))
    let value: RedisValue = task?.pointee.type == REDIS_REPLY_ERROR ? .error(copy) : .string(copy)
    return append(task) { $0.append(value, byteCount: count) }
}

private func appendArray(_ task: UnsafePointer<redisReadTask>?, _ count: Int32) -> UnsafeMutableRawPointer? {
    var outerArrayCount = 0
    var outerArray = task?.pointee.parent
    // Count the arrays around this one. There are few, because `PartialValue` refuses an array that is nested too
    // deeply.
    while let array = outerArray {
        outerArrayCount += 1
        outerArray = array.pointee.parent
    }
    return append(task) { $0.appendArray(count: Int(count), outerArrayCount: outerArrayCount) }
}

private func appendInteger(_ task: UnsafePointer<redisReadTask>?, _ value: Int64) -> UnsafeMutableRawPointer? {
    append(task) { $0.append(.integer(value)) }
}

private func appendNull(_ task: UnsafePointer<redisReadTask>?) -> UnsafeMutableRawPointer? {
    append(task) { $0.append(.null) }
}
