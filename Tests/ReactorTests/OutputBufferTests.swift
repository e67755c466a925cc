import Testing

@testable import Reactor

struct OutputBufferTests {
    /// Appends this many pushes of 1.3 KiB, and then removes everything in parts of a TLS record.
    private func fillAndEmpty(_ buffer: inout OutputBuffer, pushCount: Int) {
        let bytesPerPush = 1_331
        for _ in 0..<pushCount {
            _ = buffer.reserve(bytesPerPush)
            buffer.commit(bytesPerPush)
        }
        while buffer.count > 0 { buffer.consume(min(buffer.count, Stream.tlsRecordBytesMax)) }
    }

    @Test func `A burst's memory is released when the buffer is empty`() {
        var buffer = OutputBuffer()
        fillAndEmpty(&buffer, pushCount: 450)
        let allocatedBytes = buffer.allocatedBytes
        #expect(allocatedBytes <= OutputBuffer.retainedBytesMax)
    }

    @Test func `The memory of an iteration's usual output is used again`() {
        var buffer = OutputBuffer()
        fillAndEmpty(&buffer, pushCount: 95)
        let allocatedBytes = buffer.allocatedBytes
        #expect(allocatedBytes == OutputBuffer.retainedBytesMax)
    }
}
