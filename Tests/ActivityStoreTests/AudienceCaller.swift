import LiveActivity
import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// Calls the audience store as a lane does, and records the replies.
final class AudienceCaller: AudienceStoreHandler {
    typealias Operation = AudienceCall<[UInt8]>.Operation

    let loop: EventLoop
    private let configuration: RedisConfiguration
    private(set) lazy var store = AudienceStore(loop: loop, configuration: configuration, handler: self)
    private(set) var replies: [UInt64: AudienceReply<[UInt8]>] = [:]
    private(set) var failures: [UInt64: RedisError.Code] = [:]
    private(set) var lossCodes: [RedisError.Code] = []
    private var nextTag: UInt64 = 0
    private let server: AnyObject?

    /// - Parameter server: a server to retain for as long as the caller.
    init(_ configuration: RedisConfiguration, server: AnyObject? = nil) throws {
        loop = try EventLoop()
        self.configuration = configuration
        self.server = server
        store.connect()
    }

    deinit {
        store.close()
    }

    /// The time limits are a minute, because a test's server may be slow on a busy machine.
    convenience init(_ server: RedisServer, callsPerCommandMax: Int = RedisConnection.callsPerCommandMax) throws {
        var configuration = RedisConfiguration(url: try RedisURL(server.unixURL))
        configuration.connectTimeoutMilliseconds = 60_000
        configuration.replyDeadlineMilliseconds = 60_000
        configuration.callsPerCommandMax = callsPerCommandMax
        try self.init(configuration, server: server)
        try #require(runLoop { store.isReady })
    }

    func runLoop(limitMilliseconds: Int64 = EventLoop.eventWaitMillisecondsMax, until condition: () -> Bool) -> Bool {
        loop.run(withinMilliseconds: limitMilliseconds, until: condition)
    }

    /// Issues a call as soon as the store has room for it. Returns the call's tag.
    func issue(_ operation: Operation, audience: AudienceDigest = AudienceScene.audience) throws -> UInt64 {
        nextTag += 1
        let call = AudienceCall(tag: nextTag, app: AudienceScene.app, audience: audience, operation: operation)
        var issueResult = IssueResult.full
        _ = runLoop {
            issueResult = call.withBorrowedBytes { store.issue($0) }
            return issueResult != .full && issueResult != .notReady
        }
        try #require(issueResult == .issued)
        return nextTag
    }

    /// Issues a call, and waits for its reply. Also waits for the work that the store begins itself, for
    /// example to split a page.
    func perform(
        _ operation: Operation,
        audience: AudienceDigest = AudienceScene.audience
    ) throws -> AudienceReply<[UInt8]> {
        let tag = try issue(operation, audience: audience)
        try runLoopUntilIdle()
        return try #require(replies[tag], "\(String(describing: failures[tag]))")
    }

    func runLoopUntilIdle() throws {
        try #require(runLoop { store.outstandingCallCount == 0 })
    }

    /// Appends all entries. Repeats the calls that fail.
    func join(_ entries: [MemberEntry<[UInt8]>], audience: AudienceDigest = AudienceScene.audience) throws {
        var waitingEntries = entries
        while !waitingEntries.isEmpty {
            let tags = try waitingEntries.map { try issue(.append($0), audience: audience) }
            try runLoopUntilIdle()
            waitingEntries = zip(waitingEntries, tags).filter { failures[$0.1] != nil }.map(\.0)
        }
    }

    /// Returns the tokens of a segment's members, by the members' ids. Each member must be on one page only.
    ///
    /// - Parameter nowMilliseconds: the time at which the pages are read; nil: the present time.
    func members(
        ofSegment segment: UInt8 = 0,
        audience: AudienceDigest = AudienceScene.audience,
        nowMilliseconds: Int64? = nil
    ) throws -> [[UInt8]: [UInt8]] {
        let directory = try perform(.readDirectory(segment: segment), audience: audience).bytes ?? []
        let bounds = AudienceScene.bounds(ofDirectory: directory)
        var members: [[UInt8]: [UInt8]] = [:]
        for (index, bound) in bounds.enumerated() {
            let page = try perform(.readPage(segment: segment, lowerBound: bound), audience: audience).bytes ?? []
            let (nextLowerBound, pageMembers) = try AudienceScene.members(
                ofPage: page,
                nowMilliseconds: nowMilliseconds ?? loop.wallMilliseconds
            )
            #expect(nextLowerBound == (index + 1 < bounds.count ? bounds[index + 1] : nil))
            members.merge(pageMembers) { first, _ in
                Issue.record("a member on two pages")
                return first
            }
        }
        return members
    }

    func audienceStoreReplied(tag: UInt64, _ reply: AudienceReply<UnsafeRawBufferPointer>) {
        if replies[tag] != nil || failures[tag] != nil { Issue.record("a call that ended twice") }
        replies[tag] = reply.map { Array($0) }
    }

    func audienceCallFailed(tag: UInt64, error: RedisError) {
        if replies[tag] != nil || failures[tag] != nil { Issue.record("a call that ended twice") }
        failures[tag] = error.code
    }

    func audienceStoreReady() {}
    func audienceStoreDisconnected(_ reason: RedisError) { lossCodes.append(reason.code) }
}

extension RedisServer {
    /// Loads scripts that read their time from the keys `seconds` and `microseconds` instead of the server's
    /// clock. ``setTime(milliseconds:)`` sets these keys.
    func loadAudienceScriptsWithSettableTime(_ caller: AudienceCaller) throws {
        let connection = try #require(
            Array("{app}".utf8).withUnsafeBytes { caller.store.redis.connection(for: $0) }
        )
        for script in AudienceScript.allCases {
            let timedSource = script.luaSource.replacing(
                "callRedis('TIME')",
                with: "redis.call('MGET', 'seconds', 'microseconds')"
            )
            let digest = try #require(command("SCRIPT", "LOAD", timedSource).first)
            let isSet = Array(digest.utf8)
                .withUnsafeBytes { connection.scriptCallPrefixes.setDigest($0, of: script.rawValue) }
            #expect(isSet)
        }
    }

    func setTime(milliseconds: Int64) {
        command("MSET", "seconds", String(milliseconds / 1_000), "microseconds", String(milliseconds % 1_000 * 1_000))
    }
}
