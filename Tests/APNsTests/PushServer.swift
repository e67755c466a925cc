import CNghttp2
import Glibc
import Reactor

/// One complete request.
struct ServedRequest {
    struct Field: Equatable {
        var name: String
        var value: String
        /// Whether the field came as a literal that must never be indexed.
        var isNeverIndexed: Bool
    }

    let connection: ServerConnection
    let stream: Int32
    /// The number of the request among the server's requests, from 0.
    let ordinal: Int
    let fields: [Field]
    let body: [UInt8]

    func value(_ name: String) -> String? { fields.first { $0.name == name }?.value }
}

/// The server's reaction to a request.
struct ServedResponse {
    enum End {
        case complete
        case trailers
        /// RST_STREAM with this code after the header and the body.
        case reset(UInt32)
    }

    /// The header fields. If they are nil, the server sends no header and no body, but only `end`.
    var fields: [(name: String, value: String)]? = [(":status", "200")]
    /// Whether the server sends a response 103 (Early Hints) before this one.
    var isPrecededByHints = false
    var body: [UInt8] = []
    /// The maximum number of body bytes in each DATA frame.
    var chunkBytes = 16_384
    var end = End.complete

    static let accepted = ServedResponse()

    static func status(_ status: Int, reason: String? = nil, extra: String = "") -> ServedResponse {
        ServedResponse(
            fields: [(":status", String(status))],
            body: reason.map { Array("{\"reason\":\"\($0)\"\(extra)}".utf8) } ?? []
        )
    }

    static func reset(_ code: UInt32) -> ServedResponse { ServedResponse(fields: nil, end: .reset(code)) }
}

/// An HTTP/2 server on the test's own loop. The test decides the response to each request.
final class PushServer: ListenerHandler {
    let loop: EventLoop
    let tls: TLSContext
    private var listener: Listener?
    private(set) var connections: [ServerConnection] = []
    private(set) var acceptedConnectionCount = 0
    private(set) var requestCount = 0

    /// Returns the response to a request; nil: it gets none until `ServerConnection.respond` is called.
    var respond: (ServedRequest) -> ServedResponse? = { _ in .accepted }
    /// SETTINGS_MAX_CONCURRENT_STREAMS of the first SETTINGS frame.
    var streamsMax: UInt32 = 1_000
    /// Whether the server sends SETTINGS. If it does not, TLS connects, and then the client gets nothing.
    var sendsSettings = true

    init(loop: EventLoop, tls: TLSContext) throws {
        self.loop = loop
        self.tls = tls
        listener = try Listener(loop: loop, address: .loopback(port: 0), handler: self)
    }

    var port: UInt16 { listener?.port ?? 0 }

    func listenerAccepted(descriptor: Int32, from: SocketAddress?) {
        acceptedConnectionCount += 1
        connections.append(ServerConnection(server: self, descriptor: descriptor))
    }

    func serve(_ request: ServedRequest) -> ServedResponse? {
        requestCount += 1
        return respond(request)
    }

    var openConnections: [ServerConnection] { connections.filter { !$0.isClosed } }

    func stop() {
        listener?.close()
        for connection in connections { connection.close() }
    }
}

/// One accepted connection.
final class ServerConnection: StreamHandler, IterationEndHandler {
    unowned let server: PushServer
    let descriptor: Int32
    private var stream: Stream?
    private var session: OpaquePointer?
    private(set) var isClosed = false
    private var incomingRequests: [Int32: (fields: [ServedRequest.Field], body: [UInt8])] = [:]
    private var outgoingResponses: [Int32: (response: ServedResponse, sentBytes: Int)] = [:]
    private var isIterationEndScheduled = false
    private(set) var openStreamCount = 0
    private(set) var peakOpenStreamCount = 0
    private(set) var requestCount = 0
    private(set) var pingCount = 0
    private(set) var goAwayCount = 0
    /// Whether the server sends nothing, not even nghttp2's acknowledgements of PING frames.
    var isMute = false

    init(server: PushServer, descriptor: Int32) {
        self.server = server
        self.descriptor = descriptor
        stream = Stream(accepted: descriptor, loop: server.loop, handler: self, tls: server.tls)
    }

    deinit { nghttp2_session_del(session) }

    func close() {
        stream?.close()
        isClosed = true
    }

    /// Closes the TCP connection below TLS, so that the client gets no close_notify.
    func closeWithoutCloseNotify() {
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    func setStreamsMax(_ count: UInt32) {
        var entry = nghttp2_settings_entry(
            settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue),
            value: count
        )
        nghttp2_submit_settings(session, 0, &entry, 1)
        scheduleWrite()
    }

    func goAway(lastStream: Int32, reason: String) {
        let text = Array("{\"reason\":\"\(reason)\"}".utf8)
        nghttp2_submit_goaway(session, 0, lastStream, NGHTTP2_NO_ERROR.rawValue, text, text.count)
        scheduleWrite()
    }

    func respond(_ response: ServedResponse, stream: Int32) {
        defer { scheduleWrite() }
        if response.isPrecededByHints {
            withFields([(":status", "103"), ("link", "</nothing>")]) {
                _ = nghttp2_submit_headers(session, 0, stream, nil, $0, $1, nil)
            }
        }
        outgoingResponses[stream] = (response, 0)
        guard let fields = response.fields else { return endStream(stream, response.end) }
        var provider = nghttp2_data_provider(source: nghttp2_data_source(fd: 0), read_callback: onResponseRead)
        let hasData = !response.body.isEmpty || !response.end.isComplete
        withFields(fields) { fields, count in
            _ = withUnsafePointer(to: &provider) {
                nghttp2_submit_response(session, stream, fields, count, hasData ? $0 : nil)
            }
        }
    }

    private func endStream(_ stream: Int32, _ end: ServedResponse.End) {
        switch end {
        case .complete: break
        case .trailers:
            withFields([("grpc-status", "0")]) { _ = nghttp2_submit_trailer(session, stream, $0, $1) }
        case .reset(let code): nghttp2_submit_rst_stream(session, 0, stream, code)
        }
    }

    private func withFields(
        _ fields: [(name: String, value: String)],
        _ body: (UnsafePointer<nghttp2_nv>?, Int) -> Void
    ) {
        let texts = fields.map { (Array($0.name.utf8), Array($0.value.utf8)) }
        let vectors = texts.map { name, value in
            // nghttp2 copies the name and the value before this function frees them.
            nghttp2_nv(
                name: copy(name),
                value: copy(value),
                namelen: name.count,
                valuelen: value.count,
                flags: 0
            )
        }
        vectors.withUnsafeBufferPointer { body($0.baseAddress, $0.count) }
        for vector in vectors {
            vector.name.deallocate()
            vector.value.deallocate()
        }
    }

    private func copy(_ bytes: [UInt8]) -> UnsafeMutablePointer<UInt8> {
        let memory = UnsafeMutablePointer<UInt8>.allocate(capacity: max(1, bytes.count))
        memory.update(from: bytes, count: bytes.count)
        return memory
    }

    // MARK: - Stream

    func streamConnected(_ stream: Stream) {
        guard server.sendsSettings else { return }
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        defer { nghttp2_session_callbacks_del(callbacks) }
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, frame, context in
            guard let frame, let connection = ServerConnection.of(context) else { return 0 }
            connection.incomingRequests[frame.pointee.hd.stream_id] = ([], [])
            connection.openStreamCount += 1
            connection.peakOpenStreamCount = max(connection.peakOpenStreamCount, connection.openStreamCount)
            return 0
        }
        nghttp2_session_callbacks_set_on_header_callback(callbacks) {
            _,
            frame,
            name,
            nameByteCount,
            value,
            valueCount,
            flags,
            context in
            guard let frame, let connection = ServerConnection.of(context) else { return 0 }
            let field = ServedRequest.Field(
                name: String(decoding: UnsafeBufferPointer(start: name, count: nameByteCount), as: UTF8.self),
                value: String(decoding: UnsafeBufferPointer(start: value, count: valueCount), as: UTF8.self),
                isNeverIndexed: UInt32(flags) & NGHTTP2_NV_FLAG_NO_INDEX.rawValue != 0
            )
            connection.incomingRequests[frame.pointee.hd.stream_id]?.fields.append(field)
            return 0
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) { _, _, stream, bytes, count, context in
            let chunk = UnsafeBufferPointer(start: bytes, count: count)
            ServerConnection.of(context)?.incomingRequests[stream]?.body.append(contentsOf: chunk)
            return 0
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, context in
            guard let frame, let connection = ServerConnection.of(context) else { return 0 }
            connection.frameReceived(frame.pointee.hd)
            return 0
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, stream, _, context in
            guard let connection = ServerConnection.of(context) else { return 0 }
            connection.openStreamCount -= 1
            connection.outgoingResponses[stream] = nil
            connection.incomingRequests[stream] = nil
            return 0
        }
        nghttp2_session_server_new(&session, callbacks, Unmanaged.passUnretained(self).toOpaque())
        setStreamsMax(server.streamsMax)
        write()
    }

    private func frameReceived(_ header: nghttp2_frame_hd) {
        switch UInt32(header.type) {
        case NGHTTP2_PING.rawValue: pingCount += 1
        case NGHTTP2_GOAWAY.rawValue: goAwayCount += 1
        case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
            guard UInt32(header.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0,
                let request = incomingRequests[header.stream_id]
            else { return }
            requestCount += 1
            let servedRequest = ServedRequest(
                connection: self,
                stream: header.stream_id,
                ordinal: server.requestCount,
                fields: request.fields,
                body: request.body
            )
            if let response = server.serve(servedRequest) { respond(response, stream: header.stream_id) }
        default: break
        }
    }

    /// The size, in bytes, of the HPACK table that the client's requests have filled, as the server stores it.
    var headerTableBytes: Int { nghttp2_session_get_hd_inflate_dynamic_table_size(session) }

    func nextBodyPart(
        _ stream: Int32,
        into buffer: UnsafeMutablePointer<UInt8>?,
        room: Int,
        flags: UnsafeMutablePointer<UInt32>?
    ) -> Int {
        guard let outgoing = outgoingResponses[stream], let buffer, let flags else { return 0 }
        let count = min(room, outgoing.response.chunkBytes, outgoing.response.body.count - outgoing.sentBytes)
        outgoing.response.body.withUnsafeBufferPointer { body in
            if let start = body.baseAddress { buffer.update(from: start + outgoing.sentBytes, count: count) }
        }
        outgoingResponses[stream]?.sentBytes += count
        if outgoing.sentBytes + count == outgoing.response.body.count {
            flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
            if !outgoing.response.end.isComplete {
                flags.pointee |= NGHTTP2_DATA_FLAG_NO_END_STREAM.rawValue
                endStream(stream, outgoing.response.end)
            }
        }
        return count
    }

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        guard let session else { return }
        let start = bytes.bindMemory(to: UInt8.self).baseAddress
        guard nghttp2_session_mem_recv(session, start, bytes.count) >= 0 else { return close() }
        write()
    }

    private func write() {
        guard let session, let stream, !isClosed, !isMute else { return }
        while stream.pendingOutputBytes <= Stream.highWaterBytes {
            var bytes: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &bytes)
            guard count > 0 else { break }
            stream.write(UnsafeRawBufferPointer(start: bytes, count: count))
        }
        if nghttp2_session_want_read(session) == 0, nghttp2_session_want_write(session) == 0 {
            stream.shutDownAfterFlush()
        }
    }

    private func scheduleWrite() {
        guard !isIterationEndScheduled else { return }
        isIterationEndScheduled = true
        server.loop.callAtIterationEnd(self)
    }

    func iterationEnded() {
        isIterationEndScheduled = false
        write()
    }

    func streamHasRoom(_ stream: Stream) { write() }

    func streamClosed(_ stream: Stream, error: StreamError?) { isClosed = true }

    fileprivate static func of(_ context: UnsafeMutableRawPointer?) -> ServerConnection? {
        context.map { Unmanaged<ServerConnection>.fromOpaque($0).takeUnretainedValue() }
    }
}

extension ServedResponse.End {
    var isComplete: Bool {
        if case .complete = self { true } else { false }
    }
}

private let onResponseRead: nghttp2_data_source_read_callback = { _, stream, buffer, room, flags, _, context in
    ServerConnection.of(context)?.nextBodyPart(stream, into: buffer, room: room, flags: flags) ?? 0
}
