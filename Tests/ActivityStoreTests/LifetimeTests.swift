import LiveActivity
import Numbers
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

/// The timetable of lifetimes on a real server, beside its model.
@Suite(.serialized, .ownThread) struct LifetimeTests {
    private static let hour: Int64 = 3_600_000
    private static let start: Int64 = 1_790_000_000_000

    @Test func `A start's time is exact, and of others the earliest counts`() throws {
        let stage = try ScriptStage()
        func note(_ note: LifeNote) { #expect(stage.admit(.noteLife(note)).verdict == .settled) }
        func begins(_ milliseconds: Int64) -> Bool {
            stage.admit(.checkLife(beganMilliseconds: milliseconds)).verdict == .retry
        }
        #expect(!begins(Self.start))
        note(.alive(atMilliseconds: Self.start + 5, lifetimeMilliseconds: Self.hour))
        note(.alive(atMilliseconds: Self.start + 9, lifetimeMilliseconds: Self.hour))
        #expect(begins(Self.start + 5))
        note(.alive(atMilliseconds: Self.start + 2, lifetimeMilliseconds: Self.hour))
        #expect(begins(Self.start + 2))
        note(.began(atMilliseconds: Self.start + 7, lifetimeMilliseconds: Self.hour))
        note(.alive(atMilliseconds: Self.start, lifetimeMilliseconds: Self.hour))
        note(.began(atMilliseconds: Self.start + 6, lifetimeMilliseconds: Self.hour))
        #expect(begins(Self.start + 7))
        note(.ended(beganMilliseconds: Self.start + 6))
        #expect(begins(Self.start + 7))
        note(.ended(beganMilliseconds: Self.start + 7))
        note(.began(atMilliseconds: Self.start + 7, lifetimeMilliseconds: Self.hour))
        note(.over)
        note(.over)
        #expect(!begins(Self.start + 7))
    }

    /// (R11)
    @Test func `The script's lives are the model's`() throws {
        let stage = try ScriptStage()
        var random = SplitMix64(seed: 20_260)
        let keys = (0..<40).map { TestKey.activity("activity-\($0)") }
        for _ in 0..<4_000 {
            let at = Self.start + Int64(random.below(6))
            let lifetime = Int64(random.pick([5_000, 28_200_000]))
            let call: Operation =
                switch random.below(9) {
                case 0: .noteLife(.over)
                case 8: .noteLife(.ended(beganMilliseconds: at))
                case 1: .noteLife(.began(atMilliseconds: at, lifetimeMilliseconds: lifetime))
                case 2, 3: .checkLife(beganMilliseconds: at)
                default: .noteLife(.alive(atMilliseconds: at, lifetimeMilliseconds: lifetime))
                }
            stage.admit(call, random.pick(keys))
        }
        var (lives, dues): ([String: String], [String: Int64]) = ([:], [:])
        for number in 0..<LifetimeKey.count {
            let key = String(decoding: LifetimeKey.stored(number), as: UTF8.self)
            for (name, life) in stage.server.hash(key + "+") { lives[name] = String(decoding: life, as: UTF8.self) }
            let scores = stage.server.command("ZRANGE", key, "0", "-1", "WITHSCORES")
                .map { String(decoding: $0, as: UTF8.self) }
            for index in stride(from: 0, to: scores.count, by: 2) { dues[scores[index]] = Int64(scores[index + 1]) }
        }
        #expect(lives == stage.model.lives.mapValues(\.text))
        #expect(dues == stage.model.lives.mapValues(\.dueMilliseconds))
        #expect(lives.count > 10)
    }

    @Test func `What is due is claimed once in a lease, and forgotten long after its start`() throws {
        let stage = try ScriptStage()
        let (due, later) = (TestKey.activity("due"), TestKey.activity("later"))
        stage.admit(.noteLife(.began(atMilliseconds: Self.start, lifetimeMilliseconds: 1)), due)
        let now = 9_000_000_000_000 as Int64
        stage.admit(.noteLife(.began(atMilliseconds: now, lifetimeMilliseconds: Self.hour)), later)
        let shared = try SharedHashes(configuration: RedisConfiguration(url: RedisURL(stage.server.unixURL)))
        func claim(lease: Int64, ageMax: Int64 = .max) throws -> [String] {
            try (0..<LifetimeKey.count)
                .flatMap { number in
                    try shared.claim(
                        LifetimeKey.stored(number),
                        limit: 9,
                        leaseMilliseconds: lease,
                        ageMaxMilliseconds: ageMax
                    )
                    .claimed
                }
                .map { "\(String(decoding: $0.name, as: UTF8.self)) \($0.text)" }
        }
        #expect(try claim(lease: 0) == ["\(due.text) b \(Self.start) 1"])
        #expect(stage.admit(.checkLife(beganMilliseconds: Self.start), due).verdict == .retry)
        #expect(try claim(lease: 60_000) == ["\(due.text) b \(Self.start) 2"])
        #expect(try claim(lease: 60_000) == [])
        stage.admit(.noteLife(.over), due)
        stage.admit(.noteLife(.began(atMilliseconds: Self.start + 1, lifetimeMilliseconds: 1)), due)
        #expect(try claim(lease: 0) == ["\(due.text) b \(Self.start + 1) 1"])
        #expect(try claim(lease: 0, ageMax: Self.hour) == [])
        let names = (0..<LifetimeKey.count)
            .flatMap { stage.server.hash(String(decoding: LifetimeKey.lives($0), as: UTF8.self)).keys }
        #expect(names == [later.text])
    }

    @Test func `An activity's key tells its app and its name`() {
        for name in ["a=b}", "phone-7-RideAttributes-0", "0b6c3c2e-7c2d-4a86-9a53-0d6b5f0c7f11"] {
            let key = ActivityKey.stored(app: Array("com.example.ride".utf8), activity: Array(name.utf8))
            let subject = LifetimeKey.subject(ofActivityKey: key)
            #expect(subject.map { String(decoding: $0.app, as: UTF8.self) } == "com.example.ride")
            #expect(subject.map { String(decoding: $0.activity, as: UTF8.self) } == name)
        }
        for foreign in ["", "{}", "{com=}", "{=a}", "com=a", "{com/device}"] {
            #expect(LifetimeKey.subject(ofActivityKey: Array(foreign.utf8)) == nil, "\(foreign)")
        }
    }
}
