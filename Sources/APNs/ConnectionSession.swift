import CNghttp2

/// What a session is allowed.
enum SessionLimits {
    /// Header list of one answer, as RFC 9113 section 6.5.2 counts it. APNs's are below 300.
    static let headerListBytesMax = 16_384
    /// `Retry-After` beyond a day is not believed.
    static let retryAfterSecondsMax: Int32 = 86_400
    /// What the server may send on the whole connection before we have read it: a thousand answers fit many times.
    static let connectionWindowBytes: Int32 = 1 << 20
    /// Entries in one SETTINGS frame.
    static let settingsEntriesMax = 32
    /// Acknowledgements of SETTINGS and PING that may wait to be sent.
    static let outboundAcknowledgementsMax = 256
    /// Text of a GOAWAY, or of nghttp2's complaint, that goes into a log line.
    static let logTextBytesMax = 256
}

extension Connection {
    /// Makes the session and submits its preface. False without memory.
    func makeSession() -> Bool {
        var callbacks: OpaquePointer?
        guard nghttp2_session_callbacks_new(&callbacks) == 0 else { return false }
        defer { nghttp2_session_callbacks_del(callbacks) }
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, onBeginHeaders)
        nghttp2_session_callbacks_set_on_header_callback(callbacks, onHeader)
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, onDataChunk)
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, onFrame)
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, onStreamClose)
        nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, onFrameNotSent)
        nghttp2_session_callbacks_set_error_callback2(callbacks, onSessionError)

        var option: OpaquePointer?
        guard nghttp2_option_new(&option) == 0 else { return false }
        defer { nghttp2_option_del(option) }
        // Until its SETTINGS frame comes, nothing is submitted; should it come without a limit, there is none.
        nghttp2_option_set_peer_max_concurrent_streams(option, 1)
        nghttp2_option_set_max_settings(option, SessionLimits.settingsEntriesMax)
        nghttp2_option_set_max_outbound_ack(option, SessionLimits.outboundAcknowledgementsMax)
        nghttp2_option_set_max_reserved_remote_streams(option, 0)

        var functions = memory.functions
        let context = Unmanaged.passUnretained(self).toOpaque()
        guard nghttp2_session_client_new3(&session, callbacks, context, option, &functions) == 0 else { return false }
        let settings = [
            nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
            nghttp2_settings_entry(
                settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
                value: UInt32(SessionLimits.headerListBytesMax)
            ),
            // All pushes are equal: without RFC 7540's priorities nghttp2 keeps no dependency tree (RFC 9218).
            nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES.rawValue), value: 1),
        ]
        let none = UInt8(NGHTTP2_FLAG_NONE.rawValue)
        return nghttp2_submit_settings(session, none, settings, settings.count) == 0
            && nghttp2_session_set_local_window_size(session, none, 0, SessionLimits.connectionWindowBytes) == 0
    }

    fileprivate func goAwayReceived(_ frame: nghttp2_goaway) {
        guard phase != .closed else { return }
        let data = UnsafeRawBufferPointer(start: frame.opaque_data, count: frame.opaque_data_len)
        let reason = AnswerBody(data).reason
        let text = data.logText(bytesMax: SessionLimits.logTextBytesMax)
        pool.notice(.goAway(connection: identifier, code: frame.error_code, reason: reason, text: text))
        retire(.goAway)
    }

    fileprivate static func of(_ context: UnsafeMutableRawPointer?) -> Connection? {
        // The session is deleted before its connection goes away, so the reference is good in every callback.
        context.map { Unmanaged<Connection>.fromOpaque($0).takeUnretainedValue() }
    }
}

// MARK: - nghttp2's callbacks

let onBodyRead: nghttp2_data_source_read_callback = { _, _, buffer, length, flags, source, context in
    guard let connection = Connection.of(context), let flags else { return 0 }
    let room = UnsafeMutableRawBufferPointer(start: buffer, count: length)
    let (count, isLast) = connection.readBody(source?.pointee.ptr, into: room)
    if isLast { flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
    return count
}

private let onBeginHeaders: nghttp2_on_begin_headers_callback = { session, frame, context in
    guard let connection = Connection.of(context), let frame else { return 0 }
    let handle = nghttp2_session_get_stream_user_data(session, frame.pointee.hd.stream_id)
    connection.headerSlot = connection.slots.index(of: handle) ?? -1
    connection.headerBytes = 0
    return 0
}

private let onHeader: nghttp2_on_header_callback = { _, _, name, nameLength, value, valueLength, _, context in
    guard let connection = Connection.of(context) else { return 0 }
    let isTaken = connection.headerReceived(
        name: UnsafeRawBufferPointer(start: name, count: nameLength),
        value: UnsafeRawBufferPointer(start: value, count: valueLength)
    )
    return isTaken ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
}

private let onDataChunk: nghttp2_on_data_chunk_recv_callback = { _, _, stream, bytes, length, context in
    Connection.of(context)?.bodyReceived(stream: stream, bytes: UnsafeRawBufferPointer(start: bytes, count: length))
    return 0
}

private let onFrame: nghttp2_on_frame_recv_callback = { _, frame, context in
    guard let frame, let connection = Connection.of(context) else { return 0 }
    let isAcknowledgement = frame.pointee.hd.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0
    switch UInt32(frame.pointee.hd.type) {
    case NGHTTP2_HEADERS.rawValue:
        connection.headerSlot = -1
    case NGHTTP2_SETTINGS.rawValue where !isAcknowledgement:
        connection.settingsReceived()
    case NGHTTP2_PING.rawValue where isAcknowledgement:
        connection.cancel(.ping)
    case NGHTTP2_GOAWAY.rawValue:
        connection.goAwayReceived(frame.pointee.goaway)
    default:
        break
    }
    return 0
}

private let onStreamClose: nghttp2_on_stream_close_callback = { _, stream, code, context in
    Connection.of(context)?.streamClosed(stream: stream, code: code)
    return 0
}

private let onFrameNotSent: nghttp2_on_frame_not_send_callback = { _, _, _, context in
    if let connection = Connection.of(context), connection.phase != .closed {
        connection.pool.statistics.framesNotSent += 1
    }
    return 0
}

private let onSessionError: nghttp2_error_callback2 = { _, _, text, length, context in
    let bytes = UnsafeRawBufferPointer(start: text, count: length)
    Connection.of(context)?.sessionError = bytes.logText(bytesMax: SessionLimits.logTextBytesMax)
    return 0
}
