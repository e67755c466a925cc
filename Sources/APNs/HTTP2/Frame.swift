/// The frame types of HTTP/2 (RFC 9113, section 6).
enum FrameType {
    static let data: UInt8 = 0
    static let headers: UInt8 = 1
    static let priority: UInt8 = 2
    static let resetStream: UInt8 = 3
    static let settings: UInt8 = 4
    static let pushPromise: UInt8 = 5
    static let ping: UInt8 = 6
    static let goAway: UInt8 = 7
    static let windowUpdate: UInt8 = 8
    static let continuation: UInt8 = 9
}

enum FrameFlags {
    static let none: UInt8 = 0
    static let endStream: UInt8 = 0x1
    static let acknowledgement: UInt8 = 0x1
    static let endHeaders: UInt8 = 0x4
    static let padded: UInt8 = 0x8
    static let priority: UInt8 = 0x20
}

/// Error codes of RST_STREAM and GOAWAY (RFC 9113, section 7).
enum ErrorCode: UInt32, Sendable {
    case noError = 0x0
    case protocolError = 0x1
    case flowControlError = 0x3
    case frameSizeError = 0x6
    case refusedStream = 0x7
    case cancel = 0x8
    case compressionError = 0x9
    case enhanceYourCalm = 0xB
}

/// The identifiers of HTTP/2's settings (RFC 9113, section 6.5.2). A SETTINGS frame is a list of identifiers with
/// values.
enum SettingIdentifier {
    static let headerTableSize: UInt16 = 1
    static let enablePush: UInt16 = 2
    static let concurrentStreamsMax: UInt16 = 3
    static let initialWindowSize: UInt16 = 4
    static let frameSizeMax: UInt16 = 5
    static let headerListSizeMax: UInt16 = 6
    /// SETTINGS_NO_RFC7540_PRIORITIES (RFC 9218, section 2.1): we send no priorities of streams.
    static let noRFC7540Priorities: UInt16 = 9
}

/// An error of the peer that ends the connection: the peer broke HTTP/2, or exceeded one of our limits (RFC
/// 9113, section 5.4.1).
struct ConnectionFault: Error {
    var code: ErrorCode
    /// The error in words, for logs.
    var detail: StaticString

    init(_ code: ErrorCode, _ detail: StaticString) {
        self.code = code
        self.detail = detail
    }
}

/// The nine bytes in front of a frame's payload (RFC 9113, section 4.1).
struct FrameHeader {
    static let byteCount = 9
    /// The longest payload that we accept and send: the default of SETTINGS_MAX_FRAME_SIZE. Even if the peer allows
    /// longer frames, we need none, because a push's body has at most 5,120 bytes.
    static let payloadBytesMax = 16_384

    var payloadBytes: Int
    var type: UInt8
    var flags: UInt8
    var streamIdentifier: Int32

    init(payloadBytes: Int, type: UInt8, flags: UInt8, streamIdentifier: Int32) {
        self.payloadBytes = payloadBytes
        self.type = type
        self.flags = flags
        self.streamIdentifier = streamIdentifier
    }

    /// Reads the head of a frame from the first nine bytes.
    init(_ bytes: UnsafeRawPointer) {
        let firstWord = UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self))
        let lastByte = bytes.load(fromByteOffset: 8, as: UInt8.self)
        payloadBytes = Int(truncatingIfNeeded: firstWord >> 40)
        type = UInt8(truncatingIfNeeded: firstWord >> 32)
        flags = UInt8(truncatingIfNeeded: firstWord >> 24)
        // The highest bit of a stream identifier is reserved and must be ignored.
        streamIdentifier = Int32(truncatingIfNeeded: (firstWord & 0x7F_FFFF) << 8 | UInt64(lastByte))
    }

    /// Writes nine bytes: the head of the frame.
    func write(to bytes: UnsafeMutableRawPointer) {
        let identifier = UInt32(bitPattern: streamIdentifier)
        let firstWord =
            UInt64(UInt32(truncatingIfNeeded: payloadBytes)) << 40 | UInt64(type) << 32 | UInt64(flags) << 24
            | UInt64(identifier >> 8)
        bytes.storeBytes(of: firstWord.bigEndian, as: UInt64.self)
        bytes.storeBytes(of: UInt8(truncatingIfNeeded: identifier), toByteOffset: 8, as: UInt8.self)
    }
}

extension UnsafeRawBufferPointer {
    /// Reads four bytes in network order. The caller has checked the length.
    func networkUInt32(at offset: Int) -> UInt32 {
        UInt32(bigEndian: loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }

    func networkUInt16(at offset: Int) -> UInt16 {
        UInt16(bigEndian: loadUnaligned(fromByteOffset: offset, as: UInt16.self))
    }
}
