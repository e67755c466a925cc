import Delivery
import LiveActivity
import Testing

/// Many activities get the same state. The core has the state's bytes once, and each push still has the content of its
/// own command.
@Suite struct SharedBodyTests {
    private static let firstTimestamp = CoreHarness.startSeconds + 1

    /// Lets Redis admit the next command, and takes its push.
    private static func push(_ core: CoreHarness, timestamp: Int64? = nil) throws -> SeenPush {
        core.reply(.send, timestamp: timestamp)
        return try #require(core.push())
    }

    private static func bodyAddress(_ push: SeenPush, _ core: CoreHarness) -> UnsafeRawPointer? {
        core.delivery.view(push.record).body.baseAddress
    }

    /// Returns the body that the core has for the push now.
    private static func currentBody(_ push: SeenPush, _ core: CoreHarness) -> String {
        SeenPush(core.delivery.view(push.record), record: push.record).body
    }

    private static func body(_ second: Int64, timestamp: Int64? = nil, _ members: String = "") -> String {
        let timestamp = timestamp ?? CoreHarness.startSeconds + second
        return #"{"aps":{"timestamp":\#(timestamp),"event":"update","content-state":{"n":\#(second)}}\#(members)}"#
    }

    @Test func `Equal bodies are stored once`() throws {
        let core = CoreHarness()
        core.receive(.update(1, of: "a"), .update(1, of: "b"), .update(2, of: "c"))
        let pushes = try (0..<3).map { _ in try Self.push(core) }
        #expect(pushes.map(\.body) == [Self.body(1), Self.body(1), Self.body(2)])
        #expect(Self.bodyAddress(pushes[0], core) == Self.bodyAddress(pushes[1], core))
        #expect(Self.bodyAddress(pushes[0], core) != Self.bodyAddress(pushes[2], core))
    }

    @Test func `A timestamp is raised for one activity only`() throws {
        let core = CoreHarness()
        core.receive(.update(1, of: "a"), .update(1, of: "b"), .update(1, of: "c"))
        let pushOfA = try Self.push(core)
        let pushOfB = try Self.push(core, timestamp: Self.firstTimestamp + 76)
        #expect(pushOfB.body == Self.body(1, timestamp: Self.firstTimestamp + 76))
        #expect(Self.currentBody(pushOfA, core) == Self.body(1), "the connection may be reading these bytes")
        #expect(try Self.push(core).body == Self.body(1))
        core.receive(.update(1, of: "d"))
        #expect(try Self.push(core).body == Self.body(1))
    }

    @Test func `An alert that became too old is removed from one push only`() throws {
        let core = CoreHarness()
        for activity in ["a", "b"] {
            core.receive(CommandText.update(1, of: activity, alert: true))
            core.reply(.send)
        }
        let pushOfA = try #require(core.push())
        core.elapse(302_000)
        #expect(try #require(core.push()).body == Self.body(1))
        #expect(Self.currentBody(pushOfA, core) == pushOfA.body, "the connection may be reading these bytes")
        #expect(pushOfA.body.contains("alert"))
    }

    @Test func `A shared body stays while another activity needs it`() throws {
        let core = CoreHarness()
        core.receive(.update(1, of: "a"), .update(1, of: "b"))
        _ = try Self.push(core)
        let pushOfB = try Self.push(core)
        core.respond(.accepted)
        core.acknowledgeAll()
        // The bodies of u2 and u3 are as long as the body of u1, so they could get its place in memory.
        core.receive(.update(2, of: "c"), .update(3, of: "d"))
        #expect(Self.currentBody(pushOfB, core) == Self.body(1))
    }

    @Test func `A carried alert is added to one activity only`() throws {
        let core = CoreHarness()
        core.receive(.alert(1), .update(2), .update(2, of: "b"))
        let pushOfA = try Self.push(core)
        let pushOfB = try Self.push(core)
        #expect(pushOfA.body.contains("alert"))
        #expect(pushOfB.body == Self.body(2))
    }

    @Test func `Bodies with different payloads are stored separately, and equal ones once`() throws {
        let core = CoreHarness()
        core.receive(
            .update(1, of: "a", beside: #""payload":{"x":1},"#),
            .update(1, of: "b", beside: #""payload":{"x":2},"#),
            .update(1, of: "c", beside: #""payload":{"x":2},"#),
            .update(1, of: "d")
        )
        let pushes = try (0..<4).map { _ in try Self.push(core) }
        #expect(
            pushes.map(\.body)
                == [Self.body(1, #","x":1"#), Self.body(1, #","x":2"#), Self.body(1, #","x":2"#), Self.body(1)]
        )
        #expect(Self.bodyAddress(pushes[1], core) == Self.bodyAddress(pushes[2], core))
    }

    /// The core reads and remembers a record's `aps` dictionary. Bytes that follow the dictionary may then show that
    /// the record is invalid.
    @Test func `The body of a refused record is not used for later records`() throws {
        let core = CoreHarness()
        let invalidCommand = String(String.update(2, of: "b").dropLast()) + #","priority":7}"#
        core.receive(.update(1, of: "a"), invalidCommand, .update(2, of: "c"))
        #expect(core.outcomes == ["causeway.commands/0/1 invalid"])
        #expect(try [Self.push(core).body, Self.push(core).body] == [Self.body(1), Self.body(2)])
    }
}
