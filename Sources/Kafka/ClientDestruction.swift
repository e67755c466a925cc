import CRdkafka
import Glibc

/// The result of closing a client.
public enum CloseResult: Sendable {
    /// The client is freed and its threads have ended.
    case closed
    /// The client was not freed in time, and its threads may continue: the deadline passed, or the client could not be
    /// closed at all. The process should end with `_exit`, which no thread can delay.
    case unfinished
}

/// Destroys `client`, and waits at most until `deadline` for the end of the destruction. Also returns `.unfinished` if
/// the system has no descriptor or thread left. The caller must not use the client afterwards, whatever the result.
///
/// `rd_kafka_destroy` waits until all records and topic handles are released, perhaps forever, so it runs on its own
/// thread.
func destroy(_ client: OpaquePointer, until deadline: Deadline) -> CloseResult {
    var pipeEnds: (reading: Int32, writing: Int32) = (-1, -1)
    let pipeResult = withUnsafeMutableBytes(of: &pipeEnds) { pipe($0.assumingMemoryBound(to: Int32.self).baseAddress) }
    guard pipeResult == 0 else { return .unfinished }
    defer { close(pipeEnds.reading) }
    let context = UnsafeMutablePointer<DestructionContext>.allocate(capacity: 1)
    context.initialize(to: DestructionContext(client: client, descriptor: pipeEnds.writing))
    var thread = pthread_t()
    guard pthread_create(&thread, nil, destroyClient, context) == 0 else {
        close(pipeEnds.writing)
        context.deallocate()
        return .unfinished
    }
    pthread_detach(thread)
    repeat {
        var pollDescriptor = pollfd(fd: pipeEnds.reading, events: Int16(POLLIN), revents: 0)
        if poll(&pollDescriptor, 1, deadline.remainingMilliseconds(atMost: .max)) > 0 { return .closed }
    } while !deadline.hasPassed
    return .unfinished
}

private struct DestructionContext {
    var client: OpaquePointer
    var descriptor: Int32
}

private func destroyClient(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let context = argument?.assumingMemoryBound(to: DestructionContext.self) else { return nil }
    rd_kafka_destroy(context.pointee.client)
    close(context.pointee.descriptor)
    context.deallocate()
    return nil
}
