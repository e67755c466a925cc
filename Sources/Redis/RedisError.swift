/// Why a call failed, or a connection was lost or could not be made.
public struct RedisError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Code: UInt8, Sendable, CaseIterable {
        // What the server answers.
        /// It reads its data from disk.
        case loading
        /// It is a replica, or has become one.
        case readOnly
        /// It is a replica whose primary is away.
        case masterDown
        /// The cluster does not serve this slot.
        case clusterDown
        /// The slot has moved to another server.
        case moved
        /// The slot is moving, and the key is on the other server already.
        case ask
        /// The slot is moving, and the keys are on both servers.
        case tryAgain
        /// It has forgotten the script; the connection has loaded it again.
        case noScript
        /// Out of memory, and it may not evict.
        case outOfMemory
        /// Somebody's script holds it up.
        case busy
        /// It refuses writes because it cannot write its snapshot to disk.
        case misconfigured
        /// It refuses writes because too few replicas follow it.
        case noReplicas
        /// The call was made, but fewer replicas than are asked for have acknowledged it.
        case replicasMissing
        /// The connection must authenticate first, and has no credentials.
        case noAuthentication
        case wrongPassword
        /// The user may not do this.
        case noPermission
        case transactionAborted
        /// It belongs to a cluster, and is used as if it stood alone: keys of one command are in different slots.
        case clusterEnabled
        /// What it holds under the key is not what the scripts write. The only error that is proven to be the call's own.
        case foreignValue
        /// Its version is one that the scripts do not run on.
        case tooOld
        /// Any other error. Nobody knows whether it passes, so nothing may be concluded from it.
        case unknown
        // What happens to the connection.
        /// The host has no address.
        case resolve
        /// The connection could not be made, or broke.
        case stream
        /// No answer in time.
        case deadline
        /// What came is not what the calls can bring: not RESP, over a limit, or out of step.
        case protocolViolation
        /// `close` was called.
        case closed
    }

    public var code: Code
    /// For logs. Holds no credentials, and nothing of a call's arguments.
    public var reason: String

    public init(_ code: Code, _ reason: String? = nil) {
        self.code = code
        self.reason = reason ?? code.explanation
    }

    /// The same call can succeed later, on this connection or the next: true unless the error is proven to be the call's own. The scripts
    /// stand repetition, so a call whose fate is not known counts here.
    public var isRetriable: Bool { code != .foreignValue }

    /// The server's text says nothing that Causeway knows: whether and when the error passes is open, and others may succeed meanwhile.
    public var isUnexplained: Bool {
        switch code {
        case .unknown, .transactionAborted, .clusterEnabled: true
        default: false
        }
    }

    /// Stays until an operator changes the configuration of the server or of Causeway.
    public var needsOperator: Bool {
        switch code {
        case .outOfMemory, .misconfigured, .noReplicas, .replicasMissing, .noAuthentication, .wrongPassword,
            .noPermission, .tooOld, .unknown, .protocolViolation, .transactionAborted, .clusterEnabled, .foreignValue:
            true
        default: false
        }
    }

    /// Every call on this connection would fail like this: it is given up, and another made after a pause.
    public var endsConnection: Bool {
        switch code {
        case .loading, .readOnly, .masterDown, .noAuthentication, .wrongPassword, .noPermission: true
        default: false
        }
    }

    public var description: String { reason }
}

extension RedisError {
    /// Reads an error reply: its first word says what it is. Redis 5 and 6 wrap what a command of a script was answered, as in
    /// `ERR Error running script (call to f_…): @user_script:1: -OOM command not allowed`: then a word behind a colon says it.
    public init(reply text: UnsafeRawBufferPointer) {
        let words = text.split(separator: UInt8(ascii: " "), maxSplits: Self.wordsMax)
        var code = words.first.flatMap { Self.code(of: $0) }
        for (before, word) in zip(words, words.dropFirst()) where code == nil && before.last == UInt8(ascii: ":") {
            code = Self.code(of: word.first == UInt8(ascii: "-") ? word.dropFirst() : word)
        }
        if code == nil { code = Self.sentences.first { text.contains($0.part.bytes) }?.code }
        switch code {
        case nil, .unknown?, .foreignValue?: self.init(code ?? .unknown, "Redis answered: \(Self.excerpt(text))")
        case let code?: self.init(code)
        }
    }

    private static func code(of word: Slice<UnsafeRawBufferPointer>) -> Code? {
        codes.first { $0.word.utf8CodeUnitCount == word.count && word.elementsEqual($0.word.bytes) }?.code
    }

    /// Words of an error that are looked at; what matters stands in front.
    private static let wordsMax = 32

    /// Errors that begin with `ERR` in some version or other.
    private static let sentences: [(part: StaticString, code: Code)] = [
        ("can't run this command", .noPermission), ("can't access at least one of the keys", .noPermission),
        ("the cluster is down", .clusterDown), ("non local key in a cluster node", .clusterEnabled),
    ]

    private static let codes: [(word: StaticString, code: Code)] = [
        ("LOADING", .loading), ("READONLY", .readOnly), ("MASTERDOWN", .masterDown), ("CLUSTERDOWN", .clusterDown),
        ("MOVED", .moved), ("ASK", .ask), ("TRYAGAIN", .tryAgain), ("NOSCRIPT", .noScript), ("OOM", .outOfMemory),
        ("BUSY", .busy), ("MISCONF", .misconfigured), ("NOREPLICAS", .noReplicas), ("NOAUTH", .noAuthentication),
        ("WRONGPASS", .wrongPassword), ("NOPERM", .noPermission), ("EXECABORT", .transactionAborted),
        ("CROSSSLOT", .clusterEnabled), ("WRONGTYPE", .foreignValue), ("MALFORMED", .foreignValue),
    ]

    /// Enough of a server's text to see what it means, without the arguments that some errors repeat.
    private static func excerpt(_ text: UnsafeRawBufferPointer) -> String {
        let printable = text.prefix(120).map { (0x20...0x7E).contains($0) ? $0 : UInt8(ascii: "?") }
        let line = String(decoding: printable, as: UTF8.self)
        return line.firstRange(of: ", with args").map { String(line[..<$0.lowerBound]) } ?? line
    }
}

extension RedisError.Code {
    var explanation: String {
        switch self {
        case .loading: "Redis is loading its data"
        case .readOnly: "Redis is a replica and takes no writes"
        case .masterDown: "Redis is a replica without its primary"
        case .clusterDown: "the Redis cluster does not serve the key's slot"
        case .moved: "the key's slot is on another Redis server"
        case .ask: "the key's slot is moving to another Redis server"
        case .tryAgain: "the key's slot is moving between Redis servers"
        case .noScript: "Redis has forgotten the scripts"
        case .outOfMemory: "Redis is out of memory"
        case .busy: "Redis is held up by a script"
        case .misconfigured: "Redis cannot save to disk and takes no writes"
        case .replicasMissing: "too few replicas of Redis have acknowledged what was written"
        case .noReplicas: "Redis has too few replicas and takes no writes"
        case .noAuthentication: "Redis asks for authentication"
        case .wrongPassword: "Redis refuses the user or password"
        case .noPermission: "the Redis user lacks a permission"
        case .transactionAborted: "Redis aborted a transaction"
        case .clusterEnabled: "Redis is a server of a cluster: set redis.mode to cluster"
        case .foreignValue: "what Redis holds under a key is not what Causeway writes"
        case .tooOld: "Redis is older than version \(RedisConnection.majorVersionLeast)"
        case .unknown: "Redis answered with an error"
        case .resolve: "the Redis host has no address"
        case .stream: "the connection to Redis broke"
        case .deadline: "Redis did not answer in time"
        case .protocolViolation: "Redis sent what the calls cannot bring"
        case .closed: "the connection was closed"
        }
    }
}

extension StaticString {
    var bytes: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(start: utf8Start, count: utf8CodeUnitCount) }
}
