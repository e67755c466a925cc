import COpenSSL
import Glibc

public enum TLSVersion: Sendable {
    case tls12
    case tls13

    fileprivate var openSSLNumber: Int32 {
        switch self {
        case .tls12: TLS1_2_VERSION
        case .tls13: TLS1_3_VERSION
        }
    }
}

/// The settings that the TLS connections of a client or server share: trusted authorities, certificate, application
/// protocols. A context does not change after its creation, so loops on several threads may share it.
///
/// The oldest version is TLS 1.2. A client always verifies the peer's certificate chain and name. If the context has
/// application protocols and the two sides agree on none of them, the handshake fails.
public final class TLSContext: @unchecked Sendable {
    private let context: OpaquePointer
    let isServer: Bool
    /// The protocols in the format of ALPN (RFC 7301, section 3.1): for each protocol, a byte with the length of its
    /// name, and then the name.
    private let applicationProtocols: [UInt8]

    var expectsApplicationProtocol: Bool { !applicationProtocols.isEmpty }

    private init(isServer: Bool, applicationProtocols: [String]) throws(TLSError) {
        self.applicationProtocols = try encodeProtocolList(applicationProtocols)
        self.isServer = isServer
        guard let context = SSL_CTX_new(isServer ? TLS_server_method() : TLS_client_method()) else {
            throw TLSError(code: .openSSLFailed, subject: "SSL_CTX_new")
        }
        self.context = context
    }

    deinit {
        SSL_CTX_free(context)
    }

    /// Creates a context for streams that connect to a server.
    ///
    /// - Parameters:
    ///   - caFile: a PEM file of the certificates to trust; nil: the certificates that the system trusts.
    ///   - applicationProtocols: the protocols to offer by ALPN, in this order, such as `h2`. If empty, ALPN is not
    ///     used.
    ///   - certificateFile: the PEM chain to present if the server asks for a certificate; nil for none.
    ///   - keyFile: the PEM private key of the certificate; nil if the key is in `certificateFile`.
    public static func client(
        caFile: String?,
        applicationProtocols: [String],
        certificateFile: String? = nil,
        keyFile: String? = nil
    ) throws(TLSError) -> TLSContext {
        let tls = try TLSContext(isServer: false, applicationProtocols: applicationProtocols)
        try tls.configure(versionMax: .tls13)
        SSL_CTX_set_verify(tls.context, SSL_VERIFY_PEER, nil)
        try tls.loadTrustedAuthorities(caFile)
        if let certificateFile {
            try tls.loadCertificate(certificateFile: certificateFile, keyFile: keyFile ?? certificateFile)
        }
        let offer = tls.applicationProtocols
        // `SSL_CTX_set_alpn_protos` returns 0 for success, unlike the other functions of OpenSSL.
        guard offer.isEmpty || SSL_CTX_set_alpn_protos(tls.context, offer, UInt32(offer.count)) == 0 else {
            throw TLSError(code: .applicationProtocolsInvalid, subject: "SSL_CTX_set_alpn_protos")
        }
        return tls
    }

    /// Creates a context for streams of accepted connections.
    ///
    /// - Parameters:
    ///   - certificateFile: a PEM chain, the server's certificate first.
    ///   - keyFile: the PEM private key of the certificate.
    ///   - applicationProtocols: the protocols to accept by ALPN, the preferred one first. If empty, ALPN is
    ///     not used.
    ///   - versionMax: the newest TLS version to use.
    public static func server(
        certificateFile: String,
        keyFile: String,
        applicationProtocols: [String],
        versionMax: TLSVersion = .tls13
    ) throws(TLSError) -> TLSContext {
        let tls = try TLSContext(isServer: true, applicationProtocols: applicationProtocols)
        try tls.configure(versionMax: versionMax)
        // Under TLS 1.3, send no tickets. With a ticket, a client could resume the session of an earlier connection
        // (RFC 8446, section 2.2). Our clients resume no sessions, so tickets would be wasted bytes.
        SSL_CTX_set_num_tickets(tls.context, 0)
        try tls.loadCertificate(certificateFile: certificateFile, keyFile: keyFile)
        if tls.expectsApplicationProtocol {
            // OpenSSL keeps an unretained pointer to this object, and uses it in handshakes. The pointer is valid then,
            // because the stream of each connection keeps this object alive.
            SSL_CTX_set_alpn_select_cb(tls.context, selectProtocolForOpenSSL, Unmanaged.passUnretained(tls).toOpaque())
        }
        return tls
    }

    /// Sets what contexts of clients and servers have in common: the TLS versions, and the modes of OpenSSL.
    private func configure(versionMax: TLSVersion) throws(TLSError) {
        guard COpenSSL_SSL_CTX_set_min_proto_version(context, TLSVersion.tls12.openSSLNumber) == 1,
            COpenSSL_SSL_CTX_set_max_proto_version(context, versionMax.openSSLNumber) == 1
        else { throw TLSError(code: .openSSLFailed, subject: "SSL_CTX_set_min_proto_version") }
        // A write may take only a part of the bytes. `OutputBuffer` may move the other bytes before the next write.
        _ = COpenSSL_SSL_CTX_set_mode(
            context,
            Int(SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER)
        )
        SSL_CTX_set_options(context, COpenSSL_SSL_OP_NO_RENEGOTIATION())
        _ = COpenSSL_SSL_CTX_set_session_cache_mode(context, Int(SSL_SESS_CACHE_OFF))
        // With read-ahead, one read takes up to 32 KiB from the kernel. Without it, OpenSSL reads the header
        // and the body of each record separately.
        _ = COpenSSL_SSL_CTX_set_read_ahead(context, 1)
        SSL_CTX_set_default_read_buffer_len(context, TLSContext.readBufferBytes)
    }

    private static let readBufferBytes = 32 * 1024

    private func loadTrustedAuthorities(_ caFile: String?) throws(TLSError) {
        ERR_clear_error()
        if let caFile {
            guard SSL_CTX_load_verify_file(context, caFile) == 1 else {
                throw TLSError(code: .authoritiesUnusable, subject: caFile)
            }
        } else {
            guard SSL_CTX_set_default_verify_paths(context) == 1 else {
                throw TLSError(code: .authoritiesUnusable, subject: "the system's certificate authorities")
            }
        }
    }

    private func loadCertificate(certificateFile: String, keyFile: String) throws(TLSError) {
        ERR_clear_error()
        guard SSL_CTX_use_certificate_chain_file(context, certificateFile) == 1 else {
            throw TLSError(code: .certificateUnusable, subject: certificateFile)
        }
        guard SSL_CTX_use_PrivateKey_file(context, keyFile, SSL_FILETYPE_PEM) == 1 else {
            throw TLSError(code: .privateKeyUnusable, subject: keyFile)
        }
        guard SSL_CTX_check_private_key(context) == 1 else {
            throw TLSError(code: .privateKeyUnusable, subject: "\(keyFile) for \(certificateFile)")
        }
    }

    /// Creates OpenSSL's state of a new TLS connection (`SSL`) on a connected socket. The caller owns this state, and
    /// must free it with `SSL_free`.
    ///
    /// - Parameter serverName: the host name or numeric address that the server's certificate must contain;
    ///   ignored by a server's context.
    func makeTLSConnection(descriptor: Int32, serverName: String?) throws(TLSError) -> OpaquePointer {
        ERR_clear_error()
        guard let tlsConnection = SSL_new(context) else { throw TLSError(code: .openSSLFailed, subject: "SSL_new") }
        do throws(TLSError) {
            guard SSL_set_fd(tlsConnection, descriptor) == 1 else {
                throw TLSError(code: .openSSLFailed, subject: "SSL_set_fd")
            }
            if isServer {
                SSL_set_accept_state(tlsConnection)
            } else {
                try setExpectedServerName(serverName, of: tlsConnection)
                SSL_set_connect_state(tlsConnection)
            }
        } catch {
            SSL_free(tlsConnection)
            throw error
        }
        return tlsConnection
    }

    private func setExpectedServerName(_ serverName: String?, of tlsConnection: OpaquePointer) throws(TLSError) {
        guard var name = serverName, !name.isEmpty, !name.utf8.contains(0) else {
            throw TLSError(code: .serverNameInvalid, reason: "a TLS client needs the server's name")
        }
        if let address = SocketAddress(numeric: name, port: 0) {
            // The name is an address. So do not set the server name indication (SNI), which allows only host names
            // (RFC 6066 section 3).
            guard X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tlsConnection), address.host) == 1 else {
                throw TLSError(code: .serverNameInvalid, subject: name)
            }
            return
        }
        // The names in certificates and in the server name indication (SNI) have no final dot.
        if name.hasSuffix(".") { name.removeLast() }
        SSL_set_hostflags(tlsConnection, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
        guard SSL_set1_host(tlsConnection, name) == 1,
            COpenSSL_SSL_set_tlsext_host_name(tlsConnection, name) == 1
        else {
            throw TLSError(code: .serverNameInvalid, subject: name)
        }
    }

    /// Selects the first of our protocols that the client offers. If the client offers none of them, the
    /// handshake fails (RFC 7301 section 3.2).
    fileprivate func selectProtocol(
        from offer: UnsafePointer<UInt8>,
        count: UInt32,
        chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>,
        chosenCount: UnsafeMutablePointer<UInt8>
    ) -> Int32 {
        var selection: UnsafeMutablePointer<UInt8>?
        let result = applicationProtocols.withUnsafeBufferPointer { ours in
            SSL_select_next_proto(
                &selection,
                chosenCount,
                ours.baseAddress,
                UInt32(ours.count),
                offer,
                count
            )
        }
        guard result == OPENSSL_NPN_NEGOTIATED, let selection else { return SSL_TLSEXT_ERR_ALERT_FATAL }
        // OpenSSL does not copy the name that `selection` points to. The name stays valid, because it is one of the
        // names in `applicationProtocols`, which lives as long as this context.
        chosen.pointee = UnsafePointer(selection)
        return SSL_TLSEXT_ERR_OK
    }
}

private func selectProtocolForOpenSSL(
    tlsConnection: OpaquePointer?,
    chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    chosenCount: UnsafeMutablePointer<UInt8>?,
    offer: UnsafePointer<UInt8>?,
    count: UInt32,
    argument: UnsafeMutableRawPointer?
) -> Int32 {
    guard let chosen, let chosenCount, let offer, let argument else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    return Unmanaged<TLSContext>.fromOpaque(argument).takeUnretainedValue()
        .selectProtocol(from: offer, count: count, chosen: chosen, chosenCount: chosenCount)
}

private func encodeProtocolList(_ applicationProtocols: [String]) throws(TLSError) -> [UInt8] {
    var bytes: [UInt8] = []
    for name in applicationProtocols {
        guard let count = UInt8(exactly: name.utf8.count), count > 0 else {
            throw TLSError(
                code: .applicationProtocolsInvalid,
                reason: "application protocol \"\(name)\": not 1 to 255 bytes"
            )
        }
        bytes.append(count)
        bytes.append(contentsOf: name.utf8)
    }
    guard bytes.count <= UInt16.max else {
        throw TLSError(
            code: .applicationProtocolsInvalid,
            reason: "application protocols: the list is over 65,535 bytes"
        )
    }
    return bytes
}

extension TLSContext {
    /// The version of the loaded OpenSSL, such as `3.0.17`.
    public static var libraryVersion: String { String(cString: OpenSSL_version(OPENSSL_VERSION_STRING)) }
}
