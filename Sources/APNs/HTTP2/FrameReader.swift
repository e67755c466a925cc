import Glibc

/// A whole received frame. Its payload has no padding. The payload is valid until the next frame is read, and not
/// longer than the memory of the input.
struct Frame {
    var type: UInt8
    var flags: UInt8
    var streamIdentifier: Int32
    var payload: UnsafeRawBufferPointer
    /// For DATA: the bytes that count against the flow-control windows, padding included. Not used for other frames.
    var flowControlledBytes: Int
}

/// Splits received bytes into frames, and refuses invalid frames (RFC 9113, sections 4 and 6).
///
/// A frame that is complete in the input is returned without a copy. If the input ends within a frame, the reader keeps
/// the first part until the rest comes. It joins the frames of one header block, so that a HEADERS frame is returned
/// with its whole block.
struct FrameReader: ~Copyable {
    /// The longest header block that the reader joins from several frames (R4). A response of APNs has a block of
    /// about a hundred bytes.
    static let headerBlockBytesMax = 65_536
    /// How many CONTINUATION frames one header block may have (R4). A peer could send empty ones without end.
    static let continuationFramesMax = 16

    private let partialFrame: UnsafeMutableRawBufferPointer
    private var partialFrameBytes = 0
    /// The memory for a header block that comes in several frames. Allocated when the first such block arrives.
    private var headerBlock = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    private var headerBlockBytes = 0
    private var continuationFrameCount = 0
    /// The stream of the header block that is not complete yet; 0 if there is none.
    private var headerBlockStreamIdentifier: Int32 = 0
    private var headerBlockFlags: UInt8 = 0
    /// True until the first frame has come. This frame must be SETTINGS (RFC 9113, section 3.4).
    private var awaitsFirstFrame = true

    init() {
        partialFrame = .allocate(byteCount: FrameHeader.byteCount + FrameHeader.payloadBytesMax, alignment: 16)
    }

    deinit {
        partialFrame.deallocate()
        headerBlock.deallocate()
    }

    /// Returns the next frame. If the rest of the input is not a whole frame, keeps the rest and returns nil. Throws if
    /// a frame is not valid.
    mutating func nextFrame(_ input: inout UnsafeRawBufferPointer) throws(ConnectionFault) -> Frame? {
        while let (header, payload) = try takeWholeFrame(&input) {
            if let frame = try checkAndJoin(header, payload) { return frame }
        }
        return nil
    }

    // MARK: - Splitting input into frames

    /// Takes one frame from the input, and checks only its length. If the rest of the input is not a whole frame, keeps
    /// the rest and returns nil.
    private mutating func takeWholeFrame(
        _ input: inout UnsafeRawBufferPointer
    ) throws(ConnectionFault) -> (FrameHeader, UnsafeRawBufferPointer)? {
        if partialFrameBytes > 0 { return try completePartialFrame(&input) }
        guard input.count >= FrameHeader.byteCount, let start = input.baseAddress else {
            moveToPartialFrame(&input, upTo: FrameHeader.byteCount)
            return nil
        }
        let header = FrameHeader(start)
        try checkPayloadLength(header)
        let end = FrameHeader.byteCount + header.payloadBytes
        guard input.count >= end else {
            moveToPartialFrame(&input, upTo: end)
            return nil
        }
        let payload = UnsafeRawBufferPointer(rebasing: input[FrameHeader.byteCount..<end])
        input = UnsafeRawBufferPointer(rebasing: input[end...])
        return (header, payload)
    }

    /// Completes the frame that began in an earlier input, and returns it. Returns nil if the frame's end is still
    /// missing.
    private mutating func completePartialFrame(
        _ input: inout UnsafeRawBufferPointer
    ) throws(ConnectionFault) -> (FrameHeader, UnsafeRawBufferPointer)? {
        guard let start = partialFrame.baseAddress else { return nil }
        moveToPartialFrame(&input, upTo: FrameHeader.byteCount)
        guard partialFrameBytes >= FrameHeader.byteCount else { return nil }
        let header = FrameHeader(start)
        try checkPayloadLength(header)
        let end = FrameHeader.byteCount + header.payloadBytes
        moveToPartialFrame(&input, upTo: end)
        guard partialFrameBytes == end else { return nil }
        partialFrameBytes = 0
        return (header, UnsafeRawBufferPointer(rebasing: partialFrame[FrameHeader.byteCount..<end]))
    }

    /// Moves bytes from the input to `partialFrame`, until `partialFrame` has `total` bytes or the input is empty.
    private mutating func moveToPartialFrame(_ input: inout UnsafeRawBufferPointer, upTo total: Int) {
        let count = min(input.count, total - partialFrameBytes)
        guard count > 0 else { return }
        UnsafeMutableRawBufferPointer(rebasing: partialFrame[partialFrameBytes..<partialFrameBytes + count])
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: input[..<count]))
        partialFrameBytes += count
        input = UnsafeRawBufferPointer(rebasing: input[count...])
    }

    private func checkPayloadLength(_ header: FrameHeader) throws(ConnectionFault) {
        guard header.payloadBytes <= FrameHeader.payloadBytesMax else {
            throw ConnectionFault(.frameSizeError, "a frame longer than SETTINGS_MAX_FRAME_SIZE (RFC 9113, 4.2)")
        }
    }

    // MARK: - Checks of frames

    /// Checks a frame, and joins the parts of a header block.
    ///
    /// - Returns: nil if the header block is not complete yet. A frame of an unknown type is returned, and the caller
    ///   must ignore it (RFC 9113, section 5.5).
    /// - Throws: if the frame is not valid, or comes between two parts of a header block.
    private mutating func checkAndJoin(
        _ header: FrameHeader,
        _ payload: UnsafeRawBufferPointer
    ) throws(ConnectionFault) -> Frame? {
        if awaitsFirstFrame {
            guard header.type == FrameType.settings, header.flags & FrameFlags.acknowledgement == 0 else {
                throw ConnectionFault(.protocolError, "the first frame is not SETTINGS (RFC 9113, 3.4)")
            }
            awaitsFirstFrame = false
        }
        if headerBlockStreamIdentifier != 0 || header.type == FrameType.continuation {
            return try continueHeaderBlock(header, payload)
        }
        var frame = Frame(
            type: header.type,
            flags: header.flags,
            streamIdentifier: header.streamIdentifier,
            payload: payload,
            flowControlledBytes: payload.count
        )
        switch header.type {
        case FrameType.headers:
            try requireNonzeroStream(header)
            frame.payload = try removePadding(header, payload)
            if header.flags & FrameFlags.priority != 0 {
                guard frame.payload.count >= 5 else {
                    throw ConnectionFault(.frameSizeError, "HEADERS without its priority (RFC 9113, 6.2)")
                }
                frame.payload = UnsafeRawBufferPointer(rebasing: frame.payload[5...])
            }
            guard header.flags & FrameFlags.endHeaders != 0 else {
                try beginHeaderBlock(header, frame.payload)
                return nil
            }
        case FrameType.data:
            try requireNonzeroStream(header)
            frame.payload = try removePadding(header, payload)
        default:
            try checkControlFrame(header)
        }
        return frame
    }

    private func checkControlFrame(_ header: FrameHeader) throws(ConnectionFault) {
        switch header.type {
        case FrameType.resetStream:
            try requireNonzeroStream(header)
            try requireValidSize(header.payloadBytes == 4)
        case FrameType.windowUpdate:
            try requireValidSize(header.payloadBytes == 4)
        case FrameType.priority:
            // Do not check the length of a PRIORITY frame: the caller ignores the frame, and a wrong length must not
            // end the connection (RFC 9113, section 6.3).
            try requireNonzeroStream(header)
        case FrameType.settings:
            try requireStreamZero(header)
            let isAcknowledgement = header.flags & FrameFlags.acknowledgement != 0
            try requireValidSize(isAcknowledgement ? header.payloadBytes == 0 : header.payloadBytes.isMultiple(of: 6))
        case FrameType.ping:
            try requireStreamZero(header)
            try requireValidSize(header.payloadBytes == 8)
        case FrameType.goAway:
            try requireStreamZero(header)
            try requireValidSize(header.payloadBytes >= 8)
        default:
            break
        }
    }

    private func requireNonzeroStream(_ header: FrameHeader) throws(ConnectionFault) {
        guard header.streamIdentifier != 0 else {
            throw ConnectionFault(.protocolError, "a frame of a stream on stream 0 (RFC 9113, 6)")
        }
    }

    private func requireStreamZero(_ header: FrameHeader) throws(ConnectionFault) {
        guard header.streamIdentifier == 0 else {
            throw ConnectionFault(.protocolError, "a frame of the connection on a stream (RFC 9113, 6)")
        }
    }

    private func requireValidSize(_ isValid: Bool) throws(ConnectionFault) {
        guard isValid else { throw ConnectionFault(.frameSizeError, "a frame of the wrong length (RFC 9113, 6)") }
    }

    private func removePadding(
        _ header: FrameHeader,
        _ payload: UnsafeRawBufferPointer
    ) throws(ConnectionFault) -> UnsafeRawBufferPointer {
        guard header.flags & FrameFlags.padded != 0 else { return payload }
        guard let first = payload.first else {
            throw ConnectionFault(.frameSizeError, "a padded frame without its padding's length (RFC 9113, 6.1)")
        }
        guard Int(first) < payload.count else {
            throw ConnectionFault(.protocolError, "more padding than payload (RFC 9113, 6.1)")
        }
        return UnsafeRawBufferPointer(rebasing: payload[1..<payload.count - Int(first)])
    }

    // MARK: - Header blocks in parts

    private mutating func beginHeaderBlock(
        _ header: FrameHeader,
        _ part: UnsafeRawBufferPointer
    ) throws(ConnectionFault) {
        if headerBlock.count == 0 { headerBlock = .allocate(byteCount: Self.headerBlockBytesMax, alignment: 16) }
        headerBlockStreamIdentifier = header.streamIdentifier
        headerBlockFlags = header.flags
        headerBlockBytes = 0
        continuationFrameCount = 0
        try appendToHeaderBlock(part)
    }

    /// Appends a CONTINUATION frame to the header block. Returns the complete HEADERS frame after the last part; nil
    /// before.
    private mutating func continueHeaderBlock(
        _ header: FrameHeader,
        _ part: UnsafeRawBufferPointer
    ) throws(ConnectionFault) -> Frame? {
        guard headerBlockStreamIdentifier != 0, header.type == FrameType.continuation,
            header.streamIdentifier == headerBlockStreamIdentifier
        else {
            throw ConnectionFault(.protocolError, "HEADERS and CONTINUATION out of order (RFC 9113, 6.10)")
        }
        continuationFrameCount += 1
        guard continuationFrameCount <= Self.continuationFramesMax else {
            throw ConnectionFault(.enhanceYourCalm, "a header block in too many parts (RFC 9113, 10.5.1)")
        }
        try appendToHeaderBlock(part)
        guard header.flags & FrameFlags.endHeaders != 0 else { return nil }
        let streamIdentifier = headerBlockStreamIdentifier
        headerBlockStreamIdentifier = 0
        return Frame(
            type: FrameType.headers,
            flags: headerBlockFlags | FrameFlags.endHeaders,
            streamIdentifier: streamIdentifier,
            payload: UnsafeRawBufferPointer(rebasing: headerBlock[..<headerBlockBytes]),
            flowControlledBytes: headerBlockBytes
        )
    }

    private mutating func appendToHeaderBlock(_ part: UnsafeRawBufferPointer) throws(ConnectionFault) {
        guard part.count <= headerBlock.count - headerBlockBytes else {
            throw ConnectionFault(.enhanceYourCalm, "a header block that is too long (RFC 9113, 10.5.1)")
        }
        UnsafeMutableRawBufferPointer(rebasing: headerBlock[headerBlockBytes..<headerBlockBytes + part.count])
            .copyMemory(from: part)
        headerBlockBytes += part.count
    }
}
