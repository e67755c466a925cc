import CRdkafka
import Glibc

/// What is written to an eventfd to wake its reader.
private let one: UInt64 = 1

/// Has librdkafka write to `descriptor` when `queue` becomes non-empty, once until the queue is next polled.
///
/// - Parameter descriptor: an eventfd, non-blocking.
func enableWakeup(of queue: OpaquePointer, descriptor: Int32) {
    withUnsafeBytes(of: one) { bytes in
        rd_kafka_queue_io_event_enable(queue, descriptor, bytes.baseAddress, bytes.count)
    }
    // What the queue held before was not announced.
    wake(descriptor)
}

/// Nothing is written for this queue any more when it returns: librdkafka writes with the queue locked.
///
/// A client that could not be closed in time goes on by itself. The descriptor is its owner's to close, and its number is then given to
/// somebody else's file or connection, into which the client would write.
func disableWakeup(of queue: OpaquePointer) {
    rd_kafka_queue_io_event_enable(queue, -1, nil, 0)
}

/// Wakes the reader of `descriptor` on our own account. A full counter is as good as a write: the reader is awake.
func wake(_ descriptor: Int32) {
    withUnsafeBytes(of: one) { bytes in
        _ = write(descriptor, bytes.baseAddress, bytes.count)
    }
}
