import LiveActivity
import Reactor
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

extension ScriptTests {
    @Test func `A device has separate tokens for each attributes type`() throws {
        let comparison = try ScriptComparison(.device("phone"))
        let game = "GameAttributes"
        let race = "RaceAttributes"
        #expect(comparison.verdict(.takeStartToken(attributesType: game, registration: nil)) == .noToken)
        #expect(comparison.verdict(.hold(attributesType: game, version: version(100), command: [1])) == .held)
        #expect(comparison.verdict(.hold(attributesType: game, version: version(102), command: [2])) == .held)
        #expect(comparison.verdict(.hold(attributesType: game, version: version(101), command: [3])) == .superseded)
        #expect(
            comparison.perform(.register(attributesType: race, registration: token("cc"), shownVersion: nil))
                .heldCommand
                == nil
        )
        let registrationReply = comparison.perform(
            .register(attributesType: game, registration: token("aa"), shownVersion: nil)
        )
        #expect(registrationReply.heldCommand == [2])
        #expect(
            comparison.perform(.takeStartToken(attributesType: game, registration: nil)).registration == token("aa")
        )
        #expect(comparison.verdict(.hold(attributesType: game, version: version(103), command: [3])) == .retry)
        comparison.settle(
            Operation.settlement(attributesType: game, version: version(102), outcome: .accepted, digest: 0)
        )
        #expect(
            comparison.perform(.register(attributesType: game, registration: token("aa"), shownVersion: nil))
                .heldCommand
                == nil
        )
        #expect(
            comparison.perform(.takeStartToken(attributesType: race, registration: token("dd", at: 300))).registration
                == token("dd", at: 300)
        )
        // The unregistration is older than one registration and newer than the other, so it removes only one
        // token.
        #expect(comparison.verdict(.unregister(atMilliseconds: 200)) == .unregistered)
        #expect(comparison.verdict(.takeStartToken(attributesType: game, registration: nil)) == .noToken)
        #expect(
            comparison.perform(.takeStartToken(attributesType: race, registration: nil)).registration
                == token("dd", at: 300)
        )
        #expect(comparison.verdict(.unregister(atMilliseconds: 200)) == .unregistered)
        #expect(comparison.verdict(.unregister(atMilliseconds: 199)) == .stale)
    }

    @Test func `An unregistration of one attributes type leaves the tokens of the others`() throws {
        let comparison = try ScriptComparison(.device("phone"))
        func register(_ type: String, in audiences: [UInt8]) {
            comparison.perform(
                .register(
                    attributesType: type,
                    registration: token("aa"),
                    shownVersion: nil,
                    audiences: audiences.flatMap { [$0, 0, 0, 0, 0, 0, 0, 0] }
                )
            )
        }
        func unregister(_ type: String, at milliseconds: Int64 = 200) -> StoreReply<[UInt8]> {
            comparison.perform(.unregister(atMilliseconds: milliseconds, attributesType: Array(type.utf8)))
        }
        func hasToken(_ type: String) -> Bool {
            comparison.verdict(.takeStartToken(attributesType: type, registration: nil)) == .tokenFound
        }
        register("Game", in: [1, 2])
        register("Race", in: [2, 3])
        #expect(unregister("Game", at: 99).verdict == .stale)
        let reply = unregister("Game")
        // The device stays in audience 2, because the registration of the other type names it.
        #expect(reply.verdict == .unregistered && reply.departures == [200, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
        #expect(!hasToken("Game") && hasToken("Race"))
        // Redis stores nothing about a type without a registration.
        #expect(unregister("Walk").verdict == .unregistered)
        #expect(unregister("Rac").verdict == .unregistered && hasToken("Race"))
    }

    /// Former releases stored the times of clocks that are ahead.
    @Test func `After a device's registration whose time is a day ahead, later tokens and tombstones count`() throws {
        let presentMilliseconds: Int64 = 1_700_000_000_000
        let comparison = try ScriptComparison(.device("phone"), nowMilliseconds: presentMilliseconds)
        let type = "GameAttributes"
        func register(_ text: String, at milliseconds: Int64) -> StoreVerdict {
            comparison.verdict(
                .register(
                    attributesType: type,
                    registration: token(text, at: milliseconds),
                    shownVersion: nil,
                    audiences: [1, 0, 0, 0, 0, 0, 0, 0]
                )
            )
        }
        func registerAhead() { #expect(register("aa", at: presentMilliseconds + 86_400_000) == .registered) }
        registerAhead()
        #expect(register("bb", at: presentMilliseconds) == .registered)
        #expect(register("aa", at: presentMilliseconds - 1) == .stale)
        registerAhead()
        #expect(comparison.verdict(.unregister(atMilliseconds: presentMilliseconds)) == .unregistered)
        registerAhead()
        let newToken = token("cc", at: presentMilliseconds)
        let tokenReply = comparison.perform(.takeStartToken(attributesType: type, registration: newToken))
        #expect(tokenReply.registration == newToken)
        registerAhead()
        let retirement = TokenRetirement(
            token: Array("aa".utf8),
            environment: .production,
            invalidAtMilliseconds: presentMilliseconds
        )
        let settlement = Operation.settlement(
            attributesType: type,
            version: version(100),
            outcome: .notShown,
            digest: 0,
            retirement: retirement
        )
        #expect(comparison.settleRetiresToken(settlement))
        #expect(register("dd", at: presentMilliseconds) == .registered)
    }

    /// The unregistration changes more fields than a function of Lua can return.
    @Test func `A device with many attributes types can be unregistered`() throws {
        let (comparison, typeCount) = (try ScriptComparison(.device("phone")), 1_400)
        for number in 0..<typeCount {
            let audience = withUnsafeBytes(of: UInt64(number).littleEndian) { Array($0) }
            let registration = Operation.register(
                attributesType: "Type\(number)",
                registration: token("aa"),
                shownVersion: nil,
                audiences: audience
            )
            #expect(comparison.verdict(registration) == .registered)
        }
        let reply = comparison.perform(.unregister(atMilliseconds: 200))
        #expect(reply.verdict == .unregistered)
        #expect(reply.departures?.count == AudienceDepartures.timeBytes + typeCount * AudienceList.digestBytes)
        for type in ["Type0", "Type1399"] {
            #expect(comparison.verdict(.takeStartToken(attributesType: type, registration: nil)) == .noToken)
        }
    }

    /// The reply to the hold was lost. A registration has released the start before the worker repeats the hold.
    @Test func `A repeated hold leaves the start to the registration that released it`() throws {
        let comparison = try ScriptComparison(.device("phone"))
        let type = "GameAttributes"
        let hold = Operation.hold(attributesType: type, version: version(100), command: [1])
        let registration = Operation.register(attributesType: type, registration: token("aa"), shownVersion: nil)
        #expect(comparison.verdict(hold) == .held)
        #expect(comparison.perform(registration).heldCommand == [1])
        #expect(comparison.verdict(hold) == .held)
        #expect(comparison.perform(registration).heldCommand == [1])
        #expect(comparison.verdict(.hold(attributesType: type, version: version(100), command: [2])) == .retry)
        comparison.settle(
            Operation.settlement(attributesType: type, version: version(100), outcome: .accepted, digest: 0)
        )
        #expect(comparison.verdict(hold) == .retry, "the start is not held any more")
    }

    /// A registration has released a start. After a newer token was registered, another worker reads the older
    /// registration again.
    @Test func `A stale registration brings what is held for the known token`() throws {
        let comparison = try ScriptComparison(.device("phone"))
        let type = "GameAttributes"
        func register(_ text: String, at milliseconds: Int64) -> OwnedReply {
            comparison.perform(
                .register(attributesType: type, registration: token(text, at: milliseconds), shownVersion: nil)
            )
        }
        #expect(comparison.verdict(.hold(attributesType: type, version: version(100), command: [1])) == .held)
        #expect(register("aa", at: 200).heldCommand == [1])
        #expect(register("bb", at: 300).heldCommand == [1])
        #expect(register("aa", at: 200).heldCommand == [1])
        #expect(
            comparison.perform(.takeStartToken(attributesType: type, registration: nil)).registration
                == token("bb", at: 300)
        )
        comparison.settle(
            Operation.settlement(attributesType: type, version: version(100), outcome: .accepted, digest: 0)
        )
        #expect(register("aa", at: 200).verdict == .stale)
        // An unregistration removes the token. Then a stale registration brings no start, because no token is known.
        #expect(comparison.verdict(.unregister(atMilliseconds: 400)) == .unregistered)
        #expect(comparison.verdict(.hold(attributesType: type, version: version(101), command: [2])) == .held)
        #expect(register("bb", at: 300).verdict == .stale)
    }

    @Test func `Starts of several activities are held, and come back one after the other, oldest first`() throws {
        let comparison = try ScriptComparison(.device("phone"))
        let type = "GameAttributes"
        func hold(_ activity: String, _ timestamp: Int64) -> StoreVerdict {
            let command = Array("\(activity) at \(timestamp)".utf8)
            return comparison.verdict(
                .hold(
                    attributesType: type,
                    activity: activity,
                    version: version(timestamp),
                    command: command,
                    hasAlert: true
                )
            )
        }
        func settle(_ activity: String, _ timestamp: Int64) {
            let version = version(timestamp)
            comparison.settle(
                Operation.settlement(
                    attributesType: type,
                    activity: activity,
                    version: version,
                    outcome: .accepted,
                    digest: 0
                )
            )
        }
        func releaseHeldStart(after: HeldStart<[UInt8]>? = nil) -> String? {
            let register = Operation.register(
                attributesType: type,
                registration: token("aa"),
                allowsFrequentUpdates: nil,
                shownVersion: nil,
                after: after
            )
            return comparison.perform(register).heldCommand.map { String(decoding: $0, as: UTF8.self) }
        }
        #expect(hold("b", 102) == .held)
        #expect(hold("a", 100) == .held)
        #expect(hold("c", 102) == .held)
        #expect(hold("a", 99) == .superseded)
        #expect(hold("a", 101) == .held)
        for number in 3..<StoreLimits.heldStartsMax { #expect(hold("other \(number)", 200) == .held) }
        #expect(hold("one too many", 99) == .full)
        #expect(hold("c", 103) == .held, "this start replaces the older start of c")
        #expect(releaseHeldStart() == "a at 101")
        #expect(releaseHeldStart() == "a at 101", "each registration brings the start until it is settled")
        #expect(releaseHeldStart(after: Operation.heldStart(type, "a", version(101))) == "b at 102")
        #expect(releaseHeldStart(after: Operation.heldStart(type, "b", version(102))) == "c at 103")
        #expect(releaseHeldStart(after: Operation.heldStart(type, "gone", version(102))) == "b at 102")
        #expect(releaseHeldStart(after: Operation.heldStart(type, "gone", version(201))) == nil)
        settle("a", 100)
        settle("b", 101)
        #expect(releaseHeldStart() == "a at 101", "a settlement of another version removes nothing")
        settle("a", 101)
        #expect(releaseHeldStart() == "b at 102")
        settle("b", 102)
        #expect(releaseHeldStart() == "c at 103")
        settle("c", 103)
        for number in 3..<StoreLimits.heldStartsMax {
            #expect(releaseHeldStart() == "other \(number) at 200")
            settle("other \(number)", 200)
        }
        #expect(releaseHeldStart() == nil)
    }

    /// An expired start is not sent any more, so it must not keep another start out. (R20)
    @Test func `A held start that has expired gives up its place`() throws {
        let presentSeconds: Int64 = 1_700_000_000
        let comparison = try ScriptComparison(.device("phone"), nowMilliseconds: presentSeconds * 1_000)
        let type = "GameAttributes"
        func hold(_ activity: String, _ timestamp: Int64, expiresIn seconds: Int64) -> StoreVerdict {
            // The `expiration` in `aps` is the producer's, and does not count.
            let members = #""activity":"\#(activity)","expiration":\#(presentSeconds + seconds)"#
            let record = #"{\#(members),"aps":{"expiration":1}}"#
            return comparison.verdict(
                .hold(
                    attributesType: type,
                    activity: activity,
                    version: version(timestamp),
                    command: Array(record.utf8)
                )
            )
        }
        let count = Int64(StoreLimits.heldStartsMax)
        for number in 0..<count { #expect(hold("\(number)", 100 + number, expiresIn: number) == .held) }
        #expect(hold("early", 99, expiresIn: 600) == .full, "a start expires after the second of its expiration")
        comparison.advanceClock(2_000)
        #expect(hold("early", 99, expiresIn: 600) == .held)
        #expect(hold("late", 103, expiresIn: 600) == .held)
        #expect(hold("too late", 200, expiresIn: 600) == .full)
        let released = [("early", 99), ("2", 102), ("3", 103), ("late", 103), ("4", 104)] as [(String, Int64)]
        var previousStart: HeldStart<[UInt8]>?
        for (activity, timestamp) in released {
            let registration = Operation.register(
                attributesType: type,
                registration: token("aa"),
                shownVersion: nil,
                after: previousStart
            )
            let record = String(decoding: comparison.perform(registration).heldCommand ?? [], as: UTF8.self)
            #expect(record.hasPrefix(#"{"activity":"\#(activity)""#))
            previousStart = Operation.heldStart(type, activity, version(timestamp))
        }
    }
}
