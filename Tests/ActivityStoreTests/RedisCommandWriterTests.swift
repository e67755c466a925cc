import CHiredis
import LiveActivity
import Numbers
import Testbed
import Testing

@testable import ActivityStore
@testable import Redis

@Suite(.ownThread) struct RedisCommandWriterTests {
    /// Returns the same command as hiredis writes it.
    private func formatWithHiredis(_ arguments: [[UInt8]]) -> [UInt8] {
        var target: UnsafeMutablePointer<CChar>?
        let bytes = arguments.flatMap { argument in argument.map { CChar(bitPattern: $0) } }
        let lengths = arguments.map(\.count)
        let length = bytes.withUnsafeBufferPointer { memory in
            var offset = 0
            var pointers = lengths.map { length -> UnsafePointer<CChar>? in
                defer { offset += length }
                return memory.baseAddress.map { $0 + offset }
            }
            return redisFormatCommandArgv(&target, Int32(arguments.count), &pointers, lengths)
        }
        defer { redisFreeCommand(target) }
        return Array(UnsafeRawBufferPointer(start: target, count: Int(length)))
    }

    private func writeCommand(argumentCount: Int, _ body: (inout RedisCommandWriter) -> Void) -> [UInt8] {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 1)
        defer { room.deallocate() }
        var writer = RedisCommandWriter(room, argumentCount: argumentCount)
        body(&writer)
        return Array(room[..<writer.count])
    }

    @Test func `Every kind of argument is written as hiredis writes it`() {
        let key = Array("{com.example.scores/match-17}".utf8)
        let type = Array("GameAttributes".utf8)
        let token = Array(String(repeating: "0f", count: 80).utf8)
        var bucket = Policy.Bucket(pushes: 20_000, refillPerHour: 3_600_000, reservedForAlerts: 50)
        bucket.longestFillSeconds = 3_600
        let frequentBucket = Policy.Bucket(pushes: 15, refillPerHour: 15, reservedForAlerts: 20)
        let bytes = writeCommand(argumentCount: 15) { writer in
            key.withUnsafeBytes { writer.writeArgument($0) }
            writer.writeArgument(letter: UInt8(ascii: "u"))
            writer.writeEmptyArgument()
            writer.writeArgument(number: 640)
            writer.writeStartBudgetArgument(bucket)
            writer.writeTextArgument(.at(1_760_000_000, 42))
            writer.writeArgument(claim: 0x0001_2341_4243_4445)
            type.withUnsafeBytes { writer.writeArgument(attributesType: $0) }
            token.withUnsafeBytes { token in
                writer.writeDeviceTokenArguments(
                    TokenRegistration(token: token, environment: .production, registeredAtMilliseconds: 12)
                )
                writer.writeRetirementArguments(
                    TokenRetirement(token: token, environment: .production, invalidAtMilliseconds: .max)
                )
            }
            writer.writeArgument(.accepted, .at(1, 2))
            writer.writeRefundArgument(frequentBucket, drawIdentifier: 1_760_000_000_017)
        }
        let packedToken = [UInt8(ascii: "P")] + [UInt8](repeating: 0x0F, count: 80)
        let texts = [
            "{com.example.scores/match-17}", "u", "",
            "640", "\u{01}\0\0\u{10}\u{27}\u{32}\0\u{10}\u{0E}\0\0", "176000000000000000000000000042",
            "EDCBA\u{23}\u{01}\0", ":GameAttributes",
        ]
        let registered = Array("0000000000012".utf8)
        let tokens = [
            registered + packedToken[..<51], Array(packedToken[51...]), Array(packedToken[..<51]),
            Array(packedToken[51...]),
            Array("9999999999999".utf8),
        ]
        let numbers: [[UInt8]] = [
            Array("a000000000100000000000000000002".utf8),
            [0x67, 0x80, 0xA9, 0x03, 15, 0, 15, 0] + Array("1760000000017".utf8),
        ]
        #expect(bytes == formatWithHiredis(texts.map { Array($0.utf8) } + tokens + numbers))
    }

    @Test func `A batch is written as hiredis writes it`() {
        let token = Array(String(repeating: "0f", count: 80).utf8)
        var batch = CommandCallBatch(capacity: 2)
        let paces = [Policy.Pace.spaced(1), .spaced(2)]
        for (index, isEnd) in [false, true].enumerated() {
            let registration = OwnedToken(token: token, environment: .sandbox, registeredAtMilliseconds: 12)
            let admission = StateAdmission(
                isEnd: isEnd,
                version: .at(1_760_000_000, 42),
                digest: 0x41_4243_4445,
                pace: paces[index],
                requestsHighPriority: true,
                mayUseReserve: index == 1,
                mayReplaceHeldAlert: true,
                isTooOld: index == 1,
                isReread: true,
                registration: index == 0 ? nil : registration
            )
            TestKey.activity("\(index)").call(.admit(admission), tag: 0)
                .withBorrowedBytes { call in
                    guard case .admit(let admission) = call.operation else { return }
                    Array(TestKey.activity("\(index)").text.utf8).withUnsafeBytes { batch.append($0, admission) }
                }
        }
        let isFull = !batch.hasRoom(for: paces[0])
        #expect(isFull)
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: batch.commandBytesMax + 64, alignment: 1)
        defer { room.deallocate() }
        let prefix = "$7\r\nEVALSHA\r\n$1\r\nx\r\n"
        let count = Array(prefix.utf8).withUnsafeBytes { batch.write(prefix: $0, to: room) }
        let timestamp: [UInt8] = [0x00, 0x78, 0xE7, 0x68, 0]
        let sequence: [UInt8] = [42, 0, 0, 0, 0, 0, 0, 0]
        let callHead = timestamp + sequence
        let digest = Array("EDCBA\0".utf8)
        let registered: [UInt8] = [80, 0, 12, 0, 0, 0, 0, 0, 2]
        let packedToken = [UInt8](repeating: 0x0F, count: 80)
        func pace(_ spacing: UInt8) -> [UInt8] {
            [
                spacing, 0, 0, 0x80, 0xA9, 0x03, 15, 0, 5, 0, spacing, 0, 0, 0x50, 0x46, 0, 200, 0, 50, 0,
                0x60, 0xEA, 0, 0x60, 0xEA, 0, 0, 0, 0, 0,
            ]
        }
        let texts = ["EVALSHA", "x", "2", "{app=0}", "{app=1}"].map { Array($0.utf8) }
        let update: [UInt8] = callHead + [2, 5] + timestamp + digest
        let end: [UInt8] = callHead + [3 + 128 + 64, 8 + 7 + 16] + timestamp + digest
        let arguments: [[UInt8]] = [update + end + registered + packedToken, pace(1), pace(2)]
        #expect(Array(room[..<count]) == formatWithHiredis(texts + arguments))
        batch.removeAll()
        let isEmpty = batch.count == 0 && batch.hasRoom(for: paces[0])
        #expect(isEmpty)
    }

    @Test(arguments: [
        "00", "0123456789abcdef", "ABCDEF", "abc", "xyz!", "a", "0g", String(repeating: "f7", count: 100),
    ])
    func `A token comes back as it was stored`(token: String) {
        for environment in [APNsEnvironment.production, .sandbox] {
            let stored = storedToken(Array(token.utf8), environment)
            let isPacked = token.utf8.count % 2 == 0 && token.allSatisfy { "0123456789abcdef".contains($0) }
            #expect(stored.count == (isPacked ? token.utf8.count / 2 : token.utf8.count) + 1)
            var memory = [UInt8](repeating: 0, count: StoredDeviceToken.bytesMax * 2)
            let decoded = memory.withUnsafeMutableBytes { memory in
                stored.withUnsafeBytes { stored in
                    memory.baseAddress.flatMap { StoredDeviceToken.decode(stored, to: $0) }
                }
            }
            #expect(Array(memory.prefix(decoded?.count ?? 0)) == Array(token.utf8))
            #expect(decoded?.environment == environment)
        }
    }

    @Test func `A version whose timestamp has more than ten digits cannot be stored, and its text is invalid`() {
        #expect(!Version.at(10_000_000_000).isStorable && !Version.at(-1).isStorable && Version.at(0).isStorable)
        for text in [
            "17000000000000000000000000000", "17000000009999999999999999999x", "170000000099999999999999999999",
        ] {
            #expect(!Array(text.utf8).withUnsafeBytes { StoredVersion.isVersionText($0) })
        }
    }
}

/// Returns a token in the form in which Redis stores it.
func storedToken(_ token: [UInt8], _ environment: APNsEnvironment) -> [UInt8] {
    var memory = [UInt8](repeating: 0, count: StoredDeviceToken.bytesMax)
    let count = memory.withUnsafeMutableBytes { memory in
        token.withUnsafeBytes { token in memory.baseAddress.map { StoredDeviceToken.encode(token, environment, to: $0) }
        }
    }
    return Array(memory.prefix(count ?? 0))
}
