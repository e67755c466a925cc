import Glibc
import Reactor
import Testbed
import Testing

extension ReactorTests {
    @Suite struct BackPressure {
        @Test(arguments: StreamPair.Kind.allCases)
        func `The handler is called once for each time above the high-water mark`(kind: StreamPair.Kind) throws {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            connection.recorder.keepsBytes = false
            // The kernel may enlarge a TCP connection's receive buffer. A fixed size keeps it from accepting
            // the bytes that should wait.
            var receiveBytes: Int32 = 262_144
            let length = socklen_t(MemoryLayout<Int32>.size)
            try #require(setsockopt(connection.descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBytes, length) == 0)
            // More bytes than the kernel's buffers hold, so that some must wait.
            let block = makePatternedBytes(7 * 1024 * 1024)
            for round in 1...2 {
                connection.stream.pauseReading()
                pair.client.write(block)
                runLoop(pair.loop, forMilliseconds: 5)
                #expect(pair.client.pendingOutputBytes > Stream.highWaterBytes)
                #expect(pair.recorder.roomReportCount == round - 1)
                connection.stream.resumeReading()
                runLoop(pair.loop) { connection.recorder.receivedByteCount == round * block.count }
                #expect(pair.recorder.roomReportCount == round)
            }
            pair.client.write([1])
            runLoop(pair.loop) { connection.recorder.receivedByteCount == 2 * block.count + 1 }
            #expect(pair.recorder.roomReportCount == 2)
            pair.close()
        }

        @Test(arguments: StreamPair.Kind.allCases)
        func `Nothing is delivered while reading is paused, and all of it afterwards`(kind: StreamPair.Kind) throws {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            let content = makePatternedBytes(300_000)
            // A pause from inside the callback leaves unread bytes in the kernel, and with TLS also in OpenSSL.
            pair.recorder.onReceived = { stream, _ in stream.pauseReading() }
            connection.stream.write(content)
            runLoop(pair.loop) { pair.recorder.receivedByteCount > 0 }
            var resumeCount = 0
            while pair.recorder.receivedByteCount < content.count, resumeCount < 10_000 {
                let count = pair.recorder.receivedByteCount
                for _ in 0..<3 { pair.loop.runIteration(waitMilliseconds: 0) }
                #expect(pair.recorder.receivedByteCount == count)
                pair.client.resumeReading()
                runLoop(pair.loop) { pair.recorder.receivedByteCount > count }
                resumeCount += 1
            }
            #expect(resumeCount > 1)
            #expect(pair.recorder.receivedInput == content)
            pair.close()
        }

        @Test(arguments: StreamPair.Kind.allCases)
        func `A paused stream does not spin on a peer that hung up, and reports the end when it resumes`(
            kind: StreamPair.Kind
        ) throws {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            pair.client.pauseReading()
            connection.stream.write(Array("bye".utf8))
            connection.stream.flush()
            connection.stream.close()
            pair.client.write([1])
            runLoop(pair.loop, forMilliseconds: 10)
            let startMilliseconds = pair.loop.nowMilliseconds
            for _ in 0..<3 { pair.loop.runIteration(waitMilliseconds: 10) }
            #expect(pair.loop.nowMilliseconds - startMilliseconds >= 20)
            pair.client.resumeReading()
            runLoop(pair.loop) { pair.recorder.isClosed }
            #expect(pair.recorder.closeErrors.count == 1)
            pair.close()
        }

        @Test func `A stream with endless input leaves time for other streams`() throws {
            let pair = try StreamPair(.tls13)
            let connection = try pair.connect()
            let block = makePatternedBytes(Stream.highWaterBytes + 1)
            pair.recorder.keepsBytes = false
            connection.stream.write(block)
            connection.recorder.onRoom = { $0.write(block) }
            runLoop(pair.loop) { pair.recorder.receivedByteCount > 4 * block.count }
            let previousByteCount = pair.recorder.receivedByteCount
            pair.loop.runIteration(waitMilliseconds: 100)
            #expect(pair.recorder.receivedByteCount - previousByteCount <= 2 * 4 * 64 * 1024)
            pair.close()
        }
    }
}
