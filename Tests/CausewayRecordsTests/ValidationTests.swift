import CausewayRecords
import Foundation
import Testing

@Suite("The kit's check before sending")
struct ValidationTests {
    private typealias Command = LiveActivityCommand<JSONValue>

    private static let now = Date(timeIntervalSince1970: 1_790_000_000)

    private static func update(_ change: (inout Command) -> Void) -> Command {
        var command = Command.update(app: "com.example.ride", .activity("a"), at: now, contentState: ["home": 1])
        change(&command)
        return command
    }

    private func faults(_ command: Command) throws -> [String] {
        do {
            try command.validate(now: Self.now)
            #expect(try WorkerCodec.commandFault(command.value()) == nil)
            return []
        } catch let invalid as InvalidRecord {
            return invalid.faults.map(\.description)
        }
    }

    @Test func `A fault names the field and what it must be`() throws {
        #expect(try faults(Self.update { _ in }) == [])
        #expect(try faults(Self.update { $0.priority = 7 }) == ["priority: expected 5 or 10"])
        // To APNs, the expiration 0 means one attempt. The worker would take it for a time in the past.
        #expect(
            try faults(Self.update { $0.expiration = Date(timeIntervalSince1970: 0) }) == [
                "expiration: expected integer, UNIX seconds, 10 digits"
            ]
        )
        #expect(try faults(Self.update { $0.app = "" }) == ["app: expected string, 1 to 256 bytes"])
        #expect(
            try faults(Self.update { $0.id = String(repeating: "é", count: 33) }) == [
                "id: expected string, 1 to 64 bytes"
            ]
        )
        #expect(
            try faults(Self.update { $0.dismissalDate = Self.now }) == ["aps.event: Only an end has `dismissal-date`."]
        )
        #expect(
            try faults(Self.update { $0.timestamp += 301 }) == [
                "aps.timestamp: is 301 seconds in the future, 300 are allowed"
            ]
        )
        #expect(
            try faults(Self.update { $0.contentState = nil }) == [
                "aps.content-state: Only in an end is `content-state` optional."
            ]
        )
        #expect(try faults(Self.update { $0.alert = Alert(title: "a", body: "b") }) == [])
    }

    @Test func `All faults of a command are found`() throws {
        let command = Self.update {
            $0.priority = 1
            $0.policy = "a b"
            $0.payload = ["aps": 1]
        }
        let faultyFields = try faults(command).map { fault in fault.prefix { $0 != ":" } }
        #expect(Set(faultyFields) == ["priority", "policy", "payload.aps"])
    }

    @Test func `A body, a string and the nesting have limits`() throws {
        let long = JSONValue.string(String(repeating: "a", count: 4_050))
        let tooLarge = Self.update { $0.contentState = ["a": long] }
        var toChannel = Command.update(app: "a", .channel("Y2g=", .sandbox), at: Self.now, contentState: ["a": long])
        #expect(try faults(toChannel) == [])
        toChannel.payload = ["b": long]
        for (command, limit) in [(tooLarge, 4_096), (toChannel, 5_120)] {
            let found = try faults(command)
            #expect(found.count == 1 && found[0].hasSuffix(" bytes, \(limit) are allowed"))
            #expect(try WorkerCodec.commandFault(command.value())?.contains(found[0]) == true, "\(found)")
        }
        let tooLong = try faults(Self.update { $0.contentState = ["a": .string(String(repeating: "a", count: 8_193))] })
        #expect(tooLong.first == "aps.content-state.a: a string has 8193 bytes, 8192 are allowed")
        var deep: JSONValue = [:]
        for _ in 0..<30 { deep = ["a": deep] }
        let tooDeep = try faults(Self.update { $0.contentState = deep })
        #expect(tooDeep.count == 1 && tooDeep[0].hasSuffix("more than 32 nested objects and arrays"), "\(tooDeep)")
    }

    @Test func `A registration is checked, too`() throws {
        var registration = Registration(
            app: "com.example.ride",
            environment: .sandbox,
            registeredAt: Self.now,
            token: PushToken([0, 1, 2, 3]),
            .activity(.init(id: "a"))
        )
        try registration.validate()
        registration.token.digits = "xy"
        registration.audiences = Array(repeating: "a", count: 9)
        registration.environment = PushEnvironment(rawValue: "test")
        let invalid = try #require(throws: InvalidRecord.self) { try registration.validate() }
        #expect(invalid.faults.map(\.field) == ["audiences", "environment", "token"])
    }
}
