/// Why a call failed, or a connection was lost or could not be made.
public struct RedisError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Code: UInt8, Sendable, CaseIterable {
        // Errors that the server reports, or that its replies show.

        /// The server is still loading its data from disk.
        case loading
        /// The server is a replica, so it takes no writes.
        case readOnly
        /// The server is a replica that cannot reach its primary.
        case masterDown
        /// The cluster does not serve the key's hash slot, or the server that was asked knows no hash slots.
        case clusterDown
        /// The key's hash slot has moved to another server.
        case moved
        /// The key's hash slot is moving to another server, and the server that was asked does not have the key.
        case ask
        /// The key's hash slot is moving, and the command's keys are divided between its old and its new server.
        case tryAgain
        /// The server has lost the scripts. A lane's connection then loads them again, once.
        case noScript
        /// The server is out of memory and is not allowed to evict keys.
        case outOfMemory
        /// The server is busy with a long script of another client.
        case busy
        /// The server refuses writes because it cannot write its snapshot to disk.
        case misconfigured
        /// The server refuses writes because it has too few replicas.
        case noReplicas
        /// The server has performed the call, but too few replicas have acknowledged its writes.
        case replicasMissing
        /// The server requires authentication, and the connection has no credentials.
        case noAuthentication
        case wrongPassword
        /// The user lacks a permission.
        case noPermission
        case transactionAborted
        /// The server belongs to a cluster, but the configuration does not say so. Usually INFO shows this during the
        /// handshake. If not, the error comes later, with a command whose calls have keys in different hash slots.
        case clusterEnabled
        /// The value under the key is not one that the scripts write. This is the only error after which the same call
        /// certainly fails again, so only this error ends the call (R23).
        case foreignValue
        /// The server's release is too old for the scripts.
        case serverTooOld
        /// Any other error. It may be temporary or permanent, so the call is made again. In a reply to AUTH it counts
        /// as `wrongPassword`.
        case unknown

        // Errors that the connection itself finds.

        /// The server was not found: its name has no address, or a Sentinel does not know the primary.
        case resolve
        /// The connection could not be made, or it broke.
        case stream
        /// The server did not reply in time, or the caller was cancelled.
        case deadline
        /// The server sent a reply that no call can have: it is not RESP, exceeds a limit, has an unexpected form, or
        /// comes without a request. The same code is used if there was no memory for a command or for replies.
        case protocolViolation
        /// `close` was called, or the connection had already ended.
        case closed
    }

    public var code: Code
    /// The error in words, for logs. Contains no credentials and no arguments of a call.
    public var reason: String

    public init(_ code: Code, _ reason: String? = nil) {
        self.code = code
        self.reason = reason ?? code.explanation
    }

    /// Whether the same call can succeed later (R23): true for all codes except ``Code/foreignValue``. The server may
    /// have performed the call already. Store calls can be repeated safely (R15), except a refund, which the core never
    /// repeats.
    public var isRetriable: Bool { code != .foreignValue }

    /// Whether this error may concern only some calls, while other calls to the same server succeed. The error does not
    /// show whether the calls or the server caused it.
    public var mayBeCausedByCall: Bool {
        switch code {
        case .unknown, .transactionAborted, .clusterEnabled: true
        default: false
        }
    }

    /// Whether an operator may have to act, for example change the configuration of the server or of Causeway.
    public var needsOperatorAction: Bool {
        switch code {
        case .outOfMemory, .misconfigured, .noReplicas, .replicasMissing, .noAuthentication, .wrongPassword,
            .noPermission, .serverTooOld, .unknown, .protocolViolation, .transactionAborted, .clusterEnabled,
            .foreignValue:
            true
        default: false
        }
    }

    /// Whether other calls on this connection would probably fail with this error, too. If true, the connection closes,
    /// and reconnects after a pause.
    public var endsConnection: Bool {
        switch code {
        case .loading, .readOnly, .masterDown, .noAuthentication, .wrongPassword, .noPermission: true
        default: false
        }
    }

    public var description: String { reason }
}

extension RedisError {
    /// Classifies an error reply by its first word, by a word after a colon, or by a known phrase. After a colon, Redis
    /// 5 and 6 have the error of a command that failed in a script, as in `ERR Error running script (call to f_…):
    /// @user_script:1: -OOM command not allowed`.
    public init(reply text: UnsafeRawBufferPointer) {
        let words = text.split(separator: UInt8(ascii: " "), maxSplits: Self.wordsMax)
        var code = words.first.flatMap { Self.code(of: $0) }
        for (precedingWord, word) in zip(words, words.dropFirst())
        where code == nil && precedingWord.last == UInt8(ascii: ":") {
            code = Self.code(of: word.first == UInt8(ascii: "-") ? word.dropFirst() : word)
        }
        if code == nil { code = Self.errorPhrases.first { text.contains($0.phrase.bytes) }?.code }
        switch code {
        case nil, .unknown?, .foreignValue?: self.init(code ?? .unknown, "Redis replied: \(Self.excerpt(text))")
        case let code?: self.init(code)
        }
    }

    private static func code(of word: Slice<UnsafeRawBufferPointer>) -> Code? {
        errorWords.first { $0.word.utf8CodeUnitCount == word.count && word.elementsEqual($0.word.bytes) }?.code
    }

    /// How many words of an error are checked at most. The error's code is always among the first few.
    private static let wordsMax = 32

    /// Errors that begin with `ERR` in at least one release of Redis. They are recognized by a part of their text.
    private static let errorPhrases: [(phrase: StaticString, code: Code)] = [
        ("can't run this command", .noPermission), ("can't access at least one of the keys", .noPermission),
        ("the cluster is down", .clusterDown), ("non local key in a cluster node", .clusterEnabled),
    ]

    private static let errorWords: [(word: StaticString, code: Code)] = [
        ("LOADING", .loading), ("READONLY", .readOnly), ("MASTERDOWN", .masterDown), ("CLUSTERDOWN", .clusterDown),
        ("MOVED", .moved), ("ASK", .ask), ("TRYAGAIN", .tryAgain), ("NOSCRIPT", .noScript), ("OOM", .outOfMemory),
        ("BUSY", .busy), ("MISCONF", .misconfigured), ("NOREPLICAS", .noReplicas), ("NOAUTH", .noAuthentication),
        ("WRONGPASS", .wrongPassword), ("NOPERM", .noPermission), ("EXECABORT", .transactionAborted),
        ("CROSSSLOT", .clusterEnabled), ("WRONGTYPE", .foreignValue), ("MALFORMED", .foreignValue),
    ]

    /// The beginning of a server's error, in printable ASCII. Ends before the call's arguments, which some errors
    /// repeat, because ``reason`` must not contain them.
    private static func excerpt(_ text: UnsafeRawBufferPointer) -> String {
        let printableText = text.prefix(120).map { (0x20...0x7E).contains($0) ? $0 : UInt8(ascii: "?") }
        let line = String(decoding: printableText, as: UTF8.self)
        return line.firstRange(of: ", with args").map { String(line[..<$0.lowerBound]) } ?? line
    }
}

extension RedisError.Code {
    var explanation: String {
        switch self {
        case .loading: "Redis is loading its data"
        case .readOnly: "Redis is a replica and accepts no writes"
        case .masterDown: "Redis is a replica without its primary"
        case .clusterDown: "the Redis cluster does not serve the key's slot"
        case .moved: "the key's slot is on another Redis server"
        case .ask: "the key's slot is moving to another Redis server"
        case .tryAgain: "the key's slot is moving between Redis servers"
        case .noScript: "Redis no longer has the scripts"
        case .outOfMemory: "Redis is out of memory"
        case .busy: "Redis is busy with a script"
        case .misconfigured: "Redis cannot save to disk and accepts no writes"
        case .replicasMissing: "too few Redis replicas have acknowledged a write"
        case .noReplicas: "Redis has too few replicas and accepts no writes"
        case .noAuthentication: "Redis requires authentication: set a password"
        case .wrongPassword: "Redis rejects the user name or password"
        case .noPermission: "the Redis user lacks a permission"
        case .transactionAborted: "Redis aborted a transaction"
        case .clusterEnabled: "Redis is a server of a cluster: set redis.mode to cluster"
        case .foreignValue: "a key in Redis has a value that Causeway did not write"
        case .serverTooOld: "Redis is older than version \(RedisConnection.serverMajorVersionMin)"
        case .unknown: "Redis replied with an error"
        case .resolve: "the Redis host has no address"
        case .stream: "the connection to Redis was lost"
        case .deadline: "Redis did not reply in time"
        case .protocolViolation: "Redis sent a reply that no call can have"
        case .closed: "the connection was closed"
        }
    }
}

extension StaticString {
    var bytes: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(start: utf8Start, count: utf8CodeUnitCount) }
}
