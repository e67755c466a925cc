import ActivityStore
import LiveActivity
import Reactor
import Redis
import Testing

/// Reads and writes an audience's data through the store that lanes use. If the store has no room for a call, the call
/// is issued again later.
final class AudienceWriter: AudienceStoreHandler {
    typealias Operation = AudienceCall<[UInt8]>.Operation

    private let app: [UInt8]
    private let audience: AudienceDigest
    private let loop: EventLoop
    private var store: AudienceStore?
    private var replies: [UInt64: AudienceReply<[UInt8]>] = [:]
    private var nextTag: UInt64 = 0

    init(port: UInt16, app: String, audience: String) throws {
        loop = try EventLoop()
        self.app = Array(app.utf8)
        self.audience = Array(audience.utf8).withUnsafeBytes { AudienceDigest(of: $0) }
        let url = try RedisURL("redis://127.0.0.1:\(port)")
        let store = AudienceStore(loop: loop, configuration: RedisConfiguration(url: url), handler: self)
        self.store = store
        store.connect()
    }

    deinit {
        store?.close()
    }

    /// Performs the operations, and returns their replies in the same order.
    func perform(_ operations: [Operation]) throws -> [AudienceReply<[UInt8]>] {
        let tags = nextTag..<(nextTag + UInt64(operations.count))
        nextTag = tags.upperBound
        var unissuedCalls = Array(zip(tags, operations).reversed())
        loop.refreshClock()
        let end = loop.nowMilliseconds + 120_000
        while replies.count < operations.count {
            while let (tag, operation) = unissuedCalls.last {
                let call = AudienceCall(tag: tag, app: app, audience: audience, operation: operation)
                guard call.withBorrowedBytes({ store?.issue($0) }) == .issued else { break }
                unissuedCalls.removeLast()
            }
            loop.runIteration(waitMilliseconds: 20)
            try #require(loop.nowMilliseconds < end, "the store did not reply in time")
        }
        defer { replies = [:] }
        return tags.compactMap { replies[$0] }
    }

    func perform(_ operation: Operation) throws -> AudienceReply<[UInt8]> {
        try #require(try perform([operation]).first)
    }

    func audienceStoreReplied(tag: UInt64, _ reply: AudienceReply<UnsafeRawBufferPointer>) {
        replies[tag] = reply.map { Array($0) }
    }

    func audienceCallFailed(tag: UInt64, error: RedisError) { Issue.record("\(error)") }
    func audienceStoreReady() {}
    func audienceStoreDisconnected(_ reason: RedisError) {}
}
