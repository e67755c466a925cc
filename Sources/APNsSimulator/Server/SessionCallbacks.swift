import CNghttp2
import Glibc

// nghttp2 calls the functions below with the connection as user data. The connection owns the session, and deletes the
// session before the connection itself is freed. So the unretained reference to the connection is always valid. A
// request's slot is the user data of its stream.

/// Makes the callbacks of a server's session; nil if memory is exhausted.
func makeSessionCallbacks() -> OpaquePointer? {
    var callbacks: OpaquePointer?
    guard nghttp2_session_callbacks_new(&callbacks) == 0, let callbacks else { return nil }
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, headersBegan)
    nghttp2_session_callbacks_set_on_header_callback(callbacks, headerReceived)
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, dataChunkReceived)
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frameReceived)
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, streamClosed)
    return callbacks
}

/// If a request's body has more bytes than this, the simulator resets the stream with ENHANCE_YOUR_CALM. A shorter body
/// is read to its end, even if it is too large for APNs; then the response is 413.
private let receivedBodyBytesMax = 1 << 20

@inline(__always)
private func connection(_ userData: UnsafeMutableRawPointer?) -> Unmanaged<ServerConnection>? {
    userData.map { Unmanaged<ServerConnection>.fromOpaque($0) }
}

@inline(__always)
private func slot(_ session: OpaquePointer?, _ streamIdentifier: Int32) -> UnsafeMutablePointer<RequestSlot>? {
    nghttp2_session_get_stream_user_data(session, streamIdentifier)?.assumingMemoryBound(to: RequestSlot.self)
}

private func headersBegan(
    _ session: OpaquePointer?,
    _ frame: UnsafePointer<nghttp2_frame>?,
    _ userData: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame, let connection = connection(userData) else { return NGHTTP2_ERR_CALLBACK_FAILURE.rawValue }
    let streamIdentifier = frame.pointee.hd.stream_id
    return connection._withUnsafeGuaranteedRef { connection in
        // Headers after the body (trailers) are ignored.
        guard frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST else {
            connection.slotBeingRead = nil
            return 0
        }
        guard let slot = connection.beginRequest(streamIdentifier: streamIdentifier) else {
            connection.server.statistics.refusedStreamCount += 1
            nghttp2_submit_rst_stream(
                session,
                UInt8(NGHTTP2_FLAG_NONE.rawValue),
                streamIdentifier,
                NGHTTP2_REFUSED_STREAM.rawValue
            )
            connection.slotBeingRead = nil
            return 0
        }
        nghttp2_session_set_stream_user_data(session, streamIdentifier, slot)
        connection.slotBeingRead = slot
        return 0
    }
}

private func headerReceived(
    _ session: OpaquePointer?,
    _ frame: UnsafePointer<nghttp2_frame>?,
    _ name: UnsafePointer<UInt8>?,
    _ nameBytes: Int,
    _ value: UnsafePointer<UInt8>?,
    _ valueBytes: Int,
    _ flags: UInt8,
    _ userData: UnsafeMutableRawPointer?
) -> Int32 {
    connection(userData)?
        ._withUnsafeGuaranteedRef { connection in
            guard let slot = connection.slotBeingRead else { return }
            let value = UnsafeRawBufferPointer(start: value, count: valueBytes)
            let isAuthorization = slot.pointee.head.addField(
                name: UnsafeRawBufferPointer(start: name, count: nameBytes),
                value: value,
                memory: slot.pointee.memory
            )
            if isAuthorization { connection.checkAuthorization(value, of: slot) }
        }
    return 0
}

private func dataChunkReceived(
    _ session: OpaquePointer?,
    _ flags: UInt8,
    _ streamIdentifier: Int32,
    _ data: UnsafePointer<UInt8>?,
    _ count: Int,
    _ userData: UnsafeMutableRawPointer?
) -> Int32 {
    guard let slot = slot(session, streamIdentifier) else { return 0 }
    let receivedByteCount = slot.pointee.receivedBodyByteCount
    slot.pointee.receivedBodyByteCount = receivedByteCount + count
    let body = slot.pointee.memory[RequestMemory.bodyByteRange]
    let keptByteCount = min(count, max(0, body.count - receivedByteCount))
    if keptByteCount > 0 {
        UnsafeMutableRawBufferPointer(rebasing: body[receivedByteCount..<receivedByteCount + keptByteCount])
            .copyMemory(from: UnsafeRawBufferPointer(start: data, count: keptByteCount))
    }
    if slot.pointee.receivedBodyByteCount > receivedBodyBytesMax {
        nghttp2_submit_rst_stream(
            session,
            UInt8(NGHTTP2_FLAG_NONE.rawValue),
            streamIdentifier,
            NGHTTP2_ENHANCE_YOUR_CALM.rawValue
        )
    }
    return 0
}

private func frameReceived(
    _ session: OpaquePointer?,
    _ frame: UnsafePointer<nghttp2_frame>?,
    _ userData: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame, frame.pointee.hd.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0 else { return 0 }
    let kind = UInt32(frame.pointee.hd.type)
    guard kind == NGHTTP2_DATA.rawValue || kind == NGHTTP2_HEADERS.rawValue,
        let slot = slot(session, frame.pointee.hd.stream_id)
    else { return 0 }
    connection(userData)?._withUnsafeGuaranteedRef { $0.handleRequest(slot) }
    return 0
}

private func streamClosed(
    _ session: OpaquePointer?,
    _ streamIdentifier: Int32,
    _ code: UInt32,
    _ userData: UnsafeMutableRawPointer?
) -> Int32 {
    guard let slot = slot(session, streamIdentifier) else { return 0 }
    connection(userData)?
        ._withUnsafeGuaranteedRef { connection in
            if connection.slotBeingRead == slot { connection.slotBeingRead = nil }
            connection.free(slot)
        }
    return 0
}

/// Copies the next part of a response's body from its slot to the frame that nghttp2 writes.
func copyResponseBody(
    _ session: OpaquePointer?,
    _ streamIdentifier: Int32,
    _ buffer: UnsafeMutablePointer<UInt8>?,
    _ length: Int,
    _ flags: UnsafeMutablePointer<UInt32>?,
    _ source: UnsafeMutablePointer<nghttp2_data_source>?,
    _ userData: UnsafeMutableRawPointer?
) -> Int {
    guard let buffer, let flags, let slot = source?.pointee.ptr?.assumingMemoryBound(to: RequestSlot.self) else {
        return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
    }
    if !slot.pointee.managementResponseBody.isEmpty {
        return slot.pointee.managementResponseBody.withUnsafeBytes {
            copyNextPart(of: $0, slot, to: buffer, length, flags)
        }
    }
    let response = slot.pointee.memory.prefix(slot.pointee.responseByteCount, of: RequestMemory.responseByteRange)
    return copyNextPart(of: response, slot, to: buffer, length, flags)
}

private func copyNextPart(
    of response: UnsafeRawBufferPointer,
    _ slot: UnsafeMutablePointer<RequestSlot>,
    to buffer: UnsafeMutablePointer<UInt8>,
    _ length: Int,
    _ flags: UnsafeMutablePointer<UInt32>
) -> Int {
    let sentByteCount = slot.pointee.sentResponseByteCount
    let count = min(length, response.count - sentByteCount)
    UnsafeMutableRawBufferPointer(start: buffer, count: count)
        .copyMemory(from: UnsafeRawBufferPointer(rebasing: response[sentByteCount..<sentByteCount + count]))
    slot.pointee.sentResponseByteCount = sentByteCount + count
    if sentByteCount + count == response.count { flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
    return count
}
