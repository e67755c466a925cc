import Delivery
import LiveActivity
import Testing

/// A command is in the deferred topic while Redis loses all data. The command is read again in the commands topic, and its deferred copy
/// comes back too.
@Suite struct DeferredAfterLossTests {
    private static let patience: Int64 = 11_200
    private static let delay: Int64 = 30_000

    /// The lane that deferred the command knows that it comes back: its alert rings once, in one push.
    @Test func `The lane that deferred an alert waits for it`() throws {
        let core = Self.core()
        let deferred = try deferAlert(core)
        core.readAgain(below: 1)
        core.receive(.alert(1))
        #expect(core.waiting.isEmpty)
        core.pass(Self.delay)
        core.receive(deferred)
        let bodies = Self.carryAll(core)
        #expect(bodies.count == 1)
        #expect(bodies.allSatisfy { $0.contains("alert") })
        #expect(core.outcomes.count { $0 == "u1 accepted" } == 1)
    }

    /// Another worker sends the state without its alert (R25), and the copy is then a duplicate: the alert does not ring. This gap stays.
    /// It takes an outage of APNs, a loss of Redis and a change of owner within the five minutes in which an alert is young enough, and
    /// the phone shows the right state. To ring, a copy would have to be told from one whose alert rang before Redis forgot it.
    @Test func `Another worker sends the state without its alert`() throws {
        let deferred = try deferAlert(Self.core())
        let core = Self.core()
        core.readAgain(below: 1)
        core.receive(.alert(1))
        let bodies = Self.carryAll(core)
        #expect(bodies.count == 1)
        #expect(!bodies.contains { $0.contains("alert") })
        core.pass(2_000)
        core.receive(deferred)
        core.reply(.duplicate)
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 accepted", "u1 duplicate"])
        #expect(core.committableOffset(core.deferred) == 1)
    }

    /// The deferred copy came back before the partition was read again, and its alert has rung.
    @Test func `An alert that came back before the loss does not ring again`() throws {
        let core = Self.core()
        let deferred = try deferAlert(core)
        core.pass(Self.delay)
        core.receive(deferred)
        #expect(Self.carryAll(core).map { $0.contains("alert") } == [true])
        core.readAgain(below: 1)
        core.receive(.alert(1))
        #expect(!Self.carryAll(core).contains { $0.contains("alert") })
    }

    private static func core() -> CoreHarness {
        CoreHarness {
            $0.deferAfterMilliseconds = patience - 1_200
            $0.deferredDelayMilliseconds = delay
        }
    }

    /// The pool accepts nothing while the command waits, and works again afterwards.
    private func deferAlert(_ core: CoreHarness) throws -> SeenDeferral {
        core.receive(.alert(1))
        core.reply(.send)
        core.pass(Self.patience)
        core.acknowledgeAll()
        let deferred = try #require(core.deferrals.first)
        core.receive(.update(1, of: "b"))
        core.carry()
        core.acknowledgeAll()
        core.pass(600)
        return deferred
    }

    /// - Returns: the bodies of all pushes.
    private static func carryAll(_ core: CoreHarness) -> [String] {
        var bodies: [String] = []
        while core.waiting.contains(where: { $0.hasPrefix("admit") }) {
            core.reply(.send)
            guard let push = core.push() else { break }
            bodies.append(push.body)
            core.answer(.accepted)
            core.acknowledgeAll()
        }
        return bodies
    }
}
