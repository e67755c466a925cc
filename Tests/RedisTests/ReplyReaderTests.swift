import Numbers
import Testbed
import Testing

@testable import Redis

/// Which replies the parser accepts, and how error replies are classified. No bytes from a peer may make the parser
/// exceed its limits.
@Suite(.ownThread) struct ReplyReaderTests {
    enum ParsedReply: Equatable {
        case value(Reply.Kind, Int64, [UInt8])
        case array([ParsedReply])
        case violation
    }

    /// Feeds the bytes in pieces and returns all replies.
    private func parse(_ bytes: [UInt8], pieceBytes: Int) throws -> [ParsedReply] {
        let reader = try #require(ReplyReader())
        var replies: [ParsedReply] = []
        for start in stride(from: 0, to: bytes.count, by: pieceBytes) {
            let isFed = bytes[start..<min(start + pieceBytes, bytes.count)].withUnsafeBytes { reader.feed($0) }
            if !isFed { return replies + [.violation] }
            reading: while true {
                switch reader.next() {
                case .incomplete: break reading
                case .violation: return replies + [.violation]
                case .reply(let reply):
                    if case .array(let count) = reply.kind {
                        replies.append(.array((0..<count).map { value(reader.element($0)) }))
                    } else {
                        replies.append(value(reply))
                    }
                }
            }
        }
        return replies
    }

    private func value(_ reply: Reply) -> ParsedReply { .value(reply.kind, reply.integer, Array(reply.bytes)) }

    private func string(_ text: String) -> ParsedReply { .value(.string, 0, Array(text.utf8)) }

    @Test(arguments: [1, 2, 3, 7, 1000])
    func `Replies are read in pieces of any size`(pieceBytes: Int) throws {
        let bytes =
            "$9\r\nduplicate\r\n:1\r\n*2\r\n$4\r\nwait\r\n:950\r\n-OOM no room\r\n+OK\r\n$-1\r\n$0\r\n\r\n*0\r\n*3\r\n$2\r\nab\r\n$-1\r\n$1\r\n\r\r\n"
        #expect(
            try parse(Array(bytes.utf8), pieceBytes: pieceBytes) == [
                string("duplicate"), .value(.integer, 1, []),
                .array([string("wait"), .value(.integer, 950, [])]), .value(.error, 0, Array("OOM no room".utf8)),
                .value(.status, 0, Array("OK".utf8)), .value(.null, 0, []), string(""), .array([]),
                .array([string("ab"), .value(.null, 0, []), string("\r")]),
            ]
        )
    }

    @Test(arguments: [1, 3, 4096, 70_000])
    func `An array longer than a feed keeps its first elements`(pieceBytes: Int) throws {
        // The parser moves its buffer between two pieces. Elements that it has already read must stay valid.
        let longString = String(repeating: "x", count: ReplyReader.stringBytesMax)
        let bytes = "*3\r\n$10\r\nregistered\r\n$5\r\nfirst\r\n$\(longString.utf8.count)\r\n\(longString)\r\n:7\r\n"
        #expect(
            try parse(Array(bytes.utf8), pieceBytes: pieceBytes) == [
                .array([string("registered"), string("first"), string(longString)]), .value(.integer, 7, []),
            ]
        )
    }

    @Test(arguments: [
        "*1\r\n*1\r\n:1\r\n", String(repeating: "*1\r\n", count: 1000), "*130\r\n", "*2147483647\r\n",
        "*99999999999999\r\n",
        "*-2\r\n", "$-2\r\n", "$99999999999999999999\r\n", "!x\r\n", "\0\0\0\0", "HTTP/1.1 400 Bad Request\r\n",
        "%1\r\n",
        ":12a\r\n", ":99999999999999999999\r\n",
    ])
    func `A reply that is nested, too long or invalid is a violation`(text: String) throws {
        for pieceBytes in [1, 1 << 16] {
            #expect(try parse(Array(text.utf8), pieceBytes: pieceBytes) == [.violation])
        }
    }

    @Test func `The parser does not wait for a string over the limit`() throws {
        let flood = Array(repeating: UInt8(ascii: "x"), count: 4 * ReplyReader.stringBytesMax)
        #expect(try parse(Array("$536870911\r\n".utf8) + flood, pieceBytes: 16_384) == [.violation])
        #expect(try parse(Array("+".utf8) + flood, pieceBytes: 16_384) == [.violation])
        let tooLongByteCount = ReplyReader.stringBytesMax + 1
        #expect(
            try parse(
                Array("$\(tooLongByteCount)\r\n".utf8) + flood[..<tooLongByteCount] + Array("\r\n".utf8),
                pieceBytes: 1 << 18
            ) == [
                .violation
            ]
        )
        // Each string is within the limit, but the whole reply is too large.
        let halfReply = Array("$90000\r\n".utf8) + flood[..<90_000] + Array("\r\n".utf8)
        #expect(try parse(Array("*2\r\n".utf8) + halfReply + halfReply, pieceBytes: 16_384) == [.violation])
    }

    @Test func `Random bytes do nothing worse than end the connection`() throws {
        var random = SplitMix64(seed: 27)
        let alphabet = Array("*$:+-0123456789\r\n\r\n\r\nabx\0".utf8)
        for _ in 0..<20_000 {
            let bytes = (0..<(random.next() % 60)).map { _ in alphabet[Int(random.next() % UInt64(alphabet.count))] }
            _ = try parse(bytes, pieceBytes: Int(random.next() % 9) + 1)
        }
    }

    @Test func `Errors are classified by their first word`() {
        let cases: [(String, RedisError.Code, Bool)] = [
            ("LOADING Redis is loading the dataset in memory", .loading, true),
            ("READONLY You can't write", .readOnly, true),
            ("MASTERDOWN Link with MASTER is down", .masterDown, true),
            ("CLUSTERDOWN The cluster is down", .clusterDown, true),
            ("MOVED 3999 127.0.0.1:6381", .moved, true), ("ASK 3999 127.0.0.1:6381", .ask, true),
            ("TRYAGAIN Multiple keys", .tryAgain, true), ("NOSCRIPT No matching script.", .noScript, true),
            ("OOM command not allowed", .outOfMemory, true), ("BUSY Redis is busy", .busy, true),
            ("MISCONF Redis is configured to save", .misconfigured, true), ("NOREPLICAS Not enough", .noReplicas, true),
            ("NOAUTH Authentication required.", .noAuthentication, true), ("WRONGPASS invalid", .wrongPassword, true),
            ("NOPERM this user has no permissions", .noPermission, true),
            ("EXECABORT Transaction", .transactionAborted, true), ("CROSSSLOT Keys in request", .clusterEnabled, true),
            ("ERR unknown operation", .unknown, true), ("", .unknown, true), ("OOMX", .unknown, true),
            ("WRONGTYPE Operation against a key", .foreignValue, false),
        ]
        for (text, code, isRetriable) in cases {
            let error = Array(text.utf8).withUnsafeBytes { RedisError(reply: $0) }
            #expect(error.code == code, "\(text)")
            #expect(error.isRetriable == isRetriable, "\(text)")
        }
    }

    /// The error texts of Redis 5.0, 6.2, 7.0 and Valkey 8, from their sources. Long ones are cut.
    @Test func `An error that wraps another one is classified by the inner one`() {
        let runningScriptError =
            "ERR Error running script (call to f_2bab3b661081db58bd2341920e0ba7cf5dc77b25): @user_script:1: "
        let cases: [(String, RedisError.Code)] = [
            (
                runningScriptError + "@user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.",
                .outOfMemory
            ),
            (runningScriptError + "-READONLY You can't write against a read only replica.", .readOnly),
            (runningScriptError + "@user_script: 1: -LOADING Redis is loading the dataset in memory", .loading),
            (runningScriptError + "-MASTERDOWN Link with MASTER is down", .masterDown),
            (runningScriptError + "-CLUSTERDOWN The cluster is down", .clusterDown),
            (
                runningScriptError + "@user_script: 1: -MISCONF Redis is configured to save RDB snapshots",
                .misconfigured
            ),
            (runningScriptError + "-NOREPLICAS Not enough good replicas to write.", .noReplicas),
            (runningScriptError + "WRONGTYPE Operation against a key holding the wrong kind of value", .foreignValue),
            (
                runningScriptError + "@user_script: 1: Script attempted execute a command while the cluster is down",
                .clusterDown
            ),
            (
                runningScriptError
                    + "@user_script: 1: Lua script attempted to access a non local key in a cluster node",
                .clusterEnabled
            ),
            ("@user_script: 175: -OOM command not allowed when used memory > 'maxmemory'.", .outOfMemory),
            ("ERR The user executing the script can't run this command or subcommand script: f_2b", .noPermission),
            ("OOM command not allowed when used memory > 'maxmemory'. script: f_2b, on @user_script:1.", .outOfMemory),
            (runningScriptError + "@user_script:12: attempt to index a nil value", .unknown),
            (
                runningScriptError + "@user_script: 1: Write commands not allowed after non deterministic commands.",
                .unknown
            ),
        ]
        for (text, code) in cases {
            let error = Array(text.utf8).withUnsafeBytes { RedisError(reply: $0) }
            #expect(error.code == code, "\(text)")
            #expect(error.isRetriable == (code != .foreignValue), "\(text)")
        }
    }

    @Test func `An error's text does not repeat arguments`() {
        let text = "ERR unknown command 'AUTH', with args beginning with: 'hunter2'"
        let error = Array(text.utf8).withUnsafeBytes { RedisError(reply: $0) }
        #expect(error.reason == "Redis replied: ERR unknown command 'AUTH'")
    }

    @Test(
        arguments: [
            ("# Server\r\nredis_version:7.0.15\r\nos:x\r\n", 7), ("redis_version:10.1\r\n", 10),
            ("redis_version:\r\n", nil), ("", nil),
        ] as [(String, Int?)]
    )
    func `The server's version is found`(information: String, major: Int?) {
        #expect(Array(information.utf8).withUnsafeBytes { ServerInformation($0) }.majorVersion == major)
    }

    /// Lines of replies to INFO, in the forms of Redis and Valkey, and replies that lack some of the lines.
    @Test(
        arguments: [
            ("redis_version:6.2.6\r\nredis_mode:standalone\r\nrun_id:0a1b\r\n", false, "0a1b"),
            ("redis_version:7.0.15\r\nredis_mode:cluster\r\nrun_id:ff\r\n", true, "ff"),
            ("redis_version:7.2.4\r\nserver_name:valkey\r\nserver_mode:cluster\r\n", true, nil),
            ("", false, nil), ("run_id:\r\n", false, nil),
        ] as [(String, Bool, String?)]
    )
    func `A server says whether it belongs to a cluster, and its run id`(
        text: String,
        isClusterEnabled: Bool,
        runIdentifier: String?
    ) {
        let information = Array(text.utf8).withUnsafeBytes { ServerInformation($0) }
        #expect(information.isClusterEnabled == isClusterEnabled)
        #expect(information.runIdentifier == runIdentifier)
    }
}
