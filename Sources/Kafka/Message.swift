import CProcessor
import CRdkafka
import Glibc

/// The index of a topic in the list that a `Consumer` was created with; -1: none, for example in an error message.
/// Replaces the topic's name in records, because a number is small and needs no reference counting.
public struct TopicIdentifier: Hashable, Sendable {
    public var index: Int32

    public init(index: Int32) {
        self.index = index
    }
}

public struct TopicPartition: Hashable, Sendable {
    public var topic: TopicIdentifier
    public var partition: Int32

    public init(topic: TopicIdentifier, partition: Int32) {
        self.topic = topic
        self.partition = partition
    }
}

/// One record, in librdkafka's own memory. The memory is freed with this value. Any thread may read and destroy a
/// record.
///
/// Release every record before the consumer is closed, because a record keeps its client alive. A record also keeps the
/// memory of the whole batch in which it was fetched, far more than its own bytes.
@frozen
public struct Message: ~Copyable {
    /// librdkafka's record, in a form that can be passed between threads.
    public typealias Pointer = UnsafeMutablePointer<rd_kafka_message_t>

    @usableFromInline
    let pointer: UnsafeMutablePointer<rd_kafka_message_t>

    /// Takes ownership of a pointer from librdkafka or from `releaseOwnership()`. Each pointer may be taken only once.
    @inlinable
    public init(taking pointer: UnsafeMutablePointer<rd_kafka_message_t>) {
        self.pointer = pointer
    }

    deinit {
        rd_kafka_message_destroy(pointer)
    }

    /// Returns the record's pointer and gives up its ownership, so that a ring can pass the record to another thread.
    /// The receiver must call `init(taking:)`.
    @inlinable
    public consuming func releaseOwnership() -> UnsafeMutablePointer<rd_kafka_message_t> {
        let taken = pointer
        discard self
        return taken
    }

    /// The subscribed topic that the record came from.
    @inlinable
    public var topic: TopicIdentifier { TopicIdentifier(index: topicIndex(of: pointer)) }

    @inlinable
    public var partition: Int32 { pointer.pointee.partition }

    @inlinable
    public var offset: Int64 { pointer.pointee.offset }

    /// The record's time, UNIX milliseconds; -1 if it has none. The topic's configuration says whether the producer or
    /// the broker sets the time.
    public var timestampMilliseconds: Int64 { rd_kafka_message_timestamp(pointer, nil) }

    /// Nil if the record has no key. Valid as long as the message.
    @inlinable
    public var key: UnsafeRawBufferPointer? {
        guard let start = pointer.pointee.key else { return nil }
        return UnsafeRawBufferPointer(start: start, count: pointer.pointee.key_len)
    }

    /// Nil for a tombstone; an empty value is not nil. Valid as long as the message.
    @inlinable
    public var value: UnsafeRawBufferPointer? {
        guard let start = pointer.pointee.payload else { return nil }
        return UnsafeRawBufferPointer(start: start, count: pointer.pointee.len)
    }

    /// librdkafka's text, if the message is not a record but an error.
    var errorText: String { String(cString: rd_kafka_message_errstr(pointer)) }

    /// Prefetches librdkafka's structure for a record that will be read soon.
    public static func prefetch(_ pointer: Pointer) {
        CProcessor_prefetch(pointer)
        CProcessor_prefetch(UnsafeRawPointer(pointer) + 64)
    }

    /// Prefetches the first four cache lines of the record's value. The processor itself prefetches the rest.
    public static func prefetchValue(of pointer: Pointer) {
        guard let start = UnsafeRawPointer(pointer.pointee.payload) else { return }
        for line in 0..<4 { CProcessor_prefetch(start + line * 64) }
    }

    /// The record's headers; nil if the record has none, or if they cannot be read. The first call parses the headers,
    /// so two threads must not make the first call at the same time.
    public var headers: MessageHeaders? {
        // librdkafka allocates a buffer to parse headers. This finds most records without headers at no such cost.
        if let key, let value, HeaderDetection.certainlyHasNoHeaders(key: key, value: value) { return nil }
        var list: OpaquePointer?
        guard rd_kafka_message_headers(pointer, &list) == RD_KAFKA_RESP_ERR_NO_ERROR, let list else { return nil }
        return MessageHeaders(list: list)
    }
}

/// Returns the index of a message's topic; -1 if it has none. The topic's opaque pointer stores the index plus one,
/// because zero means that nothing is stored.
@usableFromInline
func topicIndex(of message: UnsafeMutablePointer<rd_kafka_message_t>) -> Int32 {
    guard let topic = message.pointee.rkt else { return -1 }
    return Int32(truncatingIfNeeded: Int(bitPattern: rd_kafka_topic_opaque(topic))) - 1
}
