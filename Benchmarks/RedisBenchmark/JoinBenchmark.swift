import ActivityStore
import LiveActivity
import Numbers
import Reactor
import Redis

/// Registers activities that name an audience, with all store calls that a lane makes for such a registration. First
/// the activity's value in Redis gets the list of its audiences. Then a page of the audience gets an entry. If the
/// activity leaves another audience, two calls are added: a page of that audience gets an entry, and then the
/// activity's value notes that both pages have their entries.
final class JoinBenchmark: ActivityStoreHandler, AudienceStoreHandler {
    /// The maximum number of registrations whose calls are not all acknowledged.
    private static let registrationsInProgressMax = 512

    private let server: RedisServerProcess
    private let loop: EventLoop
    private var activityStore: ActivityStore?
    private var audienceStore: AudienceStore?
    private var failure: RedisError?
    /// The audiences of the current run: all activities join `joinedAudience`. In ``moveAll(_:)`` they also leave
    /// `leftAudience`.
    private var joinedAudience = AudienceDigest(value: 1)
    private var leftAudience = AudienceDigest(value: 0)
    /// When the members of the current run join and leave, UNIX milliseconds. Each run has a later time.
    private var changedAtMilliseconds: Int64 = 0
    /// For each registration, the number of its entries that Redis has not acknowledged.
    private var unacknowledgedEntryCounts: [UInt8] = []
    /// For each registration, whether its activity also leaves `leftAudience`.
    private var leavesAudience: [Bool] = []
    private var finishedRegistrationCount = 0

    struct Figures {
        var microseconds: Double
        /// Script commands sent to the server for each registration.
        var scriptCallsPerRegistration: Double
    }

    /// Connects both stores to the server.
    ///
    /// - Parameter callsPerCommandMax: the maximum number of calls in one Redis command; in a cluster it is 1.
    init(
        server: RedisServerProcess,
        over transport: RedisServerProcess.Transport,
        callsPerCommandMax: Int = RedisConnection.callsPerCommandMax
    ) throws {
        self.server = server
        loop = try EventLoop()
        var configuration = try RedisConfiguration(url: RedisURL(server.url(transport)))
        configuration.callsPerCommandMax = callsPerCommandMax
        // Longer than a worker would wait, because the machine may be busy with other work.
        configuration.replyDeadlineMilliseconds = 120_000
        let activityStore = ActivityStore(loop: loop, configuration: configuration, handler: self)
        let audienceStore = AudienceStore(loop: loop, configuration: configuration, handler: self)
        (self.activityStore, self.audienceStore) = (activityStore, audienceStore)
        activityStore.connect()
        audienceStore.connect()
        while !(activityStore.isReady && audienceStore.isReady) { try runIteration() }
    }

    func close() {
        activityStore?.close()
        audienceStore?.close()
    }

    /// Registers each member for the first time.
    func joinAll(_ members: Int) throws -> Figures {
        try registerAll(members)
    }

    /// Registers each member with another audience than before.
    func moveAll(_ members: Int) throws -> Figures {
        (leftAudience, joinedAudience) = (
            joinedAudience, AudienceDigest(value: joinedAudience.value &+ 0x9E37_79B9_7F4A_7C15)
        )
        return try registerAll(members)
    }

    private func registerAll(_ members: Int) throws -> Figures {
        unacknowledgedEntryCounts = [UInt8](repeating: 0, count: members)
        leavesAudience = [Bool](repeating: false, count: members)
        finishedRegistrationCount = 0
        changedAtMilliseconds = max(changedAtMilliseconds + 1, loop.wallMilliseconds)
        let (processorSecondsBefore, callsBefore) = (server.processorSeconds, server.scriptCallCount)
        var issuedCount = 0
        while finishedRegistrationCount < members {
            while issuedCount < members, issuedCount - finishedRegistrationCount < Self.registrationsInProgressMax,
                try register(issuedCount)
            { issuedCount += 1 }
            try runIteration()
        }
        // The store itself compacts and splits pages. That work is part of the cost of joining.
        while let audienceStore, audienceStore.outstandingCallCount > 0 { try runIteration() }
        return Figures(
            microseconds: (server.processorSeconds - processorSecondsBefore) * 1_000_000 / Double(members),
            scriptCallsPerRegistration: Double(server.scriptCallCount - callsBefore) / Double(members)
        )
    }

    // MARK: - Store calls

    private func register(_ index: Int) throws -> Bool {
        let digest = withUnsafeBytes(of: joinedAudience.value.littleEndian) { Array($0) }
        let registration = TokenRegistration(
            token: Crowd.token(index),
            environment: .production,
            registeredAtMilliseconds: changedAtMilliseconds
        )
        return try issue(
            index,
            .register(registration, allowsFrequentUpdates: true, shownVersion: nil, source: .record, audiences: digest)
        )
    }

    private func issue(_ index: Int, _ operation: StoreCall<[UInt8]>.Operation) throws -> Bool {
        let subject = StoreSubject(app: Crowd.app, kind: .activity, identifier: Crowd.identifier(index))
        let call = StoreCall(tag: UInt64(index), subject: subject, operation: operation)
        return try isIssued(call.withBorrowedBytes { activityStore?.issue($0) })
    }

    /// Appends an entry to an audience's page. The store has room, because it can hold two entries for each
    /// registration in progress, and a registration makes no more.
    private func append(_ index: Int, _ audience: AudienceDigest, isLeaving: Bool) throws {
        let entry = Crowd.entry(index, isLeaving: isLeaving, atMilliseconds: changedAtMilliseconds)
        let call = AudienceCall(tag: UInt64(index), app: Crowd.app, audience: audience, operation: .append(entry))
        guard try isIssued(call.withBorrowedBytes({ audienceStore?.issue($0) })) else {
            throw RedisServerProcess.Failure(description: "no room for a member's entry")
        }
        unacknowledgedEntryCounts[index] += 1
    }

    private func isIssued(_ issueResult: IssueResult?) throws -> Bool {
        switch issueResult {
        case .issued?: return true
        case .full?: return false
        default:
            throw RedisServerProcess.Failure(description: "a call cannot be made: \(String(describing: issueResult))")
        }
    }

    private func runIteration() throws {
        loop.runIteration(waitMilliseconds: 100)
        if let failure { throw failure }
    }

    private func noteFailure(_ step: () throws -> Void) {
        do { try step() } catch { failure = failure ?? RedisError(.unknown, "\(error)") }
    }

    // MARK: - Replies of Redis

    func redisReady() {}
    func redisDisconnected(_ reason: RedisError) { failure = reason }
    func redisWarned(_ warning: RedisWarning) {}
    func storeCallFailed(tag: UInt64, script: StoreScript, error: RedisError) { failure = failure ?? error }

    func storeReplied(tag: UInt64, _ reply: StoreReply<UnsafeRawBufferPointer>) {
        let index = Int(tag)
        switch reply.verdict {
        case .registered:
            leavesAudience[index] = reply.departures != nil
            noteFailure {
                try append(index, joinedAudience, isLeaving: false)
                if leavesAudience[index] { try append(index, leftAudience, isLeaving: true) }
            }
        case .settled: finishedRegistrationCount += 1
        default: failure = failure ?? RedisError(.unknown, "a registration was told \(reply.verdict)")
        }
    }

    func audienceStoreReady() {}
    func audienceStoreDisconnected(_ reason: RedisError) { failure = reason }
    func audienceCallFailed(tag: UInt64, error: RedisError) { failure = failure ?? error }

    func audienceStoreReplied(tag: UInt64, _ reply: AudienceReply<UnsafeRawBufferPointer>) {
        let index = Int(tag)
        unacknowledgedEntryCounts[index] -= 1
        guard unacknowledgedEntryCounts[index] == 0 else { return }
        guard leavesAudience[index] else {
            finishedRegistrationCount += 1
            return
        }
        noteFailure {
            guard try issue(index, .confirmDepartures(atMilliseconds: changedAtMilliseconds)) else {
                throw RedisServerProcess.Failure(description: "no room for a confirmation")
            }
        }
    }
}

/// Makes the ids, tokens and entries of the activities that join audiences.
enum Crowd {
    static let app = Array("com.example.match".utf8)

    /// Returns an id that is as long as a UUID.
    static func identifier(_ index: Int) -> [UInt8] {
        Array("0c6ef1f2-8f5e-4d0d-9e0c-\(String(index + 0x1000_0000_0000, radix: 16).suffix(12))".utf8)
    }

    /// Returns a token of 160 hexadecimal digits, different for each activity.
    static func token(_ index: Int) -> [UInt8] {
        let digits = Array("0123456789abcdef".utf8)
        var random = SplitMix64(seed: UInt64(index))
        return (0..<160).map { _ in digits[Int(random.next(below: 16))] }
    }

    static func entry(_ index: Int, isLeaving: Bool = false, atMilliseconds: Int64) -> MemberEntry<[UInt8]> {
        let identifier = identifier(index)
        return MemberEntry(
            location: identifier.withUnsafeBytes { MemberLocation(of: $0) },
            isLeaving: isLeaving,
            kind: .activity,
            environment: .production,
            allowsFrequentUpdates: true,
            changedAtMilliseconds: atMilliseconds,
            identifier: identifier,
            token: isLeaving ? [] : token(index)
        )
    }
}
