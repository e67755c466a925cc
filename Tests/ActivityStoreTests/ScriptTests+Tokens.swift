import LiveActivity
import RedisTestbed
import Testing

@testable import ActivityStore

/// Tokens that commands bring, tokens that APNs has reported as dead, and tokens that an emptied Redis learns again.
extension ScriptTests {
    private func makeUpdate(_ timestamp: Int64, bringing token: OwnedToken) -> Operation {
        command(.update, timestamp, digest: UInt64(timestamp), token: token)
    }

    private func makeRetirement(_ text: String, _ timestamp: Int64, invalidAt: Int64?) -> Operation {
        .retire(
            version: version(timestamp),
            TokenRetirement(token: Array(text.utf8), environment: .production, invalidAtMilliseconds: invalidAt)
        )
    }

    private func makeRegistration(carrying text: String, at: Int64) -> Operation {
        .register(token(text, at: at), allowsFrequentUpdates: nil, shownVersion: nil, source: .command, audiences: nil)
    }

    @Test func `A token that comes again counts from its first time`() throws {
        let comparison = try ScriptComparison()
        #expect(
            comparison.perform(makeUpdate(100, bringing: token("aa", at: 1_000))).registration == token("aa", at: 1_000)
        )
        #expect(
            comparison.perform(makeUpdate(101, bringing: token("aa", at: 2_000))).registration == token("aa", at: 1_000)
        )
        #expect(comparison.verdict(makeRegistration(carrying: "aa", at: 3_000)) == .registered)
        #expect(
            comparison.settleRetiresToken(makeRetirement("aa", 101, invalidAt: 1_500)),
            "the token does not outlive its 410"
        )
    }

    @Test func `A dead token that comes again stays dead, and its next registration counts`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeUpdate(100, bringing: token("aa", at: 1_000))) == .send)
        #expect(comparison.settleRetiresToken(makeRetirement("aa", 100, invalidAt: 1_500)))
        #expect(comparison.verdict(makeUpdate(101, bringing: token("aa", at: 2_000))) == .noToken)
        #expect(comparison.verdict(makeRegistration(carrying: "aa", at: 2_500)) == .stale)
        // A command brings another token, which is valid. After this, a command with the dead token does not replace
        // the valid token.
        #expect(
            comparison.perform(makeUpdate(102, bringing: token("bb", at: 3_000))).registration == token("bb", at: 3_000)
        )
        #expect(
            comparison.perform(makeUpdate(103, bringing: token("aa", at: 4_000))).registration == token("bb", at: 3_000)
        )
        #expect(comparison.verdict(makeRegistration(carrying: "aa", at: 4_500)) == .stale)
        #expect(comparison.verdict(makeRegistration("aa", at: 5_000)) == .registered)
        #expect(
            comparison.perform(makeUpdate(104, bringing: token("aa", at: 6_000))).registration == token("aa", at: 5_000)
        )
    }

    /// Redis was emptied, so it has lost the timestamps that it had raised. (R25)
    @Test func `After a registration is read again, the next timestamp is later than the present second`() throws {
        let presentSeconds: Int64 = 1_700_000_000
        let comparison = try ScriptComparison(nowMilliseconds: presentSeconds * 1_000)
        let repeatedRegistration = Operation.register(
            token("aa", at: 50),
            allowsFrequentUpdates: nil,
            shownVersion: nil,
            source: .readAgain(at: 50),
            audiences: nil
        )
        #expect(comparison.verdict(repeatedRegistration) == .registered)
        #expect(comparison.perform(command(.update, 100, digest: 1)).timestamp == presentSeconds + 1)
        // If the registration is read again later, the next timestamp is again above the present second.
        comparison.advanceClock(10_000)
        #expect(comparison.verdict(repeatedRegistration) == .registered)
        #expect(comparison.perform(command(.update, presentSeconds + 5, digest: 2)).timestamp == presentSeconds + 11)
    }

    /// Redis was emptied, and the app sends no registrations. So Redis learns the token again from a command that is
    /// read again, and raises the command's timestamp. (R25)
    ///
    /// - Parameter isHeldBefore: whether Redis had held the command before, because it had no token.
    @Test(arguments: [false, true])
    func `After a command is read again with its token, the timestamp is later, too`(isHeldBefore: Bool) throws {
        let presentSeconds: Int64 = 1_700_000_000
        let comparison = try ScriptComparison(nowMilliseconds: presentSeconds * 1_000)
        if isHeldBefore {
            #expect(comparison.verdict(command(.update, 100, digest: 1)) == .noToken)
            #expect(comparison.verdict(.hold(version: version(100), command: [1], hasAlert: false)) == .held)
        }
        #expect(comparison.perform(makeRereadUpdate(100)).timestamp == presentSeconds + 1)
        // The reply to the command was lost, so the command is repeated.
        #expect(comparison.perform(makeRereadUpdate(100)).timestamp == presentSeconds + 1)
        comparison.settle(acceptedSettlement(100))
        #expect(comparison.perform(command(.update, 101, digest: 3)).timestamp == presentSeconds + 2)
        // Redis still has a token, so it has not lost the activity's sent timestamps. It does not raise this command's
        // timestamp to the present second.
        comparison.advanceClock(10_000)
        let rereadUpdate = makeRereadUpdate(presentSeconds + 5, bringing: "bb")
        #expect(comparison.perform(rereadUpdate).timestamp == presentSeconds + 5)
    }

    /// The command is superseded, but its token is the first that the emptied Redis learns.
    @Test func `A superseded command that is read again with its token raises the next timestamp`()
        throws
    {
        let presentSeconds: Int64 = 1_700_000_000
        let comparison = try ScriptComparison(nowMilliseconds: presentSeconds * 1_000)
        #expect(comparison.verdict(command(.update, 200, digest: 1)) == .noToken)
        #expect(comparison.verdict(makeRereadUpdate(100)) == .superseded)
        #expect(comparison.perform(command(.update, 200, digest: 1)).timestamp == presentSeconds + 1)
        #expect(comparison.perform(command(.update, 201, digest: 2)).timestamp == presentSeconds + 2)
    }

    private func makeRereadUpdate(_ timestamp: Int64, bringing digits: String = "aa") -> ActivityStoreTests.Operation {
        .command(
            event: .update,
            version: version(timestamp),
            digest: 2,
            pace: .spaced(0),
            options: AdmissionOptions(
                requestsHighPriority: false,
                mayUseReserve: false,
                hasAlert: false,
                isReread: true
            ),
            registration: token(digits, at: timestamp * 1_000)
        )
    }

    /// Redis was emptied. Then a command came before the registration was read again, so Redis held the
    /// command.
    @Test func `A command held before a registration is read again gets a later timestamp, too`() throws {
        let presentSeconds: Int64 = 1_700_000_000
        let comparison = try ScriptComparison(nowMilliseconds: presentSeconds * 1_000)
        #expect(comparison.verdict(command(.update, 100, digest: 1)) == .noToken)
        #expect(comparison.verdict(.hold(version: version(100), command: [1], hasAlert: false)) == .held)
        let repeatedRegistration = Operation.register(
            token("aa", at: 50),
            allowsFrequentUpdates: nil,
            shownVersion: nil,
            source: .readAgain(at: 50),
            audiences: nil
        )
        #expect(comparison.perform(repeatedRegistration).heldCommand == [1])
        #expect(comparison.perform(command(.update, 100, digest: 1)).timestamp == presentSeconds + 1)
    }

    @Test func `The same digits in another environment are another token`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeUpdate(100, bringing: token("aa", at: 1_000))) == .send)
        #expect(comparison.settleRetiresToken(makeRetirement("aa", 100, invalidAt: nil)))
        let sandbox = OwnedToken(token: Array("aa".utf8), environment: .sandbox, registeredAtMilliseconds: 2_000)
        #expect(comparison.perform(makeUpdate(101, bringing: sandbox)).registration == sandbox)
    }

    @Test func `A command refused by a dead token is held, and the next token brings it back`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeRegistration("aa", at: 1_000)) == .registered)
        #expect(comparison.verdict(command(.end, 100)) == .send)
        #expect(!comparison.settleRetiresToken(makeRetirement("bb", 100, invalidAt: nil)), "another token counts")
        #expect(comparison.verdict(.hold(attributesType: nil, version: version(100), command: [1])) == .retry)
        #expect(comparison.settleRetiresToken(makeRetirement("aa", 100, invalidAt: 2_000)))
        #expect(comparison.verdict(.hold(attributesType: nil, version: version(100), command: [1])) == .held)
        #expect(comparison.verdict(command(.update, 101)) == .ended)
        let registrationReply = comparison.perform(makeRegistration("bb", at: 3_000))
        #expect(registrationReply.heldCommand == [1])
        #expect(comparison.perform(command(.end, 100)).registration == token("bb", at: 3_000))
        comparison.settle(acceptedSettlement(100))
        #expect(comparison.verdict(command(.end, 100)) == .duplicate)
    }

    /// The activity's value has all parts that the name of this test lists.
    @Test func `A dead token's fingerprint is stored together with a start, a 429 and a held command`() throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(start(100)) == .send)
        comparison.settle(acceptedSettlement(100))
        #expect(comparison.verdict(makeRegistration("aa", at: 1_000)) == .registered)
        #expect(comparison.verdict(command(.update, 101, digest: 2)) == .send)
        comparison.settle(.throttle(version: version(101), pace: .spaced(0)))
        #expect(comparison.settleRetiresToken(makeRetirement("aa", 101, invalidAt: 2_000)))
        #expect(comparison.verdict(.hold(attributesType: nil, version: version(101), command: [7])) == .held)
        #expect(comparison.verdict(makeUpdate(101, bringing: token("aa", at: 3_000))) == .held)
        let inspection = try ActivityInspection(value: comparison.server.value(comparison.key.text))
        #expect(inspection.token == nil && inspection.heldCommand?.command == [7])
        #expect(comparison.perform(makeRegistration("bbbb", at: 4_000)).heldCommand == [7])
        #expect(
            comparison.perform(makeUpdate(102, bringing: token("aa", at: 5_000))).registration
                == token("bbbb", at: 4_000)
        )
    }

    /// Former releases stored the times of clocks that are ahead.
    @Test func `After a registration whose time is a day ahead, later registrations and tombstones count`() throws {
        let presentMilliseconds: Int64 = 1_700_000_000_000
        let aheadMilliseconds = presentMilliseconds + 86_400_000
        let comparison = try ScriptComparison(nowMilliseconds: presentMilliseconds)
        #expect(comparison.verdict(makeRegistration("aa", at: aheadMilliseconds)) == .registered)
        #expect(comparison.verdict(makeRegistration("aa", at: aheadMilliseconds)) == .registered)
        #expect(comparison.verdict(makeRegistration("cc", at: aheadMilliseconds - 1)) == .stale, "both are ahead")
        let laterRegistration = Operation.register(
            attributesType: nil,
            registration: token("bb", at: presentMilliseconds),
            shownVersion: nil,
            audiences: [1, 0, 0, 0, 0, 0, 0, 0]
        )
        #expect(comparison.verdict(laterRegistration) == .registered)
        #expect(comparison.verdict(laterRegistration) == .registered)
        #expect(comparison.verdict(makeRegistration("aa", at: presentMilliseconds - 1)) == .stale)
        #expect(comparison.perform(command(.update, 100)).registration == token("bb", at: presentMilliseconds))
        #expect(comparison.verdict(makeRegistration("aa", at: aheadMilliseconds)) == .registered)
        comparison.settle(.confirmDepartures(atMilliseconds: aheadMilliseconds))
        #expect(comparison.verdict(.unregister(atMilliseconds: presentMilliseconds)) == .unregistered)
        #expect(comparison.verdict(makeRegistration("aa", at: presentMilliseconds - 1)) == .stale)
    }

    /// The token's retirement raises the stored time, which stays ahead.
    @Test func `A dead token whose time is a day ahead is retired, and the next token counts`() throws {
        let presentMilliseconds: Int64 = 1_700_000_000_000
        let comparison = try ScriptComparison(nowMilliseconds: presentMilliseconds)
        #expect(comparison.verdict(makeRegistration("aa", at: presentMilliseconds + 86_400_000)) == .registered)
        #expect(comparison.settleRetiresToken(makeRetirement("aa", 100, invalidAt: presentMilliseconds)))
        let newToken = token("bb", at: presentMilliseconds)
        #expect(comparison.perform(makeUpdate(100, bringing: newToken)).registration == newToken)
    }

    /// The limit of ten minutes is twice the lead that a worker allows, because the clocks of Kafka and Redis differ.
    @Test func `A time that is ten minutes ahead still counts`() throws {
        let presentMilliseconds: Int64 = 1_700_000_000_000
        let comparison = try ScriptComparison(nowMilliseconds: presentMilliseconds)
        #expect(comparison.verdict(makeRegistration("aa", at: presentMilliseconds + 600_000)) == .registered)
        #expect(comparison.verdict(makeRegistration("bb", at: presentMilliseconds)) == .stale)
        #expect(comparison.verdict(makeRegistration("aa", at: presentMilliseconds + 600_001)) == .registered)
        #expect(comparison.verdict(makeRegistration("bb", at: presentMilliseconds)) == .registered)
    }

    @Test func `A push-to-start token that a start brings again does not outlive its 410`() throws {
        let comparison = try ScriptComparison(.device("phone"))
        func makeTokenLookup(_ text: String, at: Int64) -> Operation {
            .takeStartToken(attributesType: "T", registration: token(text, at: at))
        }
        #expect(comparison.perform(makeTokenLookup("aa", at: 1_000)).registration == token("aa", at: 1_000))
        #expect(comparison.perform(makeTokenLookup("aa", at: 2_000)).registration == token("aa", at: 1_000))
        let deadTokenRetirement = TokenRetirement(
            token: Array("aa".utf8),
            environment: .production,
            invalidAtMilliseconds: 1_500
        )
        #expect(
            comparison.settleRetiresToken(
                .settlement(
                    attributesType: "T",
                    version: version(100),
                    outcome: .notShown,
                    digest: 0,
                    retirement: deadTokenRetirement
                )
            )
        )
        #expect(comparison.verdict(makeTokenLookup("aa", at: 3_000)) == .noToken)
        let repeatedRegistration = Operation.register(
            attributesType: "T",
            registration: token("aa", at: 3_500),
            shownVersion: nil,
            source: .command
        )
        #expect(comparison.verdict(repeatedRegistration) == .stale)
        #expect(comparison.perform(makeTokenLookup("bb", at: 4_000)).registration == token("bb", at: 4_000))
        #expect(comparison.perform(makeTokenLookup("aa", at: 5_000)).registration == token("bb", at: 4_000))
        let laterRegistration = Operation.register(
            attributesType: "T",
            registration: token("aa", at: 6_000),
            shownVersion: nil
        )
        #expect(comparison.verdict(laterRegistration) == .registered)
        #expect(comparison.perform(makeTokenLookup("aa", at: 7_000)).registration == token("aa", at: 6_000))
    }
}
