import ActivityStore
import LiveActivity

@testable import Audiences
@testable import Delivery

/// One core with the store's model. The test decides when the store replies, when APNs responds, and with what.
final class RoundHarness {
    static let app = Array("com.example.match".utf8)
    static let audience = Array("match-1".utf8)
    static let digest = digest(of: "match-1")
    static let secondApp = Array("com.example.neighbour".utf8)
    static let apps = [app, secondApp]
    /// The clock at the beginning of each test, in UNIX seconds.
    static let startSeconds: Int64 = 1_790_000_000
    static let startMilliseconds = startSeconds * 1_000

    struct SentPush: Equatable {
        var member: String
        var content: Int
        var alert: Int?
        var timestamp: Int
        var priority: UInt8
    }

    var nowMilliseconds: Int64 = RoundHarness.startMilliseconds
    var store: AudienceStoreModel
    var core: Audiences
    /// The records of the fan-out topic's first partition. A test passes records of a second partition to
    /// ``read(_:at:from:)``.
    var log: [SimulatedFanout] = []
    /// The values of all records that the core has produced: results and fan-out records, for example.
    var producedRecords: [String] = []
    /// The instructions in the headers of the produced fan-out records.
    var instructions: [FanoutInstruction] = []
    private(set) var partitionIndex: UInt32
    private var nextOffset = 0
    private var namesByToken: [String: String] = [:]
    private(set) var pushesInFlight: [(push: AudiencePush, sent: SentPush)] = []

    /// The rewinds that the core requested. For each of them, `readLog` went back to the requested offset.
    private(set) var rewinds: [PartitionRewind] = []
    private var pausedUntilMilliseconds = Int64.min

    var moment: Moment { Moment(monotonicMilliseconds: nowMilliseconds, wallMilliseconds: nowMilliseconds) }

    /// About a quarter of the real page size, so that a few dozen members fill several pages.
    static let pageBytesMax = 8_186

    init(
        store: AudienceStoreModel = AudienceStoreModel(
            nowMilliseconds: startMilliseconds,
            unarrangedPageBytesMax: pageBytesMax
        ),
        seed: UInt64 = 1,
        pagesMax: Int = 256,
        pageBytesMax: Int = 256 * PageSlot.expectedBytesMax,
        recordsMax: Int = 16_384,
        recordBytesMax: Int = 64 << 20,
        ledgerSpanOffsetCount: Int = 1 << 16,
        membershipChangesMax: Int = 4_096,
        newestStateBytesMax: Int = 2 << 20,
        commandsMax: Int = 4_096,
        commandBytesMax: Int = 8 << 20,
        parkedMembersMax: Int = 16_384,
        parkedCountThatHaltsRound: UInt32 = AudiencesConfiguration.parkedCountThatHaltsRound,
        channelRule: AudienceChannelRule? = nil,
        hasSeveralStoreServers: Bool = false
    ) {
        self.store = store
        core = Self.makeCore(seed: seed) {
            $0.pagesMax = pagesMax
            $0.pageBytesMax = pageBytesMax
            $0.fanoutRecordsMax = recordsMax
            $0.fanoutRecordBytesMax = recordBytesMax
            $0.ledgerSpanOffsetCount = ledgerSpanOffsetCount
            $0.membershipChangesMax = membershipChangesMax
            $0.newestStateBytesMax = newestStateBytesMax
            $0.commandsMax = commandsMax
            $0.commandBytesMax = commandBytesMax
            $0.parkedMembersMax = parkedMembersMax
            $0.parkedCountThatHaltsRound = parkedCountThatHaltsRound
            $0.channelRules[0] = channelRule
            $0.hasSeveralStoreServers = hasSeveralStoreServers
        }
        guard let partitionIndex = core.assign(number: 0) else { preconditionFailure("the first partition of a lane") }
        self.partitionIndex = partitionIndex
    }

    static func digest(of audience: String) -> AudienceDigest {
        Array(audience.utf8).withUnsafeBytes { AudienceDigest(of: $0) }
    }

    private static func makeCore(seed: UInt64, _ change: (inout AudiencesConfiguration) -> Void) -> Audiences {
        var policy = Policy(name: "default")
        policy.expiration.alertSeconds = 3_600
        policy.expiration.updateSeconds = 3_600
        var reloadable = ReloadableSettings(appCount: apps.count)
        reloadable.policies = [policy]
        var configuration = AudiencesConfiguration(
            apps: apps.map { .init(bundleId: $0, hasProductionPool: true, hasSandboxPool: true) },
            reloadable: reloadable,
            seed: seed
        )
        change(&configuration)
        return Audiences(configuration: configuration)
    }

    /// Adds a member to the store's model, without the core.
    func join(
        _ name: String,
        _ audience: String = "match-1",
        appIndex: Int = 0,
        kind: StoreSubjectKind = .activity,
        environment: APNsEnvironment = .production,
        supportsChannels: Bool = false
    ) {
        let token = String(repeating: "0", count: 60) + String(1_000 + namesByToken.count)
        namesByToken[token] = name
        let entry = MemberEntry<[UInt8]>(
            location: SimulatedNames.location(of: name),
            isLeaving: false,
            kind: kind,
            environment: environment,
            allowsFrequentUpdates: false,
            supportsChannels: supportsChannels,
            changedAtMilliseconds: nowMilliseconds,
            identifier: Array(name.utf8),
            token: Array(token.utf8)
        )
        _ = store.perform(
            AudienceCall(
                tag: 0,
                app: Self.apps[appIndex],
                audience: Self.digest(of: audience),
                operation: .append(entry)
            )
        )
    }

    /// The first round that the core began; also the only one in most tests.
    var firstRound: RoundIndex { RoundIndex(rawValue: 0) }

    /// How long the first round still pauses before its next claim.
    var claimPauseMilliseconds: Int64 { core.rounds[firstRound].claim.nextClaimAtMilliseconds - nowMilliseconds }

    func makeCall(
        _ operation: AudienceCall<[UInt8]>.Operation,
        about digest: AudienceDigest = RoundHarness.digest
    ) -> AudienceCall<[UInt8]> {
        AudienceCall(tag: 0, app: Self.app, audience: digest, operation: operation)
    }

    /// The numbers of members that joined, that left, and that were members before and registered again, in this order.
    var membershipChangeCounts: [UInt64] {
        let counts = core.membershipChangeCounts(of: 0)
        return counts.indices.map { counts[$0] }
    }

    /// Gives the core a member's registration that names the audiences; with `isLeaving`, one that no longer names
    /// them.
    func register(
        _ name: String,
        _ audiences: [String] = ["match-1"],
        record: UInt32 = 1,
        shows: Version? = nil,
        wasMemberOfAllAudiences: Bool = false,
        isLeaving: Bool = false,
        appIndex: UInt16 = 0
    ) {
        let token = String(repeating: "0", count: 60) + String(1_000 + namesByToken.count)
        namesByToken[token] = name
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        let digestValues = audiences.map { Self.digest(of: $0).value.littleEndian }
        digestValues.withUnsafeBytes { digests in
            var (name, token) = (name, token)
            name.withUTF8 { name in
                token.withUTF8 { token in
                    let incoming = IncomingMembershipChange(
                        member: .init(record: RecordIndex(rawValue: record), appIndex: appIndex, kind: .activity),
                        identifier: UnsafeRawBufferPointer(name),
                        joinedAudiences: AudienceList(isLeaving ? none : digests),
                        wasMemberOfAllAudiences: wasMemberOfAllAudiences,
                        leftAudiences: AudienceList(isLeaving ? digests : none),
                        leftAtWallMilliseconds: isLeaving ? nowMilliseconds : 0,
                        token: UnsafeRawBufferPointer(token),
                        environment: .production,
                        registeredAtWallMilliseconds: nowMilliseconds,
                        allowsFrequentUpdates: false,
                        shownVersion: shows
                    )
                    core.receiveMembershipChange(incoming, now: moment)
                }
            }
        }
    }

    /// Returns the records of the registrations that the core has given back since the last call.
    func takeReturnedRegistrations() -> [UInt32] {
        var records: [UInt32] = []
        while let member = core.takeMemberToSettle() { records.append(member.record.rawValue) }
        return records
    }

    /// Continues at the offset and with the metadata that the previous owner committed.
    func resume(_ progress: PartitionProgress?) {
        guard let progress else { return }
        _ = progress.metadata.withUnsafeBytes {
            core.restoreSettledOffsets(
                partitionIndex,
                at: progress.committableOffset,
                metadata: $0,
                logEndOffset: Int64(log.count)
            )
        }
        nextOffset = Int(progress.committableOffset)
    }

    /// Reads the partition again, but only from `offset` on, because Kafka has deleted the older records.
    func rewindAfterDeletion(from offset: Int) {
        guard let rewind = core.rewindRequest(partitionIndex, now: moment) else { return }
        core.handleRewind(partitionIndex, from: rewind.offset, now: moment)
        nextOffset = offset
        readLog()
    }

    /// Gives the core all records of the log that it has not read yet. If the core wants to read the log again, begins
    /// at the offset that the core names.
    func readLog() {
        if let rewind = core.rewindRequest(partitionIndex, now: moment) {
            core.handleRewind(partitionIndex, from: rewind.offset, now: moment)
            rewinds.append(rewind)
            nextOffset = Int(rewind.offset)
            pausedUntilMilliseconds = nowMilliseconds + rewind.pauseMilliseconds
        }
        guard nowMilliseconds >= pausedUntilMilliseconds else { return }
        while nextOffset < log.count {
            read(log[nextOffset], at: Int64(nextOffset), from: partitionIndex)
            nextOffset += 1
        }
    }

    /// Gives the core one record of a partition.
    func read(_ record: SimulatedFanout, at offset: Int64 = 0, from partitionIndex: UInt32) {
        record.value.withUnsafeBytes { value in
            core.receiveFanoutRecord(
                IncomingRecord(
                    partitionIndex: partitionIndex,
                    offset: offset,
                    timestampMilliseconds: nowMilliseconds,
                    key: nil,
                    value: value
                ),
                instruction: record.instruction,
                now: moment
            )
        }
    }

    /// Assigns a second partition to the core, and returns its index.
    func addPartition() -> UInt32 {
        guard let index = core.assign(number: 1) else { preconditionFailure("there is room for a second partition") }
        return index
    }

    func isDrained(_ partitionIndex: UInt32) -> Bool { core.isDrained(partitionIndex) }

    func rewindRequest(_ partitionIndex: UInt32) -> PartitionRewind? { core.rewindRequest(partitionIndex, now: moment) }

    /// Takes the core's next call; nil if there is none.
    func nextCall() -> AudienceCall<[UInt8]>? {
        guard let call = core.withNextStoreCall(now: moment, { $0.map { Array($0) } }) else { return nil }
        core.removeNextStoreCall()
        return call
    }

    @discardableResult
    func reply(to call: AudienceCall<[UInt8]>) -> AudienceVerdict {
        store.nowMilliseconds = nowMilliseconds
        let reply = store.perform(call)
        reply.withBorrowedBytes { core.handleStoreReply(tag: call.tag, $0, now: moment) }
        return reply.verdict
    }

    /// Replies to calls and acknowledges outgoing records until none are left. Advances the clock for page reads that
    /// the core delays.
    func performPendingWork() {
        core.endBatch(now: moment)
        var isBusy = true
        while isBusy || !core.pageReads.isEmpty {
            isBusy = false
            core.advance(now: moment)
            if let due = core.pageReads.sendDueMilliseconds { nowMilliseconds = max(nowMilliseconds, due) }
            while let call = nextCall() {
                reply(to: call)
                isBusy = true
            }
            if acknowledgeOutgoingRecords() { isBusy = true }
        }
    }

    /// Takes the core's outgoing records and acknowledges each. Returns whether there was one.
    @discardableResult
    func acknowledgeOutgoingRecords() -> Bool {
        var hadRecord = false
        while let outgoingRecord = core.nextOutgoingRecord(now: moment) {
            let record = core.compose(outgoingRecord)
            producedRecords.append(String(decoding: record.value, as: UTF8.self))
            if let instruction = record.fanoutInstruction { instructions.append(instruction) }
            core.removeNextOutgoingRecord(outgoingRecord)
            core.handleDeliveryReport(outgoingRecord, .acknowledged, now: moment)
            hadRecord = true
        }
        return hadRecord
    }

    func advanceClock(milliseconds: Int64) {
        nowMilliseconds += milliseconds
        performPendingWork()
    }

    /// Takes all pushes, or at most `count`, and keeps them in flight until `respondToPushes` is called.
    ///
    /// - Parameter pushesInFlightMax: how many pushes the pool may have in flight.
    @discardableResult
    func send(
        atMost count: Int = .max,
        appIndex: UInt16 = 0,
        environment: APNsEnvironment = .production,
        pushesInFlightMax: Int = 1_000,
        isProbing: Bool = false
    ) -> [SentPush] {
        let pool = PoolTarget(appIndex: appIndex, environment: environment)
        var sent: [SentPush] = []
        while sent.count < count,
            let push = core.takeNextPush(
                pool,
                pushesInFlightMax: pushesInFlightMax,
                isProbing: isProbing,
                now: moment
            )
        {
            let text = String(decoding: push.body, as: UTF8.self)
            let token = String(decoding: push.address, as: UTF8.self)
            let sentPush = SentPush(
                member: namesByToken[token] ?? token,
                content: SimulatedText.number(after: "\"c\":", in: text) ?? -1,
                alert: SimulatedText.number(after: "alert-", in: text),
                timestamp: SimulatedText.number(after: "\"timestamp\":", in: text) ?? -1,
                priority: push.priority
            )
            pushesInFlight.append((push, sentPush))
            sent.append(sentPush)
        }
        return sent
    }

    /// Gives all pushes in flight the same response.
    ///
    /// - Parameter performsWork: whether the harness then also replies to the core's calls and acknowledges its
    ///   records.
    func respondToPushes(
        _ disposition: PushResult.Disposition = .accepted,
        reason: String = "",
        advice: StaticString = "",
        performsWork: Bool = true
    ) {
        let pushes = pushesInFlight
        pushesInFlight.removeAll()
        let reason = Array(reason.utf8)
        for (push, _) in pushes {
            reason.withUnsafeBytes { reason in
                core.handlePushResponse(
                    tag: push.tag,
                    PushResult(
                        disposition: disposition,
                        status: disposition == .accepted ? 200 : 503,
                        reason: reason,
                        advice: advice,
                        invalidAtWallMilliseconds: nil,
                        sentAtWallMilliseconds: nowMilliseconds,
                        responseAtWallMilliseconds: nowMilliseconds
                    ),
                    now: moment
                )
            }
        }
        if performsWork { performPendingWork() }
    }

    /// The gauges of the first app.
    var gauges: RoundGauges {
        var gauges = Self.apps.map { _ in RoundGauges() }
        core.addGauges(to: &gauges)
        return gauges[0]
    }

    var passedOverCount: Int { core.passedOverCount(partitionIndex) }
    var committableOffset: Int64? { core.committableOffset(partitionIndex) }
}
