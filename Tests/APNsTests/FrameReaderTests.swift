import Numbers
import Testbed
import Testing

@testable import APNs

/// The reader of HTTP/2 frames, without a connection.
@Suite(.ownThread) struct FrameReaderTests {
    private struct SeenFrame: Equatable {
        var type: UInt8
        var flags: UInt8
        var stream: Int32
        var payload: [UInt8]
    }

    /// However the input is cut into pieces, the reader finds the same frames, and reports the same fault after the
    /// last of these frames.
    @Test(arguments: 0..<200)
    func `Frames are read in pieces of any size`(seed: Int) {
        var generator = SplitMix64(seed: UInt64(seed))
        var bytes = frame(FrameType.settings, setting(3, 100))
        for _ in 0..<30 {
            let count = Int.random(in: 0...300, using: &generator)
            let payload = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            let stream = Int32.random(in: 0...9, using: &generator)
            switch Int.random(in: 0..<8, using: &generator) {
            case 0:
                bytes +=
                    frame(FrameType.headers, stream: 1 + stream, payload)
                    + frame(FrameType.continuation, flags: 4, stream: 1 + stream, payload)
            case 1:
                bytes += frame(
                    UInt8.random(in: 0...12, using: &generator),
                    flags: UInt8.random(in: 0...63, using: &generator),
                    stream: stream,
                    payload
                )
            default:
                bytes += frame(
                    FrameType.data,
                    flags: UInt8.random(in: 0...1, using: &generator),
                    stream: 1 + stream,
                    payload
                )
            }
        }
        let wholeResult = read(bytes) { bytes.count }
        var pieceGenerator = SplitMix64(seed: UInt64(seed) &+ 1_000)
        #expect(read(bytes) { Int.random(in: 1...40, using: &pieceGenerator) } == wholeResult)
        #expect(read(bytes) { 1 } == wholeResult)
        #expect(wholeResult.frames.count >= 1)
    }

    private struct ReadResult: Equatable {
        var frames: [SeenFrame] = []
        var errorCode: ErrorCode?
    }

    private func read(_ bytes: [UInt8], _ pieceBytes: () -> Int) -> ReadResult {
        var reader = FrameReader()
        var result = ReadResult()
        var position = 0
        while position < bytes.count {
            let end = min(bytes.count, position + pieceBytes())
            // Each piece is a copy, so that AddressSanitizer finds a read beyond its end.
            let piece = Array(bytes[position..<end])
            position = end
            let fault = piece.withUnsafeBytes { piece -> ErrorCode? in
                var input = piece
                do throws(ConnectionFault) {
                    while let frame = try reader.nextFrame(&input) {
                        result.frames.append(
                            SeenFrame(
                                type: frame.type,
                                flags: frame.flags,
                                stream: frame.streamIdentifier,
                                payload: Array(frame.payload)
                            )
                        )
                    }
                    return nil
                } catch {
                    return error.code
                }
            }
            if let fault {
                result.errorCode = fault
                return result
            }
        }
        return result
    }
}
