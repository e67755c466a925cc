import Testbed
import Testing

@testable import APNs

/// The request that the server sees.
@Suite(.ownThread) struct HeaderTests {
    @Test(arguments: [64, 160, 200])
    func requestCarriesWhatAppleAsksFor(deviceTokenBytes: Int) throws {
        let fixture = try Fixture(deviceTokenBytes: deviceTokenBytes)
        var requests: [ServedRequest] = []
        fixture.server.respond = {
            requests.append($0)
            return .accepted
        }
        fixture.warmUp()
        #expect(fixture.submit(0xab, priority: 10, expiration: 0))
        fixture.turn(until: { requests.count == 2 })
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

    /// `:path` and `authorization` never enter the table. Identifier and expiration enter it once. After that the rest of the header needs
    /// two or three bytes for each field.
    @Test func indexingFollowsApplesAdvice() throws {
        let fixture = try Fixture()
        var requests: [ServedRequest] = []
        var tableBytes: [Int] = []
        fixture.server.respond = {
            requests.append($0)
            tableBytes.append($0.connection.headerTableBytes)
            return .accepted
        }
        fixture.warmUp()
        for tag in 1...100 { #expect(fixture.submit(UInt64(tag), expiration: Int64(tag))) }
        fixture.turn(until: { requests.count == 101 })
        for (index, request) in requests.enumerated() {
            let neverIndexed = Set(request.fields.filter(\.isNeverIndexed).map(\.name))
            #expect(
                neverIndexed
                    == (index == 0
                        ? [":path", "authorization"] : [":path", "authorization", "apns-id", "apns-expiration"])
            )
        }
        #expect(Set(tableBytes).count == 1)
        // Name, value and 32 of each of the six fields that are in the table.
        let entries = [
            (":authority", "localhost:\(fixture.server.port)"), ("apns-push-type", "liveactivity"),
            ("apns-topic", "com.example.scores.push-type.liveactivity"), ("apns-priority", "5"),
            ("apns-expiration", "1790000000"), ("apns-id", "12345678-9abc-def0-0000-0000000f4240"),
        ]
        let expected = entries.reduce(0) { $0 + $1.0.utf8.count + $1.1.utf8.count + 32 }
        #expect(tableBytes.last == expected)
    }

    @Test func digits() {
        for number in [Int64(0), 9, 10, 99, 100, 1_790_000_000, .max] {
            let text = [UInt8](unsafeUninitializedCapacity: Decimal.digitsMax) { buffer, count in
                count = buffer.baseAddress.map { Decimal.write(number, to: $0) } ?? 0
            }
            #expect(String(decoding: text, as: UTF8.self) == String(number))
            #expect(text.withUnsafeBytes { Decimal.read($0, max: .max) } == number)
        }
        for text in ["", "-1", "1a", "9223372036854775808", "00000000000000000001", " 1"] {
            #expect(Array(text.utf8).withUnsafeBytes { Decimal.read($0, max: .max) } == nil)
        }
        #expect([UInt8(ascii: "9")].withUnsafeBytes { Decimal.read($0, max: 8) } == nil)
    }

    @Test func identifierTakesItsCanonicalForm() {
        for identifier in [
            (UInt64(0x0123_4567_89ab_cdef), UInt64(0xfedc_ba98_7654_3210)), (0, 0), (.max, .max), (1, 1 << 63),
        ] {
            let text = [UInt8](unsafeUninitializedCapacity: 36) { buffer, count in
                if let start = buffer.baseAddress { Hexadecimal.writeIdentifier(identifier, to: start) }
                count = 36
            }
            let plain = [identifier.0, identifier.1]
                .map {
                    String(repeating: "0", count: $0.leadingZeroBitCount / 4 - ($0 == 0 ? 1 : 0))
                        + String($0, radix: 16)
                }
                .joined()
            let cuts = [0, 8, 12, 16, 20, 32]
            let parts = zip(cuts, cuts.dropFirst()).map { plain.dropFirst($0).prefix($1 - $0) }
            #expect(String(decoding: text, as: UTF8.self) == parts.joined(separator: "-"))
        }
    }

    /// Every byte at every position, alone and within the eight bytes that are checked together.
    @Test(arguments: [1, 7, 8, 9, 64])
    func hexadecimal(count: Int) {
        var text = [UInt8](repeating: UInt8(ascii: "f"), count: count)
        for position in 0..<count {
            for byte in UInt8.min...UInt8.max {
                text[position] = byte
                let isDigit = (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                let isLetter = (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
                let isTaken = text.withUnsafeBytes { Hexadecimal.isLowerCase($0) }
                if isTaken != (isDigit || isLetter) { Issue.record("byte \(byte) at \(position)") }
            }
            text[position] = UInt8(ascii: "f")
        }
    }
}
