@testable import APNs

/// Checks the frame reader. The input's first byte, plus 1, is a size in bytes. Rule: the other bytes give the same
/// frames and the same fault whether the reader gets them at once or in pieces of this size.
func frameViolation(_ input: UnsafeRawBufferPointer) -> String? {
    guard let first = input.first else { return nil }
    let bytes = UnsafeRawBufferPointer(rebasing: input.dropFirst())
    let wholeFrames = readFrames(bytes, pieceBytes: max(1, bytes.count))
    let pieceFrames = readFrames(bytes, pieceBytes: 1 + Int(first))
    return wholeFrames == pieceFrames ? nil : "frames differ when they come in pieces of \(1 + Int(first)) bytes"
}

private struct FramesAndFault: Equatable {
    /// The type, flags, stream, number of flow-controlled bytes and payload of each frame, one after the other.
    var frames: [UInt8] = []
    var fault: ErrorCode?
}

private func readFrames(_ bytes: UnsafeRawBufferPointer, pieceBytes: Int) -> FramesAndFault {
    var reader = FrameReader()
    var framesAndFault = FramesAndFault()
    forEachPiece(of: bytes, pieceBytes) { piece in
        var input = piece
        do throws(ConnectionFault) {
            while let frame = try reader.nextFrame(&input) {
                framesAndFault.frames += [frame.type, frame.flags]
                withUnsafeBytes(of: frame.streamIdentifier) { framesAndFault.frames += $0 }
                withUnsafeBytes(of: frame.flowControlledBytes) { framesAndFault.frames += $0 }
                framesAndFault.frames += frame.payload
            }
            return true
        } catch {
            framesAndFault.fault = error.code
            return false
        }
    }
    return framesAndFault
}
