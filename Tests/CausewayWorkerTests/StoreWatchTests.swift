import Logging
import Reactor
import Redis
import Synchronization
import Testbed
import Testing

@testable import CausewayWorker
@testable import Observability

/// What ``StoreWatch`` reports to the lanes if the Kafka thread publishes something during a poll. (R26)
@Suite(.ownThread) struct StoreWatchTests {
    @Test func `A poll that reads no mark of the registrations does not report complete members`() throws {
        let loop = try EventLoop()
        let (redis, mailbox, polls) = (try FakePrimary(loop: loop), StoreWatchMailbox(), PollRecord())
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let storeWatch = try StoreWatch(
            redis: RedisConfiguration(url: RedisURL(redis.url)),
            consumerGroup: "group",
            topics: ["causeway.commands", "causeway.registrations"],
            mailbox: mailbox,
            log: SharedLimitedLog(logger: logger, events: RecentEvents()),
            kafkaWakeup: Wakeup(),
            reportFault: { _ in },
            reportMemberCompleteness: { polls.noteReport($0) }
        )
        func poll() {
            let pollCount = polls.results.count
            Task { polls.noteResult(await storeWatch.poll()) }
            runLoop(loop, until: { polls.results.count > pollCount })
        }
        redis.beforeReply = { mailbox.publish([], registrationPartitionCount: 2) }
        poll()
        #expect(polls.results == [true])
        #expect(polls.reports.isEmpty, "the number of partitions was unknown before the poll")
        poll()
        #expect(polls.reports == [nil], "Redis has no mark of the two partitions")
        withExtendedLifetime(redis) {}
    }
}

/// The results of a test's polls, and what `StoreWatch` has reported about members.
private final class PollRecord: Sendable {
    private let state = Mutex<(results: [Bool], reports: [Int64?])>(([], []))

    var results: [Bool] { state.withLock { $0.results } }
    var reports: [Int64?] { state.withLock { $0.reports } }

    func noteResult(_ hasRedisReplied: Bool) { state.withLock { $0.results.append(hasRedisReplied) } }
    func noteReport(_ completeAtMilliseconds: Int64?) { state.withLock { $0.reports.append(completeAtMilliseconds) } }
}

/// A Redis server on the test's own loop. It has no keys, and replies to each command with a null.
private final class FakePrimary: ListenerHandler, StreamHandler {
    /// The lines of a command of two words: `INFO server`, or `GET` with a key.
    private static let linesPerCommand = 5

    /// Called before each reply.
    var beforeReply: () -> Void = {}
    private let loop: EventLoop
    private var listener: Listener?
    private var streams: [Stream] = []
    private var receivedLineCount = 0

    init(loop: EventLoop) throws {
        self.loop = loop
        listener = try Listener(loop: loop, address: .loopback(port: 0), handler: self)
    }

    deinit {
        listener?.close()
        for stream in streams { stream.close() }
    }

    var url: String { "redis://127.0.0.1:\(listener?.port ?? 0)" }

    func listenerAccepted(descriptor: Int32, from: SocketAddress?) {
        streams.append(Stream(accepted: descriptor, loop: loop, handler: self, tls: nil))
    }

    func streamConnected(_ stream: Stream) {}
    func streamHasRoom(_ stream: Stream) {}
    func streamClosed(_ stream: Stream, error: StreamError?) {}

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        receivedLineCount += bytes.count { $0 == UInt8(ascii: "\n") }
        while receivedLineCount >= Self.linesPerCommand {
            receivedLineCount -= Self.linesPerCommand
            beforeReply()
            Array("$-1\r\n".utf8).withUnsafeBytes { stream.write($0) }
        }
    }
}
