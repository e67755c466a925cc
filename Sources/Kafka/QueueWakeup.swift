import CRdkafka
import Glibc

/// The number that is written to an eventfd to wake its reader.
private let wakeupIncrement: UInt64 = 1

/// Makes librdkafka write to `descriptor` when `queue` becomes non-empty. The next write comes only after the queue has
/// been polled.
///
/// - Parameter descriptor: a non-blocking eventfd.
func enableWakeup(of queue: OpaquePointer, descriptor: Int32) {
    withUnsafeBytes(of: wakeupIncrement) { bytes in
        rd_kafka_queue_io_event_enable(queue, descriptor, bytes.baseAddress, bytes.count)
    }
    // The queue may already have events. librdkafka writes only for later ones, so wake the reader here.
    wake(descriptor)
}

/// Stops librdkafka's writes to the eventfd of this queue: after this call it writes nothing. Call this before the
/// descriptor is closed. A client that could not be closed in time continues to run, and would write to the file or
/// connection that gets the descriptor's number next.
func disableWakeup(of queue: OpaquePointer) {
    rd_kafka_queue_io_event_enable(queue, -1, nil, 0)
}

/// Wakes the reader of `descriptor`. The write fails only if the counter is full, and then the reader is awake anyway.
func wake(_ descriptor: Int32) {
    withUnsafeBytes(of: wakeupIncrement) { bytes in
        _ = write(descriptor, bytes.baseAddress, bytes.count)
    }
}
