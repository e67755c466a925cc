import Reactor

/// Records a stream's events, and calls the test's closure in each callback.
final class StreamRecorder: StreamHandler {
    private(set) var connectedCount = 0
    private(set) var receivedInput: [UInt8] = []
    private(set) var receivedByteCount = 0
    private(set) var roomReportCount = 0
    private(set) var closeErrors: [StreamError?] = []

    var keepsBytes = true
    var onConnected: ((Stream) -> Void)?
    var onReceived: ((Stream, UnsafeRawBufferPointer) -> Void)?
    var onRoom: ((Stream) -> Void)?
    var onClosed: ((Stream) -> Void)?

    var isClosed: Bool { !closeErrors.isEmpty }
    /// The error that ended the stream; nil if the stream has not ended, or has ended without an error.
    var error: StreamError? { closeErrors.first ?? nil }

    func streamConnected(_ stream: Stream) {
        connectedCount += 1
        onConnected?(stream)
    }

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        receivedByteCount += bytes.count
        if keepsBytes { receivedInput.append(contentsOf: bytes) }
        onReceived?(stream, bytes)
    }

    func streamHasRoom(_ stream: Stream) {
        roomReportCount += 1
        onRoom?(stream)
    }

    func streamClosed(_ stream: Stream, error: StreamError?) {
        closeErrors.append(error)
        onClosed?(stream)
    }
}

extension Stream {
    func write(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { write($0) }
    }
}
