import Numbers
import Testbed
import Testing

@testable import APNs

/// Compares our HPACK encoder and decoder with nghttp2's.
@Suite(.ownThread) struct HeaderCompressionTests {
    @Test func `Our Huffman code is the same as nghttp2's`() throws {
        var generator = SplitMix64(seed: 1)
        let inflater = try Inflater()
        for round in 0..<2_000 {
            let text: [UInt8] =
                round < 256
                ? [UInt8](repeating: UInt8(round), count: 9)
                : (0..<Int.random(in: 0...60, using: &generator))
                    .map { _ in UInt8.random(in: 0...255, using: &generator) }
            let encoded = text.withUnsafeBytes { Huffman.code.encode($0) }
            #expect(encoded.count == text.withUnsafeBytes { Huffman.code.encodedBytes($0) })
            #expect(decodeHuffman(encoded) == text)
            // A literal without indexing, with the name `x`.
            var block: [UInt8] = [0x00, 0x01, UInt8(ascii: "x")]
            block += encodeInteger(encoded.count, flags: 0x80, prefixBits: 7) + encoded
            let fields = try #require(inflater.decode(block))
            #expect(fields.map(\.value) == [text])
        }
    }

    /// Padding of eight bits, padding with bits other than ones, and the end-of-string code are errors (RFC
    /// 7541, section 5.2).
    @Test(
        arguments: [
            [0xFF], [0xFF, 0xFF, 0xFF, 0xFF], [0x00], [0x07, 0xFE], [0x07, 0xFF, 0xFF], [0xFF, 0xFF, 0xFF, 0xFC, 0x07],
        ] as [[UInt8]]
    )
    func `An invalid Huffman code is refused`(_ bytes: [UInt8]) {
        #expect(decodeHuffman(bytes) == nil)
    }

    @Test func `Our decoder reads what the encoder of nghttp2 writes`() throws {
        for seed in 0..<200 {
            var generator = SplitMix64(seed: UInt64(seed))
            let deflater = try Deflater()
            var decoder = HeaderDecoder()
            for _ in 0..<60 {
                if Int.random(in: 0..<10, using: &generator) == 0 {
                    deflater.setTableBytes([0, 40, 100, 300, 4_096].randomElement(using: &generator) ?? 0)
                }
                let fields = randomResponse(&generator)
                let block = deflater.encode(fields, neverIndexed: Bool.random(using: &generator))
                let head = try block.withUnsafeBytes { try decoder.decode($0) }
                let text: (String) -> String? = { name in
                    fields.last { $0.name == Array(name.utf8) }.map { String(decoding: $0.value, as: UTF8.self) }
                }
                #expect(!head.isMalformed)
                #expect(String(head.status) == text(":status"))
                #expect(head.hasIdentifier == (text("apns-id") != nil))
                if let identifier = text("apns-id") {
                    #expect(
                        head.identifier == Array(identifier.utf8).withUnsafeBytes { Hexadecimal.readUUID($0) }
                            ?? (0, 0)
                    )
                }
            }
        }
    }

    /// From each block, our decoder and nghttp2's read the same response, or both refuse the block.
    @Test func `The decoder reads and refuses what nghttp2 reads and refuses`() throws {
        var refusedCount = 0
        var acceptedCount = 0
        for seed in 0..<5_000 {
            var generator = SplitMix64(seed: UInt64(seed))
            let deflater = try Deflater()
            let inflater = try Inflater()
            var decoder = HeaderDecoder()
            for _ in 0..<3 {
                var block = deflater.encode(randomResponse(&generator), neverIndexed: false)
                for _ in 0..<Int.random(in: 0...2, using: &generator) where !block.isEmpty {
                    let position = Int.random(in: 0..<block.count, using: &generator)
                    switch Int.random(in: 0..<4, using: &generator) {
                    case 0: block[position] = UInt8.random(in: 0...255, using: &generator)
                    case 1: block.remove(at: position)
                    case 2: block.insert(UInt8.random(in: 0...255, using: &generator), at: position)
                    default: block.removeSubrange(position...)
                    }
                }
                let referenceFields = inflater.decode(block)
                var decodedHead: ResponseHead?
                do {
                    decodedHead = try block.withUnsafeBytes { try decoder.decode($0) }
                } catch {
                    #expect((error as? ConnectionFault)?.code == .compressionError)
                }
                if referenceFields.map({ ResponseHead(fields: $0).allValues }) != decodedHead?.allValues {
                    Issue.record("seed \(seed): \(block)")
                }
                guard referenceFields != nil, decodedHead != nil else {
                    refusedCount += 1
                    break
                }
                acceptedCount += 1
            }
        }
        #expect(refusedCount > 500 && acceptedCount > 500)
    }

    @Test func `Any bytes are either decoded or refused`() {
        for seed in 0..<5_000 {
            var generator = SplitMix64(seed: UInt64(seed))
            var decoder = HeaderDecoder()
            for _ in 0..<4 {
                let count = Int.random(in: 0...80, using: &generator)
                let block = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
                do {
                    _ = try block.withUnsafeBytes { try decoder.decode($0) }
                } catch {
                    break
                }
            }
        }
    }

    /// Fields that make a response malformed (RFC 9113, sections 8.1.1 to 8.3), and a content length above our limit of
    /// 2^31 - 1 bytes.
    @Test(
        arguments: [
            [(":status", "20")], [(":status", "2000")], [(":status", "099")], [(":status", "")], [(":status", "2x0")],
            [("date", "x"), (":status", "200")], [(":status", "200"), (":status", "200")],
            [(":status", "200"), (":path", "/")], [(":status", "200"), ("Date", "x")],
            [(":status", "200"), ("a b", "x")],
            [(":status", "200"), ("", "x")], [(":status", "200"), ("connection", "close")],
            [(":status", "200"), ("transfer-encoding", "chunked")], [(":status", "200"), ("x", "a\nb")],
            [(":status", "200"), ("x", "a\0b")], [(":status", "200"), ("x", " a")], [(":status", "200"), ("x", "a\t")],
            [(":status", "200"), ("x", "123456789\r0")], [(":status", "200"), ("content-length", "")],
            [(":status", "200"), ("content-length", "-1")], [(":status", "200"), ("content-length", "2147483648")],
            [(":status", "200"), ("content-length", "1"), ("content-length", "2")],
        ] as [[(String, String)]]
    )
    func `Some fields make a response malformed`(_ fields: [(String, String)]) throws {
        // The first pass has literals, the second one indexes into the header table.
        let deflater = try Deflater()
        var decoder = HeaderDecoder()
        for _ in 0..<2 {
            let block = deflater.encode(
                fields.map { TextField(name: Array($0.0.utf8), value: Array($0.1.utf8)) },
                neverIndexed: false
            )
            let head = try block.withUnsafeBytes { try decoder.decode($0) }
            #expect(head.isMalformed)
        }
    }

    /// nghttp2 reads the intended fields, even if the header table's size changes between blocks.
    @Test func `The decoder of nghttp2 reads what our encoder writes`() throws {
        for seed in 0..<300 {
            var generator = SplitMix64(seed: UInt64(seed))
            let inflater = try Inflater()
            let authority = seed % 2 == 0 ? "api.push.apple.com" : "a.example:2197"
            var encoder = HeaderEncoder(
                appHeaders: try AppPushHeaders(liveActivitiesOf: "com.example.scores"),
                authority: authority
            )
            var authorization = Array("bearer first".utf8)
            authorization.withUnsafeBytes { encoder.setAuthorization($0) }
            for round in 0..<40 {
                if Int.random(in: 0..<6, using: &generator) == 0 {
                    for _ in 0..<Int.random(in: 1...3, using: &generator) {
                        let size = [0, 64, 200, 500, 1_000, 4_096, 65_536].randomElement(using: &generator) ?? 0
                        encoder.setPeerTableBytes(UInt32(size))
                        inflater.setTableBytes(size)
                    }
                }
                if round % 13 == 7 {
                    authorization = Array("bearer \(seed).\(round)".utf8)
                    authorization.withUnsafeBytes { encoder.setAuthorization($0) }
                }
                let digits = [64, 2, 160, 200].randomElement(using: &generator) ?? 64
                let token = [UInt8](repeating: UInt8(ascii: "7"), count: digits)
                let priority: UInt8 = Bool.random(using: &generator) ? 5 : 10
                let expirationsSeconds: [Int64] = [0, 9, 10, 1_790_000_000, .max]
                let expirationSeconds = expirationsSeconds.randomElement(using: &generator) ?? 0
                let identifier = (generator.next(), generator.next())
                if Int.random(in: 0..<4, using: &generator) == 0 {
                    let broadcastBytes = broadcastBlock(of: &encoder, priority, expirationSeconds, identifier)
                    let fields = try #require(inflater.decode(broadcastBytes), "seed \(seed), round \(round)")
                    let authorization = String(decoding: authorization, as: UTF8.self)
                    let expected = broadcastFields(authority, authorization, priority, expirationSeconds, identifier)
                    #expect(fields == expected, "seed \(seed), round \(round)")
                }
                var block = [UInt8](repeating: 0, count: encoder.blockBytesMax)
                let count = block.withUnsafeMutableBytes { output in
                    token.withUnsafeBytes { token in
                        output.baseAddress.map {
                            encoder.writePush(
                                to: $0,
                                deviceToken: token,
                                priority: priority,
                                expirationSeconds: expirationSeconds,
                                identifier: identifier
                            )
                        } ?? 0
                    }
                }
                let fields = try #require(inflater.decode(Array(block[..<count])), "seed \(seed), round \(round)")
                let texts = fields.map {
                    (String(decoding: $0.name, as: UTF8.self), String(decoding: $0.value, as: UTF8.self))
                }
                let expected = [
                    (":method", "POST"), (":scheme", "https"), (":authority", authority),
                    (":path", "/3/device/" + String(decoding: token, as: UTF8.self)),
                    ("authorization", String(decoding: authorization, as: UTF8.self)),
                    ("apns-push-type", "liveactivity"), ("apns-topic", "com.example.scores.push-type.liveactivity"),
                    ("apns-priority", String(priority)), ("apns-expiration", String(expirationSeconds)),
                    ("apns-id", identifierText(identifier)),
                ]
                #expect(texts.elementsEqual(expected) { $0 == $1 }, "seed \(seed), round \(round)")
            }
        }
    }

    private func broadcastBlock(
        of encoder: inout HeaderEncoder,
        _ priority: UInt8,
        _ expirationSeconds: Int64,
        _ identifier: (UInt64, UInt64)
    ) -> [UInt8] {
        var block = [UInt8](repeating: 0, count: encoder.blockBytesMax)
        let count = block.withUnsafeMutableBytes { output in
            Array("dHN0LXNyY2gtY2hubA==".utf8)
                .withUnsafeBytes { channel in
                    output.baseAddress.map {
                        encoder.writeBroadcast(
                            to: $0,
                            channel: channel,
                            priority: priority,
                            expirationSeconds: expirationSeconds,
                            identifier: identifier
                        )
                    } ?? 0
                }
        }
        return Array(block[..<count])
    }

    private func broadcastFields(
        _ authority: String,
        _ authorization: String,
        _ priority: UInt8,
        _ expirationSeconds: Int64,
        _ identifier: (UInt64, UInt64)
    ) -> [TextField] {
        [
            TextField(":method", "POST"), TextField(":scheme", "https"), TextField(":authority", authority),
            TextField(":path", "/4/broadcasts/apps/com.example.scores"), TextField("authorization", authorization),
            TextField("apns-push-type", "liveactivity"), TextField("apns-channel-id", "dHN0LXNyY2gtY2hubA=="),
            TextField("apns-priority", String(priority)), TextField("apns-expiration", String(expirationSeconds)),
            TextField("apns-request-id", identifierText(identifier)),
        ]
    }

    // MARK: - Texts and random fields

    private func decodeHuffman(_ bytes: [UInt8]) -> [UInt8]? {
        var output = [UInt8](repeating: 0, count: Huffman.decodedBytesMax(encodedBytes: bytes.count))
        let count = output.withUnsafeMutableBytes { output in
            bytes.withUnsafeBytes { Huffman.code.decode($0, into: output) }
        }
        return count.map { Array(output[..<$0]) }
    }

    private func identifierText(_ identifier: (UInt64, UInt64)) -> String {
        let text = [UInt8](unsafeUninitializedCapacity: Hexadecimal.uuidTextByteCount) { buffer, count in
            if let start = buffer.baseAddress { Hexadecimal.writeUUID(identifier, to: start) }
            count = Hexadecimal.uuidTextByteCount
        }
        #expect(text.withUnsafeBytes { Hexadecimal.readUUID($0) } ?? (0, 0) == identifier)
        return String(decoding: text, as: UTF8.self)
    }

    private func randomResponse(_ generator: inout SplitMix64) -> [TextField] {
        let statuses = ["200", "204", "400", "403", "410", "429", "500", "503", "799"]
        var fields = [TextField(":status", statuses.randomElement(using: &generator) ?? "200")]
        if Bool.random(using: &generator) {
            fields.append(TextField("apns-id", identifierText((generator.next(), generator.next()))))
        }
        if Int.random(in: 0..<4, using: &generator) == 0 {
            fields.append(TextField("retry-after", String(Int.random(in: 0...86_400, using: &generator))))
        }
        for _ in 0..<Int.random(in: 0...3, using: &generator) {
            let name = ["x-a", "server", "date", "apns-unique-id"].randomElement(using: &generator) ?? "x"
            let count = Int.random(in: 0...120, using: &generator)
            let value = (0..<count).map { _ in UInt8.random(in: 0x21...0x7E, using: &generator) }
            fields.append(TextField(name: Array(name.utf8), value: value))
        }
        return fields
    }

    private func encodeInteger(_ value: Int, flags: UInt8, prefixBits: Int) -> [UInt8] {
        let prefixMax = 1 << prefixBits - 1
        if value < prefixMax { return [flags | UInt8(value)] }
        var bytes = [flags | UInt8(prefixMax)]
        var rest = value - prefixMax
        while rest >= 128 {
            bytes.append(UInt8(rest & 127) | 128)
            rest >>= 7
        }
        return bytes + [UInt8(rest)]
    }
}

extension ResponseHead {
    /// Builds the expected response head from fields that nghttp2's decoder has read.
    init(fields: [TextField]) {
        self.init()
        for field in fields {
            var read = field.name.withUnsafeBytes { HeaderField(name: $0) }
            field.value.withUnsafeBytes { read.setValue($0) }
            add(read)
        }
    }

    /// All values of the response as numbers, for comparison.
    var allValues: [UInt64] {
        let numbers = [Int64(status), Int64(contentLengthBytes)].map(UInt64.init(bitPattern:))
        return numbers + [identifier.0, identifier.1, hasIdentifier ? 1 : 0, isMalformed ? 1 : 0]
    }
}
