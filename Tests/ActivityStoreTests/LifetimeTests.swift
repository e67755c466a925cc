import LiveActivity
import Numbers
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

private let hourMilliseconds: Int64 = 3_600_000
/// The UNIX time at which the tests begin.
private let startMilliseconds: Int64 = 1_790_000_000_000

/// Tests the timetable of lifetimes on a real server, and compares it with the model. (R34)
@Suite(.serialized, .ownThread) struct LifetimeTests {
    @Test func `A life begins at the time of its start, or else at the earliest reported time`() throws {
        let comparison = try ScriptComparison()
        func reportEvent(_ event: LifetimeEvent) {
            #expect(comparison.perform(.reportLifetimeEvent(event)).verdict == .settled)
        }
        func lifeContinues(_ milliseconds: Int64) -> Bool {
            comparison.perform(
                .checkLifetime(beganAtMilliseconds: milliseconds, stateVersion: nil, claimDelayMilliseconds: 0)
            )
            .verdict
                == .retry
        }
        #expect(!lifeContinues(startMilliseconds))
        reportEvent(.aliveAfter(milliseconds: 5))
        reportEvent(.aliveAfter(milliseconds: 9))
        #expect(lifeContinues(startMilliseconds + 5))
        reportEvent(.aliveAfter(milliseconds: 2))
        #expect(lifeContinues(startMilliseconds + 2))
        reportEvent(.beganAfter(milliseconds: 7))
        reportEvent(.aliveAfter(milliseconds: 0))
        reportEvent(.beganAfter(milliseconds: 6))
        #expect(lifeContinues(startMilliseconds + 7))
        reportEvent(.lifeFinished(beganAtMilliseconds: startMilliseconds + 6, restartAtMilliseconds: 0))
        #expect(lifeContinues(startMilliseconds + 7))
        reportEvent(
            .lifeFinished(
                beganAtMilliseconds: startMilliseconds + 7,
                restartAtMilliseconds: startMilliseconds + 9
            )
        )
        reportEvent(.beganAfter(milliseconds: 7))
        reportEvent(.endedOrUnlimited)
        reportEvent(.endedOrUnlimited)
        #expect(!lifeContinues(startMilliseconds + 7))
    }

    /// Compares the script's lives with the model's over random operations. (R11)
    @Test func `The script's lives are the model's`() throws {
        let comparison = try ScriptComparison()
        var random = SplitMix64(seed: 20_260)
        let keys = (0..<40).map { TestKey.activity("activity-\($0)") }
        // A check may postpone the time at which a life is due. The script computes this time from the server's clock,
        // so it differs from the model's. But with this long delay, only postponed times are beyond the limit.
        let (claimDelayMilliseconds, comparedMillisecondsMax): (Int64, Int64) = (4_000_000_000_000, 5_000_000_000_000)
        for _ in 0..<4_000 {
            let beganAt = startMilliseconds + Int64(random.below(6))
            let lifetime = Int64(random.pick([5_000, 28_200_000]))
            let otherEnd = LifetimeEvent.otherEndAdmitted(beganAtMilliseconds: beganAt)
            let keptCommand = random.below(2) == 0 ? nil : Self.randomCommandKeptForRestart(&random)
            let call: Operation =
                switch random.below(12) {
                case 0: .reportLifetimeEvent(random.below(3) > 0 ? .endedOrUnlimited : otherEnd)
                case 1, 2, 3:
                    .reportLifetimeEvent(
                        .lifeFinished(
                            beganAtMilliseconds: beganAt,
                            restartAtMilliseconds: random.pick([0, startMilliseconds + 3])
                        )
                    )
                case 4, 5:
                    .reportLifetimeEvent(
                        .began(atMilliseconds: beganAt, lifetimeMilliseconds: lifetime),
                        keeping: keptCommand
                    )
                case 6:
                    .checkLifetime(
                        beganAtMilliseconds: beganAt,
                        stateVersion: keptCommand?.version,
                        claimDelayMilliseconds: claimDelayMilliseconds
                    )
                case 7: .reportLifetimeEvent(.updatedAfterEnd, keeping: keptCommand)
                default:
                    .reportLifetimeEvent(
                        .alive(atMilliseconds: beganAt, lifetimeMilliseconds: lifetime),
                        keeping: keptCommand
                    )
                }
            comparison.perform(call, random.pick(keys))
        }
        var (lives, dueMilliseconds): ([String: String], [String: Int64]) = ([:], [:])
        var (starts, shownUpdates): ([String: [UInt8]], [String: [UInt8]]) = ([:], [:])
        for number in 0..<LifetimeKey.timetableCount {
            let key = String(decoding: LifetimeKey.timetableKey(number), as: UTF8.self)
            for (name, life) in comparison.server.hash(key + "+") {
                lives[name] = String(decoding: life, as: UTF8.self)
            }
            for (name, value) in comparison.server.hash(key + "*") {
                starts[name] = LifetimeKey.splitCommandKeptForRestart(value)?.record
            }
            for (name, value) in comparison.server.hash(key + "=") {
                shownUpdates[name] = LifetimeKey.splitCommandKeptForRestart(value)?.record
            }
            dueMilliseconds.merge(Self.readDueMilliseconds(ofTimetable: key, on: comparison.server)) { $1 }
        }
        #expect(lives == comparison.model.lives.mapValues(\.storedText))
        let comparedDueMilliseconds = dueMilliseconds.mapValues { min($0, comparedMillisecondsMax) }
        #expect(
            comparedDueMilliseconds
                == comparison.model.lives.mapValues { min($0.dueMilliseconds, comparedMillisecondsMax) }
        )
        #expect(starts == comparison.model.lives.compactMapValues(\.start?.record))
        #expect(shownUpdates == comparison.model.lives.compactMapValues(\.shownUpdate?.record))
        #expect(lives.count > 10 && lives.values.contains { $0.hasPrefix("r") })
        #expect(starts.count > 5 && shownUpdates.count > 5)
    }

    /// Returns the time at which each life is due, by the activity's key.
    static func readDueMilliseconds(ofTimetable key: String, on server: RedisServer) -> [String: Int64] {
        let namesAndScores = server.command("ZRANGE", key, "0", "-1", "WITHSCORES")
        var dueMilliseconds: [String: Int64] = [:]
        for index in stride(from: 0, to: namesAndScores.count, by: 2) {
            dueMilliseconds[namesAndScores[index]] = Int64(namesAndScores[index + 1])
        }
        return dueMilliseconds
    }

    private static func randomCommandKeptForRestart(_ random: inout SplitMix64) -> CommandKeptForRestart<[UInt8]> {
        CommandKeptForRestart(
            isStart: random.below(2) == 0,
            version: Version(
                timestamp: startMilliseconds / 1_000 + Int64(random.below(3)),
                sequence: UInt64(random.below(3))
            ),
            record: (0...random.below(40)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        )
    }

    @Test func `A start is kept until its life is over, and the end of the life makes a restart due`() throws {
        let comparison = try ScriptComparison()
        let restartAtMilliseconds = startMilliseconds + 70
        func reportEvent(_ event: LifetimeEvent, _ keptCommand: CommandKeptForRestart<[UInt8]>? = nil) {
            #expect(comparison.perform(.reportLifetimeEvent(event, keeping: keptCommand)).verdict == .settled)
        }
        func life() -> TimetableEntry? { comparison.model.lives.values.first }
        func makeCommand(isStart: Bool, second: Int64) -> CommandKeptForRestart<[UInt8]> {
            CommandKeptForRestart(
                isStart: isStart,
                version: Version(timestamp: startMilliseconds / 1_000 + second, sequence: 0),
                record: [UInt8(second)]
            )
        }
        // Redis keeps no command for an activity without a life, so this call stores nothing.
        reportEvent(.updatedAfterEnd, makeCommand(isStart: false, second: 9))
        #expect(life() == nil)
        reportEvent(.beganAfter(milliseconds: 0), makeCommand(isStart: true, second: 1))
        reportEvent(.aliveAfter(milliseconds: 1), makeCommand(isStart: false, second: 5))
        reportEvent(.aliveAfter(milliseconds: 2), makeCommand(isStart: false, second: 4))
        reportEvent(.lifeFinished(beganAtMilliseconds: startMilliseconds, restartAtMilliseconds: restartAtMilliseconds))
        #expect(life()?.kind == .restarting && life()?.dueMilliseconds == restartAtMilliseconds)
        #expect(life()?.start?.record == [1] && life()?.shownUpdate?.record == [5])
        // The call `alive` comes from a late registration, so it does not prove that the next life has begun. The call
        // `updatedAfterEnd` brings a state that came after the end of the old life: the next start shows this state.
        reportEvent(.aliveAfter(milliseconds: 80))
        reportEvent(.updatedAfterEnd, makeCommand(isStart: false, second: 7))
        #expect(
            comparison.perform(
                .checkLifetime(beganAtMilliseconds: restartAtMilliseconds, stateVersion: nil, claimDelayMilliseconds: 0)
            )
            .verdict
                == .retry
        )
        #expect(life()?.shownUpdate?.record == [7])
        // If a start lacks the newest state, a check of the start gives `superseded`. The life is then due at once, so
        // the keeper makes another start.
        func checkLifetime(_ second: Int64) -> StoreVerdict {
            let state = Version(timestamp: startMilliseconds / 1_000 + second, sequence: 0)
            return
                comparison.perform(
                    .checkLifetime(
                        beganAtMilliseconds: restartAtMilliseconds,
                        stateVersion: state,
                        claimDelayMilliseconds: 9
                    )
                )
                .verdict
        }
        #expect(checkLifetime(6) == .superseded && checkLifetime(7) == .retry)
        // The life waits for a restart. The first start has the time of this restart, so the kept commands stay. The
        // second start has another time, so it begins a life without them.
        reportEvent(.beganAfter(milliseconds: 70), makeCommand(isStart: true, second: 8))
        #expect(life()?.kind == .started && life()?.start?.record == [8] && life()?.shownUpdate?.record == [7])
        #expect(checkLifetime(7) == .retry)
        reportEvent(.beganAfter(milliseconds: 90), makeCommand(isStart: true, second: 9))
        #expect(life()?.start?.record == [9] && life()?.shownUpdate == nil)
        reportEvent(.endedOrUnlimited)
        #expect(life() == nil)
        for number in 0..<LifetimeKey.timetableCount {
            #expect(
                comparison.server.command(
                    "KEYS",
                    String(decoding: LifetimeKey.timetableKey(number), as: UTF8.self) + "*"
                )
                    == []
            )
        }
    }

    @Test func `A due life is claimed once while a claim lasts, and forgotten long after its start`() throws {
        let comparison = try ScriptComparison()
        let (due, later) = (TestKey.activity("due"), TestKey.activity("later"))
        comparison.perform(.reportLifetimeEvent(.beganAfter(milliseconds: 0, lifetimeMilliseconds: 1)), due)
        let nowMilliseconds = 9_000_000_000_000 as Int64
        comparison.perform(
            .reportLifetimeEvent(.began(atMilliseconds: nowMilliseconds, lifetimeMilliseconds: hourMilliseconds)),
            later
        )
        let shared = try SharedRedisData(configuration: RedisConfiguration(url: RedisURL(comparison.server.unixURL)))
        func claim(firstClaimDurationMilliseconds: Int64, ageMillisecondsMax: Int64 = .max) throws -> [String] {
            try (0..<LifetimeKey.timetableCount)
                .flatMap { number in
                    try shared.claimDue(
                        LifetimeKey.timetableKey(number),
                        firstClaimDurationMilliseconds: firstClaimDurationMilliseconds,
                        ageMillisecondsMax: ageMillisecondsMax
                    )
                }
                .map { "\(String(decoding: $0.name, as: UTF8.self)) \($0.entryText)" }
        }
        #expect(try claim(firstClaimDurationMilliseconds: 0) == ["\(due.text) b \(startMilliseconds) 1"])
        #expect(
            comparison.perform(
                .checkLifetime(beganAtMilliseconds: startMilliseconds, stateVersion: nil, claimDelayMilliseconds: 0),
                due
            )
            .verdict
                == .retry
        )
        #expect(try claim(firstClaimDurationMilliseconds: 60_000) == ["\(due.text) b \(startMilliseconds) 2"])
        #expect(try claim(firstClaimDurationMilliseconds: 60_000) == [])
        comparison.perform(.reportLifetimeEvent(.endedOrUnlimited), due)
        comparison.perform(.reportLifetimeEvent(.beganAfter(milliseconds: 1, lifetimeMilliseconds: 1)), due)
        #expect(try claim(firstClaimDurationMilliseconds: 0) == ["\(due.text) b \(startMilliseconds + 1) 1"])
        #expect(try claim(firstClaimDurationMilliseconds: 0, ageMillisecondsMax: hourMilliseconds) == [])
        let names = (0..<LifetimeKey.timetableCount)
            .flatMap { comparison.server.hash(String(decoding: LifetimeKey.livesKey($0), as: UTF8.self)).keys }
        #expect(names == [later.text])
    }

    @Test func `A page has the due lives from a rank on`() throws {
        let comparison = try ScriptComparison()
        let shared = try SharedRedisData(configuration: RedisConfiguration(url: RedisURL(comparison.server.unixURL)))
        let arguments = (1...5).flatMap { ["\($0)", "n\($0)"] } + ["9000000000000", "later"]
        _ = comparison.server.command(bytes: (["ZADD", "timetable"] + arguments).map { Array($0.utf8) })
        func readPage(_ rank: Int, _ limit: Int) throws -> [String] {
            let page = try shared.readDueEntries(Array("timetable".utf8), from: rank, entriesMax: limit)
            #expect(page.timetableEntryCount == 6)
            return page.entries.map { "\(String(decoding: $0.name, as: UTF8.self)) \($0.dueWallMilliseconds)" }
        }
        #expect(try readPage(0, 2) == ["n1 1", "n2 2"])
        #expect(try readPage(3, 9) == ["n4 4", "n5 5"])
        #expect(try readPage(5, 9) == [] && readPage(7, 9) == [])
    }

    @Test func `A claimed life is forgotten only if nothing is newly known about it`() throws {
        let comparison = try ScriptComparison()
        let shared = try SharedRedisData(configuration: RedisConfiguration(url: RedisURL(comparison.server.unixURL)))
        let key = TestKey.activity("a")
        let timetable = LifetimeKey.timetableKey(Array(key.text.utf8).withUnsafeBytes(LifetimeKey.timetableNumber))
        let start = Self.makeCommandKeptForRestart(isStart: true)
        comparison.perform(
            .reportLifetimeEvent(.beganAfter(milliseconds: 0, lifetimeMilliseconds: 1), keeping: start),
            key
        )
        func claim() throws -> SharedRedisData.Claim {
            try #require(
                try shared.claimDue(timetable).first
            )
        }
        let firstClaim = try claim()
        let secondClaim = try claim()
        #expect(try !shared.removeClaimedEntry(timetable, firstClaim))
        comparison.perform(.reportLifetimeEvent(.beganAfter(milliseconds: 1, lifetimeMilliseconds: 1)), key)
        #expect(try !shared.removeClaimedEntry(timetable, secondClaim))
        let thirdClaim = try claim()
        #expect(try shared.removeClaimedEntry(timetable, thirdClaim))
        #expect(try !shared.removeClaimedEntry(timetable, thirdClaim))
        #expect(comparison.server.command("KEYS", String(decoding: timetable, as: UTF8.self) + "*") == [])
    }

    @Test func `The rights of Redis users on the chart's page are enough for lifetimes`() throws {
        let comparison = try ScriptComparison()
        comparison.perform(.reportLifetimeEvent(.beganAfter(milliseconds: 0, lifetimeMilliseconds: 1)))
        let page = try Repository.text("Helm/causeway/README.md")
        let block = try #require(page.split(separator: "ACL SETUSER causeway").last).prefix { $0 != "`" }
        let rights = block.matches(of: #/\+[a-z|]+/#).map { Array($0.output.utf8) }
        let arguments = ["ACL", "SETUSER", "causeway", "on", "nopass", "~{*"].map { Array($0.utf8) } + rights
        try #require(comparison.server.command(bytes: arguments) == [Array("OK".utf8)])
        let url = try RedisURL("unix://causeway:any@\(comparison.server.socketPath)")
        let shared = try SharedRedisData(configuration: RedisConfiguration(url: url))
        let timetablesWithClaims = try (0..<LifetimeKey.timetableCount).map(LifetimeKey.timetableKey)
            .filter { key in try shared.claimDue(key).contains { try shared.removeClaimedEntry(key, $0) } }
        #expect(timetablesWithClaims.count == 1)
    }

    private static func makeCommandKeptForRestart(isStart: Bool) -> CommandKeptForRestart<[UInt8]> {
        CommandKeptForRestart(
            isStart: isStart,
            version: Version(timestamp: startMilliseconds / 1_000, sequence: 0),
            record: [1]
        )
    }

    /// Each time a worker reads the command that ends the activity, it asks Redis whether the life continues. This
    /// postpones the next claim, because the command may be in the deferred topic for hours.
    ///
    /// If Redis has admitted another end of the activity, this other end will report that the life has ended. In case
    /// the other end is lost, the keeper claims the life three more times.
    @Test func `A command that is worked on postpones the next claim; another end gets time to end the life`() throws {
        let comparison = try ScriptComparison()
        let shared = try SharedRedisData(configuration: RedisConfiguration(url: RedisURL(comparison.server.unixURL)))
        func claimDueCount() throws -> Int {
            try (0..<LifetimeKey.timetableCount)
                .reduce(0) { count, number in
                    let key = LifetimeKey.timetableKey(number)
                    return try count
                        + shared.claimDue(key).count
                }
        }
        func checkLifetime(claimDelayMilliseconds: Int64) -> StoreVerdict {
            comparison.perform(
                .checkLifetime(
                    beganAtMilliseconds: startMilliseconds,
                    stateVersion: nil,
                    claimDelayMilliseconds: claimDelayMilliseconds
                )
            )
            .verdict
        }
        comparison.perform(.reportLifetimeEvent(.beganAfter(milliseconds: 0, lifetimeMilliseconds: 1)))
        #expect(try claimDueCount() == 1)
        #expect(checkLifetime(claimDelayMilliseconds: 60_000) == .retry)
        #expect(try claimDueCount() == 0)
        for claim in 2...4 {
            #expect(checkLifetime(claimDelayMilliseconds: 0) == .retry)
            comparison.perform(.reportLifetimeEvent(.otherEndAdmitted(beganAtMilliseconds: startMilliseconds)))
            #expect(try claimDueCount() == 1, "\(claim)")
        }
        comparison.perform(.reportLifetimeEvent(.otherEndAdmitted(beganAtMilliseconds: startMilliseconds)))
        #expect(try claimDueCount() == 0, "after three more claims, the life is claimed no more")
    }

    @Test func `An activity's key contains the app and the activity's id`() {
        for name in ["a=b}", "phone-7-RideAttributes-0", "0b6c3c2e-7c2d-4a86-9a53-0d6b5f0c7f11"] {
            let key = ActivityKey.key(app: Array("com.example.ride".utf8), activity: Array(name.utf8))
            let subject = LifetimeKey.subject(ofActivityKey: key)
            #expect(subject.map { String(decoding: $0.app, as: UTF8.self) } == "com.example.ride")
            #expect(subject.map { String(decoding: $0.activity, as: UTF8.self) } == name)
        }
        for foreign in ["", "{}", "{com=}", "{=a}", "com=a", "{com/device}"] {
            #expect(LifetimeKey.subject(ofActivityKey: Array(foreign.utf8)) == nil, "\(foreign)")
        }
    }
}

extension LifetimeEvent {
    /// A life begins this long after the time at which the tests begin.
    fileprivate static func beganAfter(milliseconds: Int64, lifetimeMilliseconds: Int64 = hourMilliseconds) -> Self {
        .began(atMilliseconds: startMilliseconds + milliseconds, lifetimeMilliseconds: lifetimeMilliseconds)
    }

    /// An activity is alive this long after the time at which the tests begin.
    fileprivate static func aliveAfter(milliseconds: Int64) -> Self {
        .alive(atMilliseconds: startMilliseconds + milliseconds, lifetimeMilliseconds: hourMilliseconds)
    }
}

extension SharedRedisData {
    /// Claims the lives that are due in a timetable, at most nine.
    fileprivate func claimDue(
        _ key: [UInt8],
        firstClaimDurationMilliseconds: Int64 = 0,
        ageMillisecondsMax: Int64 = .max
    ) throws -> [Claim] {
        let names = try readDueEntries(key, from: 0, entriesMax: 9).entries.map(\.name)
        return try claimEntries(
            key,
            names,
            firstClaimDurationMilliseconds: firstClaimDurationMilliseconds,
            ageMillisecondsMax: ageMillisecondsMax
        )
        .claims
    }
}
