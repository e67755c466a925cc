import LiveActivity
import RedisTestbed
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

@Suite(.serialized, .ownThread) struct ActivityKeyTests {
    private let app = Array("com.example.match".utf8)

    private func key(of activity: String) -> [UInt8] { ActivityKey.key(app: app, activity: Array(activity.utf8)) }

    /// Each case has an activity's id, the sign before the id in the key, and the number of bytes that the id takes
    /// there. The sign is `#` for a UUID in lower case, `$` for one in upper case, and `=` for any other text.
    @Test(arguments: [
        ("0c6ef1f2-8f5e-4d0d-9e0c-0b1ff6b2a111", "#", 16), ("0C6EF1F2-8F5E-4D0D-9E0C-0B1FF6B2A111", "$", 16),
        ("01234567-0123-0123-0123-012345678901", "#", 16), ("7d7D7d7d-0000-4000-8000-000000000000", "=", 36),
        ("0c6ef1f2-8f5e-4d0d-9e0c-0b1ff6b2a11g", "=", 36), ("0c6ef1f2-8f5e-4d0d-9e0c00b1ff6b2a111", "=", 36),
        ("0c6ef1f2-8f5e-4d0d-9e0c-0b1ff6b2a11", "=", 35), ("0c6ef1f28-f5e-4d0d-9e0c-0b1ff6b2a111", "=", 36),
        ("x:{y}", "=", 5), ("sixteen letters!", "=", 16), ("`c6ef1f2-8f5e-4d0d-9e0c-0b1ff6b2a111", "=", 36),
    ])
    func `A UUID is stored as its bytes, and every activity's id is read back from its key`(
        activity: String,
        sign: String,
        idByteCount: Int
    ) {
        let key = key(of: activity)
        #expect(key.starts(with: "{com.example.match".utf8) && key.last == UInt8(ascii: "}"))
        let signPosition = "{com.example.match".utf8.count
        #expect(key[signPosition] == Array(sign.utf8)[0] && key.count == signPosition + 1 + idByteCount + 1)
        #expect(ActivityKey.activity(ofKey: key, app: app) == Array(activity.utf8))
    }

    @Test func `The pattern finds all activities of an app, and nothing of a device or of another app`() throws {
        let server = try RedisServer()
        let activities = ["0c6ef1f2-8f5e-4d0d-9e0c-0b1ff6b2a111", "0C6EF1F2-8F5E-4D0D-9E0C-0B1FF6B2A111", "match-17"]
        let caller = try StoreCaller(server.unixURL)
        try #require(caller.runLoopUntilReady())
        for activity in activities {
            let start = Operation.start(version: .at(1), claim: 1)
            #expect(caller.store.issue(start, key: .activity(activity), tag: 1) == .issued)
        }
        server.command("SET", "{app/0c6ef1f2}", "a device's")
        server.command("SET", "{app.two=match-17}", "another's")
        #expect(caller.runLoop { caller.store.outstandingCallCount == 0 })
        let found = server.command(bytes: [Array("KEYS".utf8), Array(ActivityKey.pattern(app: "app").utf8)])
            .map { String(decoding: ActivityKey.activity(ofKey: $0, app: Array("app".utf8)), as: UTF8.self) }
        #expect(Set(found) == Set(activities))
        caller.store.close()
    }
}
