import Testbed
import Testing

@testable import Redis

/// Code outside the lanes reads replies with ``RedisValueReader``, in pieces of any size and within limits.
/// ``HashSlotMap`` is made from the reply to CLUSTER SLOTS.
@Suite(.ownThread) struct ReplyTests {
    /// Returns the values that the text contains; nil marks a violation of the protocol.
    private func readValues(_ text: String, sliceBytes: Int = .max) -> [RedisValue?] {
        guard let reader = RedisValueReader() else { return [] }
        var values: [RedisValue?] = []
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let isFed = rest.prefix(sliceBytes).withUnsafeBytes { reader.feed($0) }
            rest = rest.dropFirst(sliceBytes)
            loop: while true {
                switch reader.next() {
                case .value(let value): values.append(value)
                case .incomplete: break loop
                case .violation: return values + [nil]
                }
            }
            if !isFed { return values + [nil] }
        }
        return values
    }

    private let slotsText = """
        *2\r\n*4\r\n:0\r\n:8191\r\n*4\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\nid\r\n*0\r\n*3\r\n$1\r\n?\r\n:7002\r\n$2\r\nid\r\n\
        *3\r\n:8192\r\n:16383\r\n*3\r\n$-1\r\n:7001\r\n$2\r\nid\r\n
        """

    @Test(arguments: [1, 3, 10, Int.max])
    func `Slots are read in pieces of any size`(sliceBytes: Int) throws {
        let value = try #require(
            readValues("+OK\r\n" + slotsText + ":1\r\n", sliceBytes: sliceBytes).dropFirst().first ?? nil
        )
        let map = try #require(HashSlotMap(slots: value, from: .host("here", port: 1)))
        #expect(map.primaries == [.host("127.0.0.1", port: 7_000), .host("here", port: 7_001)])
        #expect(map.replicaLocations == [.host("here", port: 7_002)])
        #expect(map.primaryIndicesByHashSlot[..<8_192].allSatisfy { $0 == 0 })
        #expect(map.primaryIndicesByHashSlot[8_192...].allSatisfy { $0 == 1 })
    }

    @Test(arguments: [
        ":1\r\n", "*1\r\n:1\r\n", "*1\r\n*2\r\n:0\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:1\r\n:2\r\n",
        "*1\r\n*3\r\n:5\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n", "*1\r\n*3\r\n:-1\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:0\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:65536\r\n", "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:-1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n:1\r\n:1\r\n", "*1\r\n*3\r\n$1\r\n0\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n$1\r\na\r\n",
    ])
    func `A text without slots makes no map`(text: String) throws {
        let value = try #require(readValues(text).first ?? nil)
        #expect(HashSlotMap(slots: value, from: .host("here", port: 1)) == nil)
    }

    @Test func `More primaries than a cluster can have make no map`() {
        let ranges = (0...HashSlotMap.primariesMax)
            .map { index in
                RedisValue.array([
                    .integer(Int64(index)), .integer(Int64(index)),
                    .array([.string(Array("h".utf8)), .integer(Int64(index + 1))]),
                ])
            }
        #expect(HashSlotMap(slots: .array(ranges), from: .host("here", port: 1)) == nil)
        #expect(HashSlotMap(slots: .array(ranges.dropLast()), from: .host("here", port: 1)) != nil)
    }

    @Test func `Nested values of all kinds are read`() {
        #expect(
            readValues("*3\r\n$2\r\nab\r\n*2\r\n:-5\r\n$-1\r\n*0\r\n-ERR x\r\n*-1\r\n") == [
                .array([.string([0x61, 0x62]), .array([.integer(-5), .null]), .array([])]), .error(Array("ERR x".utf8)),
                .null,
            ]
        )
    }

    @Test(arguments: [
        "*1048577\r\n", "*2147483647\r\n", String(repeating: "*1\r\n", count: 100), "HTTP/1.1 200\r\n", "*-2\r\n",
        "$-2\r\n", ":12x\r\n",
    ])
    func `A text over a limit, or that is no reply, is a violation`(text: String) {
        #expect(readValues(text).last == .some(nil))
    }

    /// Without a limit, the server could choose how deep the recursion is that builds the value. (R4)
    @Test func `A reply with too many arrays within each other is a violation`() {
        let deepest = String(repeating: "*1\r\n", count: RedisValueReader.nestedArraysMax)
        var nestedValue = RedisValue.integer(1)
        for _ in 0..<RedisValueReader.nestedArraysMax { nestedValue = .array([nestedValue]) }
        #expect(readValues(deepest + ":1\r\n") == [nestedValue])
        #expect(readValues("*1\r\n" + deepest + ":1\r\n") == [nil])
    }

    @Test func `The reader does not wait for a string longer than any reply`() {
        let text = "$536870912\r\n" + String(repeating: "x", count: RedisValueReader.replyBytesMax + 1)
        #expect(readValues(text, sliceBytes: 65_536) == [nil])
    }
}
