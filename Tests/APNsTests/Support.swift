import APNs
import COpenSSL
import Glibc
import Reactor
import Testing

/// Certificates and keys that all tests share, created once.
enum Shared {
    struct Files {
        var directory: String
        var caFile: String
        var certificateFile: String
        var keyFile: String
        var signingKeyFile: String
    }

    static let files: Result<Files, any Error> = Result { try make() }

    private static func make() throws -> Files {
        var template = Array("/tmp/apns-tests-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw SystemError(code: errno, operation: "mkdtemp") }
        let directory = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        let certificate = try SelfSignedCertificate.write(
            directory: directory + "/tls",
            hosts: ["localhost", "127.0.0.1", "::1"]
        )
        let keyFile = directory + "/AuthKey.p8"
        try writeFile(keyFile, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        return Files(
            directory: directory,
            caFile: certificate.caFile,
            certificateFile: certificate.certificateFile,
            keyFile: certificate.keyFile,
            signingKeyFile: keyFile
        )
    }

    static func keyPath(_ name: String) -> String { ((try? files.get().directory) ?? "/tmp") + "/" + name }

    static func tokens() throws -> ProviderTokenSource {
        try ProviderTokenSource(
            key: SigningKey(path: files.get().signingKeyFile),
            keyIdentifier: "ABC123DEFG",
            teamIdentifier: "DEF123GHIJ"
        )
    }
}

func writeFile(_ path: String, _ text: String, mode: mode_t) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)
    guard descriptor >= 0 else { throw SystemError(code: errno, operation: "open") }
    defer { close(descriptor) }
    fchmod(descriptor, mode)
    let bytes = Array(text.utf8)
    guard write(descriptor, bytes, bytes.count) == bytes.count else {
        throw SystemError(code: errno, operation: "write")
    }
}

/// A fresh private key on a curve, as PKCS#8 in PEM.
func privateKeyPEM(curve: Int32) throws -> String {
    let context = try #require(EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil))
    defer { EVP_PKEY_CTX_free(context) }
    var key: OpaquePointer?
    try #require(EVP_PKEY_keygen_init(context) == 1)
    try #require(EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, curve) == 1)
    try #require(EVP_PKEY_keygen(context, &key) == 1)
    defer { EVP_PKEY_free(key) }
    return try pem { PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) }
}

func pem(_ write: (OpaquePointer) -> Int32) throws -> String {
    let bio = try #require(BIO_new(BIO_s_mem()))
    defer { BIO_free(bio) }
    try #require(write(bio) == 1)
    var data: UnsafeMutablePointer<CChar>?
    let count = COpenSSL_BIO_get_mem_data(bio, &data)
    return String(decoding: UnsafeRawBufferPointer(start: data, count: Int(count)), as: UTF8.self)
}

/// How long a test turns its loop for an expected event: on a busy machine a hundred thousand pushes take time.
let turnLimitMilliseconds: Int64 = 300_000

/// A recorded answer.
struct Outcome: Equatable {
    var kind: PushAnswer.Kind
    var status: UInt16
    var reason: Reason
    var reasonText: String
    var timestampMilliseconds: Int64
    var retryAfterSeconds: Int32
    var wasSent: Bool
    var connection: UInt32
    var disposition: Disposition
}

/// Records every answer and notice.
final class Recorder: PushHandler {
    private(set) var outcomes: [UInt64: [Outcome]] = [:]
    private(set) var answers = 0
    private(set) var notices: [PoolNotice] = []
    var onAnswer: ((borrowing PushAnswer) -> Void)?
    var onRoom: ((Pool) -> Void)?

    func pushAnswered(_ answer: borrowing PushAnswer) {
        answers += 1
        outcomes[answer.tag, default: []]
            .append(
                Outcome(
                    kind: answer.kind,
                    status: answer.status,
                    reason: answer.reason,
                    reasonText: String(decoding: answer.reasonText, as: UTF8.self),
                    timestampMilliseconds: answer.timestampMilliseconds,
                    retryAfterSeconds: answer.retryAfterSeconds,
                    wasSent: answer.sentAtMilliseconds > 0,
                    connection: answer.connection,
                    disposition: answer.disposition
                )
            )
        onAnswer?(answer)
    }

    func poolHasRoom(_ pool: Pool) { onRoom?(pool) }

    func poolNotice(_ notice: PoolNotice) { notices.append(notice) }

    /// The only answer of a push; fails the test if there are more or none.
    func only(_ tag: UInt64, sourceLocation: SourceLocation = #_sourceLocation) throws -> Outcome {
        let all = outcomes[tag] ?? []
        #expect(all.count == 1, "answers to push \(tag)", sourceLocation: sourceLocation)
        return try #require(all.first, sourceLocation: sourceLocation)
    }

    /// Pushes with exactly one answer.
    var answeredOnce: Int { outcomes.values.count { $0.count == 1 } }

    func count(_ kind: PushAnswer.Kind) -> Int {
        outcomes.values.reduce(0) { $0 + $1.count { $0.kind == kind } }
    }

    var closeCauses: [CloseCause] {
        notices.compactMap { if case .closed(_, let cause, _) = $0 { cause } else { nil } }
    }

    var retirementCauses: [RetirementCause] {
        notices.compactMap { if case .retiring(_, let cause) = $0 { cause } else { nil } }
    }
}

/// A server, a pool and a recorder on one loop.
final class Fixture {
    let loop: EventLoop
    let server: TestServer
    let recorder = Recorder()
    let pool: Pool
    private let body: UnsafeMutableRawBufferPointer
    private let deviceTokenBytes: Int

    init(deviceTokenBytes: Int = 64, bodyBytes: Int = 360, _ adjust: (inout PoolConfiguration) -> Void = { _ in })
        throws
    {
        let files = try Shared.files.get()
        loop = try EventLoop()
        server = try TestServer(
            loop: loop,
            tls: .server(
                certificateFile: files.certificateFile,
                keyFile: files.keyFile,
                applicationProtocols: ["h2"]
            )
        )
        var configuration = try Fixture.configuration(port: server.port)
        adjust(&configuration)
        pool = try Pool(loop: loop, configuration: configuration, tokens: Shared.tokens(), handler: recorder)
        self.deviceTokenBytes = deviceTokenBytes
        body = .allocate(byteCount: bodyBytes, alignment: 16)
        for index in 0..<bodyBytes { body[index] = UInt8(ascii: "a") + UInt8(index % 26) }
    }

    deinit {
        pool.close()
        server.stop()
        // The loop retains handlers that wait for the end of its turn, and a waiting stream retains the loop.
        loop.turn(waitMilliseconds: 0)
        body.deallocate()
    }

    static func configuration(port: UInt16) throws -> PoolConfiguration {
        var configuration = PoolConfiguration(
            host: "127.0.0.1",
            port: port,
            tls: try .client(caFile: Shared.files.get().caFile, applicationProtocols: ["h2"]),
            serverName: "localhost",
            profile: try PushProfile(liveActivitiesOf: "com.example.scores")
        )
        configuration.connectionsMax = 1
        configuration.openSpacingMilliseconds = 0
        configuration.backoffBaseMilliseconds = 1
        configuration.backoffMaxMilliseconds = 20
        return configuration
    }

    var bodyBytes: [UInt8] { Array(body) }

    /// 64 hexadecimal digits, or the requested number, that end in the tag.
    func deviceToken(_ tag: UInt64) -> [UInt8] {
        let digits = String(tag, radix: 16)
        return Array(String(repeating: "0", count: deviceTokenBytes - digits.utf8.count).utf8) + Array(digits.utf8)
    }

    func submit(_ tag: UInt64, priority: UInt8 = 5, expiration: Int64 = 1_790_000_000, avoiding: UInt32 = 0) -> Bool {
        deviceToken(tag)
            .withUnsafeBytes { token in
                pool.submit(
                    PushRequest(
                        tag: tag,
                        deviceToken: token,
                        priority: priority,
                        expiration: expiration,
                        identifier: (0x1234_5678_9abc_def0, tag),
                        body: UnsafeRawBufferPointer(body),
                        avoidedConnection: avoiding
                    )
                )
            }
    }

    func submit(
        _ tag: UInt64,
        toChannel channel: String,
        priority: UInt8 = 5,
        expiration: Int64 = 0,
        bodyBytes count: Int? = nil
    ) -> Bool {
        Array(channel.utf8)
            .withUnsafeBytes { channel in
                pool.submit(
                    PushRequest(
                        tag: tag,
                        channel: channel,
                        priority: priority,
                        expiration: expiration,
                        identifier: (0x1234_5678_9abc_def0, tag),
                        body: UnsafeRawBufferPointer(rebasing: body[..<(count ?? body.count)])
                    )
                )
            }
    }

    /// Turns until the condition holds. Fails the test and returns after ``turnLimitMilliseconds``.
    func turn(until condition: () -> Bool, sourceLocation: SourceLocation = #_sourceLocation) {
        loop.refreshClock()
        let limit = loop.nowMilliseconds + turnLimitMilliseconds
        while !condition() {
            guard loop.nowMilliseconds < limit else {
                Issue.record("the condition did not come about in time", sourceLocation: sourceLocation)
                return
            }
            loop.turn(waitMilliseconds: 100)
        }
    }

    /// Starts the pool, and sends the one push that opens its connections for more: tag 1,000,000 and on.
    func warmUp(connections: Int = 1, sourceLocation: SourceLocation = #_sourceLocation) {
        pool.start()
        var tag: UInt64 = 1_000_000
        turn(
            until: {
                if authenticatedConnections >= connections { return pool.inFlight == 0 }
                if submit(tag) { tag += 1 }
                return false
            },
            sourceLocation: sourceLocation
        )
    }

    var authenticatedConnections: Int {
        recorder.notices.count { if case .authenticated = $0 { true } else { false } }
    }
}
