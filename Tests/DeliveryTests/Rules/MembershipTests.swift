import LiveActivity
import Testing

@testable import Delivery

/// A change of memberships has up to four steps (R27). The store decides which audiences the member joins and leaves.
/// The core notifies these audiences. If the member has left audiences, the store learns that they are notified. Then
/// the record settles, or its command continues.
@Suite struct MembershipTests {
    private typealias Change = CoreHarness.SeenMembershipChange

    private static let changedAtMilliseconds = CoreHarness.startSeconds * 1_000
    private static func digest(_ name: String) -> AudienceDigest { CoreHarness.digest(name) }
    private static func departures(_ audience: String = "m") -> [UInt8] {
        CoreHarness.departures(audience, at: changedAtMilliseconds)
    }

    private func joinChange(_ audiences: String...) -> Change {
        Change(
            member: "a",
            kind: .activity,
            joinedAudiences: audiences.map(Self.digest),
            leftAudiences: [],
            leftAtWallMilliseconds: 0
        )
    }

    private func departureChange(
        _ audience: String = "m",
        of member: String = "a",
        _ kind: StoreSubjectKind = .activity
    )
        -> Change
    {
        Change(
            member: member,
            kind: kind,
            joinedAudiences: [],
            leftAudiences: [Self.digest(audience)],
            leftAtWallMilliseconds: Self.changedAtMilliseconds
        )
    }

    // MARK: - Registrations

    @Test func `A registration is settled when its audiences are notified`() throws {
        let core = CoreHarness()
        core.register(CommandText.registration(in: ["m", "n", "m"]))
        let namedAudiences = try #require(try core.oldestCall.namedAudiences)
        #expect(namedAudiences.withUnsafeBytes { Array(AudienceList($0)) } == [Self.digest("m"), Self.digest("n")])
        core.reply(.registered)
        let (member, change) = try #require(core.takeMembershipChange())
        #expect(change == joinChange("m", "n"))
        let view = core.delivery.view(member.record)
        #expect(String(decoding: view.token, as: UTF8.self) == CoreHarness.token)
        #expect(view.allowsFrequentUpdates == false && view.registeredAtWallMilliseconds == Self.changedAtMilliseconds)
        #expect(core.committableOffset(core.registrationsPartition) == 0)
        core.delivery.handleNotifiedAudiences(member, now: core.now)
        #expect(core.committableOffset(core.registrationsPartition) == 1)
        #expect(core.inProgressRecordCount == 0 && core.outstandingCalls.isEmpty)
    }

    @Test func `A registration without audiences notifies no audience`() throws {
        let core = CoreHarness()
        core.register(CommandText.registration())
        #expect(try core.oldestCall.namedAudiences == [])
        core.reply(.registered)
        #expect(core.notifyAudiences() == nil)
        #expect(core.inProgressRecordCount == 0)
    }

    /// The released command u5 replaces u4, and takes over the token that u4 brought. Another worker has admitted a
    /// newer state than u5. So u5 only registers the token.
    @Test func `A released command registers a token without audiences`() throws {
        let core = CoreHarness()
        core.receive(.update(3))
        core.register(CommandText.registration())
        core.receive(.update(4, beside: #""token":"\#(CoreHarness.token)","environment":"production","#))
        core.reply(.registered, held: .alert(5, beside: #""policy":"sports","#), toNewest: true)
        core.admitAndRespond()
        core.acknowledgeAll()
        core.elapseSpacing()
        #expect(core.outstandingCalls == ["admit u5"])
        core.reply(.alertAwaitsCarrier)
        #expect(core.outstandingCalls == ["registerToken u5"])
        #expect(try core.oldestCall.namedAudiences == nil)
    }

    @Test func `A held command continues when the audiences of its registration are notified`() throws {
        let core = CoreHarness()
        core.register(CommandText.registration(in: ["m"]))
        core.reply(.registered, held: .update(1))
        #expect(core.outstandingCalls.isEmpty)
        #expect(core.notifyAudiences() == joinChange("m"))
        #expect(core.outstandingCalls == ["registerToken a"])
        #expect(try core.oldestCall.namedAudiences == nil)
        core.reply(.registered, held: .update(1))
        #expect(core.notifyAudiences() == nil)
        core.admitAndRespond()
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 accepted"])
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `A member leaves audiences that its registration no longer names, and the core confirms it`() throws {
        let core = CoreHarness()
        core.register(CommandText.registration(in: ["n"]))
        core.reply(.registered, departures: Self.departures())
        var change = departureChange()
        change.joinedAudiences = [Self.digest("n")]
        #expect(core.notifyAudiences() == change)
        #expect(core.settlements == ["a left at \(Self.changedAtMilliseconds)"])
        #expect(core.committableOffset(core.registrationsPartition) == 0)
        core.acknowledgeSettlement()
        core.reply(.registered)
        #expect(core.committableOffset(core.registrationsPartition) == 1)
    }

    @Test func `A stale registration joins no audience`() {
        let core = CoreHarness()
        core.register(CommandText.registration(in: ["n"]))
        core.reply(.stale, departures: Self.departures())
        #expect(core.notifyAudiences() == departureChange())
        core.acknowledgeSettlement()
        #expect(core.inProgressRecordCount == 0 && core.outstandingCalls.isEmpty)
        core.register(CommandText.registration(in: ["n"]))
        core.reply(.stale)
        #expect(core.notifyAudiences() == nil)
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `If the confirmation of departures gets no reply, the core repeats it`() {
        let core = CoreHarness()
        core.register(CommandText.registration())
        core.reply(.registered, departures: Self.departures())
        core.notifyAudiences()
        core.loseRedis()
        #expect(core.settlements.count == 2)
        core.acknowledgeSettlement()
        core.reply(.registered)
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `A registration waits while too many departures are not confirmed`() {
        let core = CoreHarness()
        core.register(CommandText.registration(in: ["m"]))
        core.reply(.full)
        #expect(core.outstandingCalls.isEmpty)
        core.elapse(1_000)
        core.reply(.registered)
        #expect(core.notifyAudiences() == joinChange("m"))
        #expect(core.inProgressRecordCount == 0 && core.recordsAwaitingStoreCount == 0)
    }

    /// Perhaps nobody else notifies these audiences: a push to an audience found the activity's token dead, and then
    /// the activity left its audiences.
    @Test func `A registration that finds no room notifies the audiences that its member left before`() {
        let core = CoreHarness()
        core.register(CommandText.registration(in: ["n"]))
        core.reply(.full, departures: Self.departures())
        #expect(core.outstandingCalls.isEmpty && core.recordsAwaitingStoreCount == 0)
        #expect(core.notifyAudiences() == departureChange())
        core.acknowledgeSettlement()
        #expect(core.outstandingCalls == ["registerToken a"])
        core.reply(.registered)
        #expect(core.notifyAudiences() == joinChange("n"))
        #expect(core.committableOffset(core.registrationsPartition) == 1)
        #expect(core.inProgressRecordCount == 0 && core.recordsAwaitingStoreCount == 0)
    }

    @Test func `A token that came with a command does not change the audiences`() throws {
        let core = CoreHarness()
        core.receive(.update(1, beside: #""token":"\#(CoreHarness.token)","environment":"production","#))
        core.reply(.superseded)
        core.acknowledgeOutgoingRecords()
        #expect(core.outstandingCalls == ["registerToken a"])
        #expect(try core.oldestCall.namedAudiences == nil)
    }

    @Test func `A revoked registration is dropped with the command that it releases`() {
        let core = CoreHarness()
        core.register(CommandText.registration(in: ["m"]))
        core.reply(.registered, held: .update(1))
        core.beginRevoking(core.registrationsPartition)
        core.notifyAudiences()
        core.reply(.registered, held: .update(1))
        #expect(core.isDrained(core.registrationsPartition))
        #expect(core.committableOffset(core.registrationsPartition) == 0)
    }

    // MARK: - Devices

    @Test(arguments: [true, false]) func `A device says whether it accepts channels`(supportsChannels: Bool) throws {
        let core = CoreHarness()
        let registration = CommandText.deviceRegistration(in: ["m"])
            .replacing(#""device""#, with: #""channels":\#(supportsChannels),"device""#)
        core.register(registration)
        core.reply(.registered)
        let (member, _) = try #require(core.takeMembershipChange())
        #expect(core.delivery.view(member.record).supportsChannels == supportsChannels)
    }

    @Test func `A device joins, and its held start follows`() throws {
        let core = CoreHarness()
        core.register(CommandText.deviceRegistration(in: ["m"]))
        #expect(try core.oldestCall.namedAudiences?.count == 8)
        core.reply(.registered, held: .start(1))
        #expect(core.notifyAudiences()?.kind == .device)
        core.reply(.registered, held: .start(1))
        core.reply(.tokenFound, draw: 7)
        core.admitAndRespond()
        core.acknowledgeOutgoingRecords()
        core.acknowledgeSettlements()
        // After the start, the core registers the token again, because the token may release another start. This call
        // names no audiences, so the device stays in its audiences.
        #expect(core.outstandingCalls.map { $0.hasPrefix("register") } == [true])
        #expect(try core.oldestCall.namedAudiences == nil)
        core.reply(.registered)
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `A device with a dead push-to-start token leaves its audiences`() {
        let core = CoreHarness()
        core.receive(.start(1))
        core.reply(.tokenFound, draw: 7)
        core.reply(.send)
        core.push()
        core.respond(.tokenDead, status: 410)
        core.acknowledgeOutgoingRecords()
        // The first settlement is the activity's, the second one is the device's.
        core.acknowledgeSettlement()
        core.acknowledgeSettlement(departures: Self.departures())
        #expect(core.notifyAudiences() == departureChange(of: "d", .device))
        core.acknowledgeSettlement()
        #expect(core.inProgressRecordCount == 0)
    }

    // MARK: - Tombstones

    @Test func `A tombstone is settled when all audiences are notified`() {
        let core = CoreHarness()
        core.unregister(key: "a")
        core.reply(.unregistered, departures: Self.departures())
        core.reply(.unregistered, departures: Self.departures("n"))
        #expect(core.notifyAudiences() == departureChange())
        core.acknowledgeSettlement()
        #expect(core.committableOffset(core.registrationsPartition) == 0)
        #expect(core.notifyAudiences() == departureChange("n", of: "a", .device))
        core.acknowledgeSettlement()
        #expect(core.committableOffset(core.registrationsPartition) == 1)
        #expect(core.inProgressRecordCount == 0)
    }

    // MARK: - Commands

    @Test func `An activity with an accepted end leaves its audiences`() {
        let core = CoreHarness()
        core.receive(.end(1))
        core.admitAndRespond()
        core.acknowledgeSettlement(departures: Self.departures())
        core.acknowledgeOutgoingRecords()
        #expect(core.outcomes == ["e1 accepted"])
        #expect(core.committableOffset == 0)
        #expect(core.notifyAudiences() == departureChange())
        #expect(core.committableOffset == 0)
        core.acknowledgeSettlement()
        #expect(core.committableOffset == 1)
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `An activity with a dead token leaves its audiences before its command is held`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send)
        core.push()
        core.respond(.tokenDead, status: 410)
        core.acknowledgeOutgoingRecords()
        core.acknowledgeSettlement(departures: Self.departures())
        #expect(core.outstandingCalls.isEmpty)
        #expect(core.notifyAudiences() == departureChange())
        core.acknowledgeSettlement()
        #expect(core.outstandingCalls == ["hold u1"])
        core.reply(.held)
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 held"])
        #expect(core.inProgressRecordCount == 0)
    }

    /// An earlier worker made the activity leave an audience, for example by a dead token or an end, and died before it
    /// notified the audience.
    @Test func `A command is admitted only when the audiences that its activity left are notified`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.departures, departures: Self.departures())
        #expect(core.outstandingCalls.isEmpty)
        #expect(core.notifyAudiences() == departureChange())
        #expect(core.outstandingCalls.isEmpty)
        core.acknowledgeSettlement()
        #expect(core.outstandingCalls == ["admit u1"])
        core.admitAndRespond()
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 accepted"])
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `A newer state replaces one that waits until audiences are notified`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.departures, departures: Self.departures())
        core.receive(.update(2))
        core.notifyAudiences()
        core.acknowledgeSettlement()
        #expect(core.outstandingCalls == ["admit u2"])
        core.admitAndRespond()
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 superseded", "u2 accepted"])
    }

    @Test func `A reply with an invalid list of departures fails the command`() {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.departures, departures: [1, 2])
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 failed"])
    }
}
