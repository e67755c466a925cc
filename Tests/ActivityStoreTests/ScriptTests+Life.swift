import LiveActivity
import RedisTestbed
import Testing

@testable import ActivityStore

/// When the eight hours begin in which Redis admits updates, if Redis has not allowed a push that starts the activity.
extension ScriptTests {
    private static let lifeTestSeconds: Int64 = 1_760_000_400
    private static let eightHoursMilliseconds: Int64 = 28_800_000

    /// Returns the time this many seconds before the tests begin.
    private func makeTime(_ ageSeconds: Int64) -> Int64 { (Self.lifeTestSeconds - ageSeconds) * 1_000 }

    /// Returns the registration of a token that was registered at this time, and is read again.
    private func makeRereadRegistration(_ text: String, ageSeconds: Int64) -> Operation {
        .register(
            token(text, at: makeTime(ageSeconds)),
            allowsFrequentUpdates: nil,
            shownVersion: nil,
            source: .readAgain(at: makeTime(ageSeconds)),
            audiences: nil
        )
    }

    private func makeLifeComparison() throws -> ScriptComparison {
        try ScriptComparison(nowMilliseconds: Self.lifeTestSeconds * 1_000)
    }

    /// Stores what a former release stored for a command that found no token: the end of eight hours from this command.
    private func beginLifeAsFormerRelease(_ comparison: ScriptComparison) {
        let script = "redis.call('SETRANGE', KEYS[1], '0', struct.pack('<I4', ARGV[1]))"
        let updatesUntilSeconds = Self.lifeTestSeconds + Self.eightHoursMilliseconds / 1_000
        comparison.server.command("EVAL", script, "1", comparison.key.text, String(updatesUntilSeconds))
        let pace = ActivityPace(beganAtMilliseconds: Self.lifeTestSeconds * 1_000)
        comparison.model.activities[comparison.key.text]?.pace = pace
    }

    /// The user starts the activity eight hours after the first command. A token comes by a registration, or with a
    /// command.
    @Test(arguments: [false, true], [false, true])
    func `The eight hours begin with the first token, not with a command that finds none`(
        comesWithCommand: Bool,
        isFromFormerRelease: Bool
    ) throws {
        let comparison = try makeLifeComparison()
        #expect(comparison.verdict(command(.update, 100)) == .noToken)
        if isFromFormerRelease { beginLifeAsFormerRelease(comparison) }
        comparison.advanceClock(Self.eightHoursMilliseconds + 1_000)
        #expect(comparison.verdict(command(.update, 101)) == .noToken)
        if comesWithCommand {
            #expect(comparison.verdict(command(.update, 102, token: token("aa"))) == .send)
        } else {
            #expect(comparison.verdict(makeRegistration("aa")) == .registered)
            #expect(comparison.verdict(command(.update, 102)) == .send)
        }
        comparison.advanceClock(Self.eightHoursMilliseconds)
        #expect(comparison.verdict(command(.update, 103)) == .send)
        comparison.advanceClock(1_000)
        #expect(comparison.verdict(command(.update, 104)) == .activityOver)
        #expect(comparison.verdict(command(.end, 105)) == .send)
    }

    @Test func `Without a token no life has begun`() throws {
        let comparison = try makeLifeComparison()
        func inspectActivity() throws -> ActivityInspection {
            try ActivityInspection(value: comparison.server.value(comparison.key.text))
        }
        #expect(comparison.verdict(command(.update, 100)) == .noToken)
        #expect(try inspectActivity().updatesUntilMilliseconds == nil)
        beginLifeAsFormerRelease(comparison)
        #expect(try inspectActivity().updatesUntilMilliseconds == nil)
        #expect(comparison.verdict(makeRegistration("aa")) == .registered)
        #expect(try inspectActivity().updatesUntilMilliseconds != nil)
    }

    /// The time of the unregistration says that the activity may have had a token.
    @Test func `The beginning that a former release stored counts, if the activity was unregistered`() throws {
        let comparison = try makeLifeComparison()
        #expect(comparison.verdict(command(.update, 100)) == .noToken)
        beginLifeAsFormerRelease(comparison)
        #expect(comparison.verdict(.unregister(atMilliseconds: 50)) == .unregistered)
        comparison.advanceClock(Self.eightHoursMilliseconds + 1_000)
        #expect(comparison.verdict(command(.update, 101)) == .activityOver)
    }

    /// Redis was emptied. Two times do not count: one in the future, and one longer ago than Redis keeps an activity.
    /// (R25)
    @Test(arguments: [28_801, 28_800, -60, 90_001] as [Int64], [false, true])
    func `With a token that is read again, the eight hours begin when its record was written`(
        ageSeconds: Int64,
        isKnown: Bool
    ) throws {
        let expectedVerdict: StoreVerdict = ageSeconds == 28_801 ? .activityOver : .send
        let writtenAtMilliseconds = (Self.lifeTestSeconds - ageSeconds) * 1_000
        let registration = Operation.register(
            token("aa", at: 50),
            allowsFrequentUpdates: nil,
            shownVersion: nil,
            source: .readAgain(at: writtenAtMilliseconds),
            audiences: nil
        )
        let comparison = try makeLifeComparison()
        if isKnown { #expect(comparison.verdict(command(.update, 90)) == .noToken) }
        #expect(comparison.verdict(registration) == .registered)
        #expect(comparison.verdict(command(.update, 101)) == expectedVerdict)

        let update = Operation.command(
            event: .update,
            version: version(101),
            digest: 1,
            pace: .spaced(0),
            options: AdmissionOptions(
                requestsHighPriority: false,
                mayUseReserve: false,
                hasAlert: false,
                isReread: true
            ),
            registration: token("aa", at: writtenAtMilliseconds)
        )
        let otherComparison = try makeLifeComparison()
        if isKnown { #expect(otherComparison.verdict(command(.update, 90)) == .noToken) }
        #expect(otherComparison.verdict(update) == expectedVerdict)
    }

    /// Redis was emptied. Shortly before the eight hours of the activity's first life were over, the producer had
    /// started the activity again with the same id.
    @Test(arguments: [false, true], [false, true])
    func `After a loss, a later life that is read again has its own eight hours`(
        isStartFirst: Bool,
        isUnregistered: Bool
    ) throws {
        let startVersion = version(Self.lifeTestSeconds - 2_400)
        let comparison = try makeLifeComparison()
        if isStartFirst { #expect(comparison.verdict(.recordStart(version: startVersion)) == .settled) }
        #expect(comparison.verdict(makeRereadRegistration("aa", ageSeconds: 30_600)) == .registered)
        if isUnregistered {
            #expect(comparison.verdict(.unregister(atMilliseconds: makeTime(2_500))) == .unregistered)
        }
        #expect(comparison.verdict(makeRereadRegistration("bb", ageSeconds: 2_395)) == .registered)
        if !isStartFirst { #expect(comparison.verdict(.recordStart(version: startVersion)) == .settled) }
        #expect(comparison.verdict(command(.update, Self.lifeTestSeconds - 1)) == .send)
        comparison.advanceClock(Self.eightHoursMilliseconds - 2_394_000)
        #expect(comparison.verdict(command(.update, Self.lifeTestSeconds)) == .activityOver)
    }

    /// If the token is known before the start, only the start shows that a later life has begun. If no life has begun,
    /// it also begins at the start's timestamp.
    @Test(
        arguments: [
            (ageSeconds: 2_400, verdict: .send), (28_801, .activityOver), (-60, .send),
        ] as [(ageSeconds: Int64, verdict: StoreVerdict)],
        [false, true]
    )
    func `The eight hours of a start that is read again begin at its timestamp`(
        start: (ageSeconds: Int64, verdict: StoreVerdict),
        isTokenFirst: Bool
    ) throws {
        let registration = makeRereadRegistration("aa", ageSeconds: 30_600)
        let recordedStart = Operation.recordStart(version: version(Self.lifeTestSeconds - start.ageSeconds))
        let comparison = try makeLifeComparison()
        if isTokenFirst { #expect(comparison.verdict(registration) == .registered) }
        #expect(comparison.verdict(recordedStart) == .settled)
        if !isTokenFirst { #expect(comparison.verdict(registration) == .registered) }
        #expect(comparison.verdict(command(.update, Self.lifeTestSeconds + 100)) == start.verdict)
    }

    /// The registrations of both tokens are read again. The start of the later life is not, because it is too old.
    @Test(arguments: [false, true])
    func `Another token that is read again may begin a later life`(comesWithCommand: Bool) throws {
        let comparison = try makeLifeComparison()
        #expect(comparison.verdict(makeRereadRegistration("aa", ageSeconds: 30_600)) == .registered)
        #expect(comparison.verdict(makeRereadRegistration("aa", ageSeconds: 2_400)) == .registered)
        #expect(comparison.verdict(command(.update, 101)) == .activityOver, "the same token is of the same life")
        guard comesWithCommand else {
            #expect(comparison.verdict(makeRereadRegistration("bb", ageSeconds: 2_395)) == .registered)
            #expect(comparison.verdict(command(.update, 102)) == .send)
            return
        }
        let update = Operation.command(
            event: .update,
            version: version(102),
            digest: 1,
            pace: .spaced(0),
            options: AdmissionOptions(
                requestsHighPriority: false,
                mayUseReserve: false,
                hasAlert: false,
                isReread: true
            ),
            registration: token("bb", at: makeTime(2_395))
        )
        #expect(comparison.verdict(update) == .send)
    }

    /// A phone's clock may be hours behind. The activity still gets its updates.
    @Test func `A registration that is not read again begins the eight hours, whatever its time is`() throws {
        let comparison = try makeLifeComparison()
        let registeredAtMilliseconds = Self.lifeTestSeconds * 1_000 - Self.eightHoursMilliseconds - 1_000
        #expect(comparison.verdict(makeRegistration("aa", at: registeredAtMilliseconds)) == .registered)
        #expect(comparison.verdict(command(.update, 101)) == .send)
    }
}
