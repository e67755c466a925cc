import CNghttp2
import COpenSSL
import Glibc

/// A small HTTP/2 client for tests: blocking, one connection, any number of streams. It records the server's responses,
/// GOAWAYs, acknowledgements of PINGs and stream limits.
final class H2Client {
    struct Response: Equatable {
        var status = 0
        /// The statuses from 100 to 199 before the final one.
        var informationalStatuses: [Int] = []
        var headers: [String: String] = [:]
        var body = ""
        var isClosed = false
        /// The error code that ended the stream; 0 for an orderly end.
        var errorCode: UInt32 = 0
    }

    struct GoAway: Equatable {
        var lastStream: Int32
        var reason: String
        var code: UInt32 = 0
    }

    struct Failure: Error, Equatable {
        var reason: String
    }

    private(set) var responses: [Int32: Response] = [:]
    private(set) var goAways: [GoAway] = []
    var goAway: GoAway? { goAways.last }
    private(set) var pongCount = 0
    /// The values of SETTINGS_MAX_CONCURRENT_STREAMS that the server has sent, oldest first.
    private(set) var streamLimits: [UInt32] = []
    private(set) var hasEnded = false
    /// Whether the server has sent close_notify, which ends a TLS connection in an orderly way.
    private(set) var wasEndAnnounced = false
    private var descriptor: Int32 = -1
    private var context: OpaquePointer?
    private var tls: OpaquePointer?
    private var session: OpaquePointer?
    private var bodies: [Int32: [UInt8]] = [:]
    /// The maximum number of bytes in one TLS record. A lower number cuts frames into pieces.
    var bytesPerWrite = 16_384

    init(port: UInt16, caFile: String, protocols: [UInt8] = [2, 0x68, 0x32]) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr = in_addr(s_addr: UInt32(0x7F00_0001).bigEndian)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else { throw Failure(reason: "connect: \(errno)") }
        context = SSL_CTX_new(TLS_client_method())
        guard SSL_CTX_load_verify_locations(context, caFile, nil) == 1 else { throw Failure(reason: "ca file") }
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        if !protocols.isEmpty { SSL_CTX_set_alpn_protos(context, protocols, UInt32(protocols.count)) }
        tls = SSL_new(context)
        SSL_set1_host(tls, "localhost")
        SSL_set_fd(tls, descriptor)
        guard SSL_connect(tls) == 1 else { throw Failure(reason: "handshake") }
        try openSession()
    }

    deinit {
        nghttp2_session_del(session)
        SSL_free(tls)
        SSL_CTX_free(context)
        close(descriptor)
    }

    private func openSession() throws {
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        defer { nghttp2_session_callbacks_del(callbacks) }
        nghttp2_session_callbacks_set_on_header_callback(callbacks) {
            _,
            frame,
            name,
            nameByteCount,
            value,
            count,
            _,
            data in
            guard let frame, let data else { return 0 }
            let client = Unmanaged<H2Client>.fromOpaque(data).takeUnretainedValue()
            let name = String(decoding: UnsafeBufferPointer(start: name, count: nameByteCount), as: UTF8.self)
            let value = String(decoding: UnsafeBufferPointer(start: value, count: count), as: UTF8.self)
            client.responses[frame.pointee.hd.stream_id]?.headers[name] = value
            guard name == ":status", let status = Int(value) else { return 0 }
            if status < 200 {
                client.responses[frame.pointee.hd.stream_id]?.informationalStatuses.append(status)
            } else {
                client.responses[frame.pointee.hd.stream_id]?.status = status
            }
            return 0
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) { _, _, stream, bytes, count, data in
            guard let data else { return 0 }
            let client = Unmanaged<H2Client>.fromOpaque(data).takeUnretainedValue()
            client.responses[stream]?.body += String(
                decoding: UnsafeBufferPointer(start: bytes, count: count),
                as: UTF8.self
            )
            return 0
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, stream, code, data in
            guard let data else { return 0 }
            let client = Unmanaged<H2Client>.fromOpaque(data).takeUnretainedValue()
            client.responses[stream]?.isClosed = true
            client.responses[stream]?.errorCode = code
            return 0
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, data in
            guard let frame, let data else { return 0 }
            Unmanaged<H2Client>.fromOpaque(data).takeUnretainedValue().noteFrame(frame.pointee)
            return 0
        }
        guard nghttp2_session_client_new(&session, callbacks, Unmanaged.passUnretained(self).toOpaque()) == 0 else {
            throw Failure(reason: "session")
        }
        nghttp2_submit_settings(session, 0, nil, 0)
    }

    private func noteFrame(_ frame: nghttp2_frame) {
        if UInt32(frame.hd.type) == NGHTTP2_GOAWAY.rawValue {
            let data = UnsafeBufferPointer(start: frame.goaway.opaque_data, count: frame.goaway.opaque_data_len)
            goAways.append(
                GoAway(
                    lastStream: frame.goaway.last_stream_id,
                    reason: String(decoding: data, as: UTF8.self),
                    code: frame.goaway.error_code
                )
            )
        }
        if UInt32(frame.hd.type) == NGHTTP2_PING.rawValue, frame.hd.flags & 1 == 1 { pongCount += 1 }
        if UInt32(frame.hd.type) == NGHTTP2_SETTINGS.rawValue, frame.hd.flags & 1 == 0 {
            for index in 0..<frame.settings.niv {
                let entry = frame.settings.iv[index]
                if UInt32(entry.settings_id) == NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue {
                    streamLimits.append(entry.value)
                }
            }
        }
    }

    /// Queues a request; its response is stored under the stream's id.
    @discardableResult
    func submit(_ headers: [(String, String)], body: String) throws -> Int32 {
        var strings: [UnsafeMutablePointer<CChar>?] = []
        defer {
            for string in strings { free(string) }
        }
        var fields: [nghttp2_nv] = []
        for (name, value) in headers {
            let (name, value) = (strdup(name), strdup(value))
            strings += [name, value]
            guard let name, let value else { throw Failure(reason: "memory") }
            fields.append(
                nghttp2_nv(
                    name: UnsafeMutableRawPointer(name).assumingMemoryBound(to: UInt8.self),
                    value: UnsafeMutableRawPointer(value).assumingMemoryBound(to: UInt8.self),
                    namelen: strlen(name),
                    valuelen: strlen(value),
                    flags: 0
                )
            )
        }
        var provider = nghttp2_data_provider()
        provider.read_callback = { _, stream, buffer, length, flags, _, data in
            guard let buffer, let flags, let data else { return 0 }
            let client = Unmanaged<H2Client>.fromOpaque(data).takeUnretainedValue()
            let body = client.bodies[stream] ?? []
            let count = min(length, body.count)
            for index in 0..<count { buffer[index] = body[index] }
            client.bodies[stream] = Array(body.dropFirst(count))
            if count == body.count { flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
            return count
        }
        let stream =
            body.isEmpty
            ? nghttp2_submit_request(session, nil, fields, fields.count, nil, nil)
            : nghttp2_submit_request(session, nil, fields, fields.count, &provider, nil)
        guard stream > 0 else { throw Failure(reason: "submit: \(stream)") }
        bodies[stream] = Array(body.utf8)
        responses[stream] = Response()
        return stream
    }

    /// Sends and receives until the condition holds. Throws if the server closes the connection or violates the
    /// protocol first, or if nothing comes for this many seconds.
    func run(seconds: Int = 120, until condition: (H2Client) -> Bool) throws {
        var timeout = timeval(tv_sec: seconds, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            var data: UnsafePointer<UInt8>?
            while true {
                let count = nghttp2_session_mem_send(session, &data)
                guard count > 0, let data else { break }
                for start in stride(from: 0, to: count, by: bytesPerWrite) {
                    _ = SSL_write(tls, data + start, Int32(min(bytesPerWrite, count - start)))
                }
            }
            if condition(self) { return }
            // OpenSSL keeps errors for each thread. Errors of other clients on this thread must not count as
            // this client's.
            ERR_clear_error()
            let count = SSL_read(tls, &buffer, Int32(buffer.count))
            if count <= 0 {
                let code = SSL_get_error(tls, count)
                hasEnded = code != SSL_ERROR_WANT_READ
                wasEndAnnounced = code == SSL_ERROR_ZERO_RETURN
                if condition(self) { return }
                throw Failure(reason: hasEnded ? "ended" : "nothing came")
            }
            guard nghttp2_session_mem_recv(session, buffer, Int(count)) >= 0 else { throw Failure(reason: "protocol") }
        }
    }

    func ping() { nghttp2_submit_ping(session, 0, nil) }

    /// Sends all requests and a PING, and waits for the PING's acknowledgement. The server acknowledges a PING only
    /// after it has processed all earlier requests.
    func runUntilPong() throws {
        // nghttp2 sends a PING before queued requests, so the requests must be sent first.
        try run { _ in true }
        let expected = pongCount + 1
        ping()
        try run { $0.pongCount == expected }
    }

    /// The connection's window in bytes, which the server grants for request bodies.
    var connectionWindowBytes: Int32 { nghttp2_session_get_remote_window_size(session) }

    /// Sends one request, and returns its response.
    func perform(_ headers: [(String, String)], body: String) throws -> Response {
        let stream = try submit(headers, body: body)
        try run { $0.responses[stream]?.isClosed == true }
        return responses[stream] ?? Response()
    }
}
