import CRdkafka
import Glibc

/// How closing a client went.
public enum CloseOutcome: Sendable {
    /// Everything of the client is gone.
    case closed
    /// The deadline came first. The client's threads live on, and the process should leave with `_exit`, which no
    /// thread can hold up.
    case unfinished
}

/// Destroys `client`, waiting at most until `deadline`. Afterwards the caller never touches it again, either way.
///
/// `rd_kafka_destroy` runs on a thread of its own: it waits for every record and topic handle that is still held, so it
/// can wait for ever, and must not do that to the caller. The thread says that it is done by closing its end of a pipe.
func destroy(_ client: OpaquePointer, until deadline: Deadline) -> CloseOutcome {
    var ends: (reading: Int32, writing: Int32) = (-1, -1)
    let piped = withUnsafeMutableBytes(of: &ends) { pipe($0.assumingMemoryBound(to: Int32.self).baseAddress) }
    guard piped == 0 else { return .unfinished }
    defer { close(ends.reading) }
    let context = UnsafeMutablePointer<DestructionContext>.allocate(capacity: 1)
    context.initialize(to: DestructionContext(client: client, descriptor: ends.writing))
    var thread = pthread_t()
    guard pthread_create(&thread, nil, destroyClient, context) == 0 else {
        close(ends.writing)
        context.deallocate()
        return .unfinished
    }
    pthread_detach(thread)
    repeat {
        var ending = pollfd(fd: ends.reading, events: Int16(POLLIN), revents: 0)
        if poll(&ending, 1, deadline.wait(atMostMilliseconds: .max)) > 0 { return .closed }
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
