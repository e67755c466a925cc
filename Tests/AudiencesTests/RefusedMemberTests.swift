import LiveActivity
import Testing

@testable import Audiences
@testable import Delivery

/// A member whose token APNs has refused: Redis keeps the member and its token until Kafka has the records about the
/// refusal. (R17)
@Suite struct RefusedMemberTests {
    private func makeHarness() -> RoundHarness {
        let harness = RoundHarness()
        harness.join(SimulatedNames.names[0][0])
        harness.appendCommand(1)
        harness.performPendingWork()
        return harness
    }

    /// Takes the calls that remove a member from its audience, and replies to all other calls.
    private func takeRemovals(in harness: RoundHarness) -> [AudienceCall<[UInt8]>] {
        var removals: [AudienceCall<[UInt8]>] = []
        while let call = harness.nextCall() {
            if case .append = call.operation { removals.append(call) } else { harness.reply(to: call) }
        }
        return removals
    }

    /// Takes the next call that retires a token, and returns its tag; nil if there is none.
    private func takeRetirement(in harness: RoundHarness) -> UInt64? {
        let tag = harness.core.withNextActivityStoreCall(now: harness.moment) { $0.tag }
        if tag != nil { harness.core.removeNextActivityStoreCall() }
        return tag
    }

    private func takeOutgoingRecords(in harness: RoundHarness) -> [OutgoingAudienceRecord] {
        var outgoingRecords: [OutgoingAudienceRecord] = []
        while let outgoingRecord = harness.core.nextOutgoingRecord(now: harness.moment) {
            harness.core.removeNextOutgoingRecord(outgoingRecord)
            outgoingRecords.append(outgoingRecord)
        }
        return outgoingRecords
    }

    @Test func `A member with a dead token leaves only when Kafka has both records about it`() throws {
        let harness = makeHarness()
        #expect(harness.send().count == 1)
        harness.respondToPushes(.tokenDead, performsWork: false)
        let outgoingRecords = takeOutgoingRecords(in: harness)
        #expect(outgoingRecords.map(\.kind) == [.memberResult, .invalidation])
        for outgoingRecord in outgoingRecords {
            #expect(takeRemovals(in: harness).isEmpty && takeRetirement(in: harness) == nil)
            harness.core.handleDeliveryReport(outgoingRecord, .acknowledged, now: harness.moment)
        }
        let removals = takeRemovals(in: harness)
        #expect(removals.count == 1)
        let retirementTag = try #require(takeRetirement(in: harness))

        harness.core.handleActivityStoreReply(tag: retirementTag, now: harness.moment)
        harness.advanceClock(milliseconds: 1_000)
        #expect(harness.result(of: 1) == nil, "The member still leaves.")
        for removal in removals { harness.reply(to: removal) }
        harness.advanceClock(milliseconds: 1_000)
        #expect(SimulatedText.contains("\"unregistered\":1", in: harness.result(of: 1) ?? ""))
        #expect(harness.core.fanoutRecordCount == 0 && harness.core.roundCount == 0)
        #expect(harness.committableOffset == 1)
    }

    /// The first worker dies when Kafka has only one of the two records. The next owner finds the member in its
    /// audience, so APNs refuses the token again.
    @Test func `After a crash the next owner reports the member again`() throws {
        let firstWorker = makeHarness()
        #expect(firstWorker.send().count == 1)
        firstWorker.respondToPushes(.tokenDead, performsWork: false)
        let outgoingRecord = try #require(takeOutgoingRecords(in: firstWorker).first)
        firstWorker.core.handleDeliveryReport(outgoingRecord, .acknowledged, now: firstWorker.moment)
        for removal in takeRemovals(in: firstWorker) { firstWorker.reply(to: removal) }

        let secondWorker = RoundHarness(store: firstWorker.store, seed: 2)
        secondWorker.log = firstWorker.log
        secondWorker.readLog()
        secondWorker.performPendingWork()
        #expect(secondWorker.send().count == 1)
        secondWorker.respondToPushes(.tokenDead, performsWork: false)
        #expect(takeOutgoingRecords(in: secondWorker).map(\.kind) == [.memberResult, .invalidation])
    }

    /// Gives the core the registration of an activity that joins an audience. The registration's time comes from a
    /// clock that is ahead.
    private func registerJoiner(in harness: RoundHarness, aheadMilliseconds: Int64) {
        let (name, token) = (Array("joiner".utf8), [UInt8](repeating: UInt8(ascii: "0"), count: 64))
        let digestValues = [RoundHarness.digest(of: "match-1").value.littleEndian]
        digestValues.withUnsafeBytes { digests in
            name.withUnsafeBytes { name in
                token.withUnsafeBytes { token in
                    let incoming = IncomingMembershipChange(
                        member: .init(record: RecordIndex(rawValue: 1), appIndex: 0, kind: .activity),
                        identifier: name,
                        joinedAudiences: AudienceList(digests),
                        leftAudiences: AudienceList(UnsafeRawBufferPointer(start: nil, count: 0)),
                        leftAtWallMilliseconds: 0,
                        token: token,
                        environment: .production,
                        registeredAtWallMilliseconds: harness.nowMilliseconds + aheadMilliseconds,
                        allowsFrequentUpdates: false,
                        shownVersion: nil
                    )
                    harness.core.receiveMembershipChange(incoming, now: harness.moment)
                }
            }
        }
    }

    /// A registration that is an hour ahead of the clock does not show that the token was registered after its death.
    @Test(arguments: [(0, true), (1_000, true), (3_600_000, false)] as [(Int64, Bool)])
    func `A joiner with a dead token stays only if a credible registration is as late`(
        aheadMilliseconds: Int64,
        isRetried: Bool
    ) throws {
        let harness = RoundHarness()
        harness.admit(1, timestamp: RoundHarness.startSeconds)
        registerJoiner(in: harness, aheadMilliseconds: aheadMilliseconds)
        let diedAtMilliseconds = harness.nowMilliseconds
        harness.performPendingWork()
        #expect(harness.send().count == 1)
        try refuseLastPush(in: harness, diedAtMilliseconds: diedAtMilliseconds)
        #expect(harness.core.membershipChangeCount == (isRetried ? 1 : 0))
        #expect(takeOutgoingRecords(in: harness).isEmpty == isRetried)
    }

    /// Some servers register stored tokens again, with the current time. Other failures of the push do not count: the
    /// new member then still gets the newest state when APNs accepts it.
    @Test(arguments: [0, 30]) func `A joiner whose token stays dead is given up after 12 refusals`(
        otherFailureCount: Int
    ) throws {
        let harness = RoundHarness()
        harness.admit(1, timestamp: RoundHarness.startSeconds)
        registerJoiner(in: harness, aheadMilliseconds: 0)
        let diedAtMilliseconds = harness.nowMilliseconds
        harness.performPendingWork()
        for _ in 0..<otherFailureCount {
            #expect(harness.send().count == 1)
            harness.respondToPushes(.retryLater)
            harness.advanceClock(milliseconds: 60_000)
        }
        var refusalCount = 0
        while refusalCount < 100, harness.core.membershipChangeCount > 0 {
            try #require(harness.send().count == 1)
            try refuseLastPush(in: harness, diedAtMilliseconds: diedAtMilliseconds)
            refusalCount += 1
            #expect(takeOutgoingRecords(in: harness).isEmpty, "the member stays in the audience")
            harness.advanceClock(milliseconds: 60_000)
        }
        #expect(refusalCount == 12)
    }

    /// APNs says that the token of the newest push has been dead since this time.
    private func refuseLastPush(in harness: RoundHarness, diedAtMilliseconds: Int64) throws {
        let push = try #require(harness.pushesInFlight.last?.push)
        harness.core.handlePushResponse(
            tag: push.tag,
            PushResult(
                disposition: .tokenDead,
                status: 410,
                reason: UnsafeRawBufferPointer(start: nil, count: 0),
                advice: "",
                invalidAtWallMilliseconds: diedAtMilliseconds,
                sentAtWallMilliseconds: harness.nowMilliseconds,
                responseAtWallMilliseconds: harness.nowMilliseconds
            ),
            now: harness.moment
        )
    }
}
