/// What the server allows, according to its SETTINGS frames so far (RFC 9113, section 6.5.2).
struct PeerSettings: Equatable {
    /// SETTINGS_MAX_CONCURRENT_STREAMS; unlimited until the server sends it.
    var concurrentStreamsMax: UInt32 = .max
    /// SETTINGS_INITIAL_WINDOW_SIZE: how many body bytes we may send on a new stream.
    var initialWindowBytes: Int32 = 65_535
    /// SETTINGS_HEADER_TABLE_SIZE: the largest HPACK table that the server keeps for our fields.
    var headerTableBytes: UInt32 = 4_096

    /// Applies the payload of one SETTINGS frame. Throws if a value is not allowed. ``FrameReader`` has already checked
    /// the payload's length.
    mutating func apply(_ payload: UnsafeRawBufferPointer) throws(ConnectionFault) {
        var offset = 0
        while offset + 6 <= payload.count {
            let value = payload.networkUInt32(at: offset + 2)
            switch payload.networkUInt16(at: offset) {
            case SettingIdentifier.headerTableSize:
                headerTableBytes = value
            case SettingIdentifier.enablePush:
                // The only value that a server may send is 0 (RFC 9113, section 6.5.2).
                guard value == 0 else { throw ConnectionFault(.protocolError, "the server sets ENABLE_PUSH") }
            case SettingIdentifier.concurrentStreamsMax:
                concurrentStreamsMax = value
            case SettingIdentifier.initialWindowSize:
                guard let bytes = Int32(exactly: value) else {
                    throw ConnectionFault(.flowControlError, "INITIAL_WINDOW_SIZE beyond 2^31-1")
                }
                initialWindowBytes = bytes
            case SettingIdentifier.frameSizeMax:
                // The value is only checked: we send no frame that is longer than the smallest allowed value.
                guard value >= FrameHeader.payloadBytesMax, value < 1 << 24 else {
                    throw ConnectionFault(.protocolError, "MAX_FRAME_SIZE out of its range")
                }
            default:
                break
            }
            offset += 6
        }
    }
}
