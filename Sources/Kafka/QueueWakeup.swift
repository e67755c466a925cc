import CRdkafka
import Glibc

/// The number that is written to an eventfd to wake its reader.
private let one: UInt64 = 1

/// Makes librdkafka write to `descriptor` when `queue` becomes non-empty, once until the queue is polled
/// again.
///
/// - Parameter descriptor: an eventfd, non-blocking.
func enableWakeup(of queue: OpaquePointer, descriptor: Int32) {
    withUnsafeBytes(of: one) { bytes in
        rd_kafka_queue_io_event_enable(queue, descriptor, bytes.baseAddress, bytes.count)
    }
    // librdkafka does not announce events that are already in the queue.
    wake(descriptor)
}

/// Stops the writes for this queue. None happens after the return, since librdkafka writes with the queue
/// locked.
///
/// A client that could not be closed in time continues to run. Its owner closes the descriptor, and the
/// system may give the number to another file or connection. Without this call, the client would write to
/// that file or connection.
func disableWakeup(of queue: OpaquePointer) {
    rd_kafka_queue_io_event_enable(queue, -1, nil, 0)
}

/// Wakes the reader of `descriptor`. If the counter is full, the write fails, and the reader is awake anyway.
func wake(_ descriptor: Int32) {
    withUnsafeBytes(of: one) { bytes in
        _ = write(descriptor, bytes.baseAddress, bytes.count)
    }
}
