import Glibc
import Reactor
import Testbed
import Testing

extension ReactorTests {
    @Suite struct Streams {
        @Test(arguments: StreamPair.Kind.allCases)
        func `10 MiB go to the server and come back unchanged`(kind: StreamPair.Kind) throws {
            let content = makePatternedBytes(10 * 1024 * 1024)
            let pair = try StreamPair(kind) { recorder in
                recorder.keepsBytes = false
                recorder.onReceived = { stream, bytes in stream.write(bytes) }
            }
            var sentOutput = 0
            // Writes pieces of many sizes, up to the high-water mark.
            func fill(_ stream: Stream) {
                while sentOutput < content.count, stream.pendingOutputBytes < Stream.highWaterBytes {
                    let piece = content[sentOutput..<min(content.count, sentOutput + 1 + sentOutput % 70_001)]
                    piece.withUnsafeBytes { stream.write($0) }
                    sentOutput += piece.count
                }
            }
            pair.recorder.onReceived = { stream, _ in fill(stream) }
            _ = try pair.connect()
            fill(pair.client)
            runLoop(pair.loop) {
                fill(pair.client)
                return pair.recorder.receivedByteCount == content.count
            }
            #expect(pair.recorder.receivedInput == content)
            #expect(pair.client.negotiatedProtocol == (kind.isTLS ? "h2" : nil))
            pair.close()
        }

        @Test(arguments: StreamPair.Kind.allCases)
        func `Bytes that are written before the connection is up are sent in order once it is up`(kind: StreamPair.Kind)
            throws
        {
            let pair = try StreamPair(kind)
            pair.client.write(Array("first ".utf8))
            let room = pair.client.reserve(6)
            #expect(room.count >= 6)
            room.copyBytes(from: "second".utf8)
            pair.client.commit(6)
            #expect(pair.client.pendingOutputBytes == 12)
            let connection = try pair.connect()
            runLoop(pair.loop) { connection.recorder.receivedByteCount == 12 }
            #expect(connection.recorder.receivedInput == Array("first second".utf8))
            #expect(pair.client.pendingOutputBytes == 0)
            pair.close()
        }

        @Test(arguments: StreamPair.Kind.allCases)
        func `A shutdown after the flush sends everything, and both sides end in order`(kind: StreamPair.Kind) throws {
            let content = makePatternedBytes(3_000_000)
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            connection.recorder.onClosed = { #expect(!$0.isOpen) }
            pair.client.write(content)
            pair.client.shutDownAfterFlush()
            pair.client.write(Array("ignored".utf8))
            runLoop(pair.loop) { connection.recorder.isClosed && pair.recorder.isClosed }
            #expect(connection.recorder.receivedInput == content)
            #expect(connection.recorder.closeErrors == [nil])
            #expect(pair.recorder.closeErrors == [nil])
            pair.close()
        }

        @Test func `After a shutdown, a peer that never ends its side is given up in time`() throws {
            let loop = try EventLoop()
            var socketEnds: [Int32] = [0, 0]
            try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &socketEnds) == 0)
            let recorder = StreamRecorder()
            let stream = Stream(accepted: socketEnds[0], loop: loop, handler: recorder, tls: nil)
            runLoop(loop) { recorder.connectedCount == 1 }
            let startMilliseconds = loop.nowMilliseconds
            stream.shutDownAfterFlush()
            runLoop(loop) { recorder.isClosed }
            #expect(recorder.closeErrors == [nil])
            #expect(loop.nowMilliseconds - startMilliseconds >= Stream.peerEndTimeoutMilliseconds)
            close(socketEnds[1])
        }

        @Test(arguments: StreamPair.Kind.allCases)
        func `Our own close is not reported to us, and reaches the peer in order`(kind: StreamPair.Kind) throws {
            let pair = try StreamPair(kind)
            let connection = try pair.connect()
            pair.client.close()
            pair.client.close()
            runLoop(pair.loop) { connection.recorder.isClosed }
            #expect(connection.recorder.closeErrors == [nil])
            #expect(pair.recorder.closeErrors.isEmpty)
            #expect(!pair.client.isOpen)
            // Calls on a closed stream have no effect.
            pair.client.write([1])
            _ = pair.client.reserve(1)
            pair.client.commit(1)
            pair.client.flush()
            pair.client.pauseReading()
            pair.client.resumeReading()
            pair.client.shutDownAfterFlush()
            runLoop(pair.loop, forMilliseconds: 5)
            #expect(pair.recorder.closeErrors.isEmpty)
            pair.close()
        }

        enum Callback: CaseIterable { case connected, received, hasRoom, closed }

        @Test(arguments: Callback.allCases, StreamPair.Kind.allCases)
        func `A handler may close in each of its callbacks`(callback: Callback, kind: StreamPair.Kind) throws {
            let pair = try StreamPair(kind) { recorder in
                recorder.onConnected = { $0.write(makePatternedBytes(100_000)) }
            }
            let recorder = pair.recorder
            var callCount = 0
            func close(_ stream: Stream) {
                callCount += 1
                stream.close()
            }
            switch callback {
            case .connected: recorder.onConnected = close
            case .received: recorder.onReceived = { stream, _ in close(stream) }
            case .hasRoom:
                recorder.onConnected = { $0.write(makePatternedBytes(Stream.highWaterBytes + 1)) }
                recorder.onRoom = close
            case .closed: recorder.onClosed = close
            }
            runLoop(pair.loop) { pair.server.connections.first?.recorder.connectedCount == 1 }
            if callback == .closed { pair.server.connections[0].stream.close() }
            runLoop(pair.loop) {
                callCount == 1 && (callback == .closed || pair.server.connections[0].recorder.isClosed)
            }
            runLoop(pair.loop, forMilliseconds: 3)
            #expect(callCount == 1)
            #expect(recorder.closeErrors.count == (callback == .closed ? 1 : 0))
            pair.close()
        }

        @Test func `A stream whose handler was released closes itself`() throws {
            let pair = try StreamPair(.tcp)
            let loop = pair.loop
            var recorder: StreamRecorder? = StreamRecorder()
            let abandonedStream = try Stream(loop: loop, handler: #require(recorder))
            abandonedStream.connect(to: pair.server.address, tls: nil, serverName: nil, timeoutMilliseconds: 60_000)
            runLoop(loop) { recorder?.connectedCount == 1 && pair.server.connections.count == 2 }
            recorder = nil
            for connection in pair.server.connections { connection.stream.write([1]) }
            runLoop(loop) { !abandonedStream.isOpen }
            runLoop(loop) { pair.server.connections.contains { $0.recorder.isClosed } }
            pair.close()
        }

        @Test func `Both sides know each other's address`() throws {
            let pair = try StreamPair(.tcp)
            let connection = try pair.connect()
            #expect(pair.client.peer == pair.server.address)
            #expect(connection.stream.peer?.host == "127.0.0.1")
            pair.close()
        }
    }
}
