import Numbers
import Testbed
import Testing

@testable import APNs

/// The header fields that the server receives.
@Suite(.ownThread) struct HeaderTests {
    @Test(arguments: [64, 160, 200])
    func `A request has the headers that Apple requires`(deviceTokenBytes: Int) throws {
        let fixture = try PoolFixture(deviceTokenBytes: deviceTokenBytes)
        var requests: [ServedRequest] = []
        fixture.server.respond = {
            requests.append($0)
            return .accepted
        }
        fixture.warmUp()
        #expect(fixture.submit(0xab, priority: 10, expirationSeconds: 0))
        fixture.runLoop(until: { requests.count == 2 })
        let request = requests[1]
        let names = request.fields.map(\.name)
        #expect(Set(names).count == names.count)
        #expect(
            Set(names) == [
                ":method", ":scheme", ":authority", ":path", "authorization", "apns-push-type", "apns-topic",
                "apns-priority", "apns-expiration", "apns-id",
            ]
        )
        #expect(names.prefix(4).allSatisfy { $0.hasPrefix(":") })
        #expect(request.value(":method") == "POST")
        #expect(request.value(":scheme") == "https")
        #expect(request.value(":authority") == "localhost:\(fixture.server.port)")
        #expect(request.value(":path") == "/3/device/" + String(decoding: fixture.deviceToken(0xab), as: UTF8.self))
        #expect(request.value("apns-topic") == "com.example.scores.push-type.liveactivity")
        #expect(request.value("apns-push-type") == "liveactivity")
        #expect(request.value("apns-priority") == "10")
        #expect(request.value("apns-expiration") == "0")
        #expect(request.value("apns-id") == "12345678-9abc-def0-0000-0000000000ab")
        #expect(request.value("authorization")?.hasPrefix("bearer ey") == true)
        #expect(requests[0].value("apns-priority") == "5")
        #expect(requests[0].value("apns-expiration") == "1790000000")
    }

    /// `:path` and `authorization` are never indexed. `apns-id` and `apns-expiration` are indexed in the first request
    /// only.
    @Test func `Indexing follows Apple's advice`() throws {
        let fixture = try PoolFixture()
        var requests: [ServedRequest] = []
        var tableBytes: [Int] = []
        fixture.server.respond = {
            requests.append($0)
            tableBytes.append($0.connection.headerTableBytes)
            return .accepted
        }
        fixture.warmUp()
        for tag in 1...100 { #expect(fixture.submit(UInt64(tag), expirationSeconds: Int64(tag))) }
        fixture.runLoop(until: { requests.count == 101 })
        for (index, request) in requests.enumerated() {
            let neverIndexed = Set(request.fields.filter(\.isNeverIndexed).map(\.name))
            #expect(
                neverIndexed
                    == (index == 0
                        ? [":path", "authorization"] : [":path", "authorization", "apns-id", "apns-expiration"])
            )
        }
        #expect(Set(tableBytes).count == 1)
        // The header table has these six entries. In HPACK an entry's size is its name's length, its value's
        // length and 32 bytes (RFC 7541, section 4.1). So the sizes must add up to the table's size.
        let entries = [
            (":authority", "localhost:\(fixture.server.port)"), ("apns-push-type", "liveactivity"),
            ("apns-topic", "com.example.scores.push-type.liveactivity"), ("apns-priority", "5"),
            ("apns-expiration", "1790000000"), ("apns-id", "12345678-9abc-def0-0000-0000000f4240"),
        ]
        let expected = entries.reduce(0) { $0 + $1.0.utf8.count + $1.1.utf8.count + 32 }
        #expect(tableBytes.last == expected)
    }
}
