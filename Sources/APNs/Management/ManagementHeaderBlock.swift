/// Reads and writes header blocks of the management service (RFC 7541). Neither side uses a dynamic table, because a
/// few requests an hour need no compression. ``HeaderDecoder`` cannot serve here, because it does not keep the texts of
/// fields.
enum ManagementHeaderBlock {
    /// The table size in our SETTINGS. 0 keeps the server from adding fields to a dynamic table.
    static let tableBytesMax: UInt32 = 0
    /// The longest encoded name or value that the decoder accepts.
    private static let stringBytesMax = 8_192

    /// Writes a request's fields as literals that are never indexed. The first byte of the block announces the table
    /// size 0.
    static func encode(_ fields: [(name: String, value: String)]) -> [UInt8] {
        var block: [UInt8] = [0x20]
        for field in fields {
            block.append(0x10)
            append(string: field.name, to: &block)
            append(string: field.value, to: &block)
        }
        return block
    }

    private static func append(string: String, to block: inout [UInt8]) {
        append(integer: string.utf8.count, to: &block)
        block.append(contentsOf: string.utf8)
    }

    /// Appends an integer with a prefix of 7 bits (RFC 7541, section 5.1).
    private static func append(integer: Int, to block: inout [UInt8]) {
        guard integer >= 127 else { return block.append(UInt8(integer)) }
        block.append(127)
        var rest = integer - 127
        while rest >= 128 {
            block.append(UInt8(rest & 127) | 128)
            rest >>= 7
        }
        block.append(UInt8(rest))
    }

    /// Reads the fields of a response. Of HPACK's static table, this method knows only `:status`; any other field of
    /// the table gets an empty name. That is enough: of all other fields, the caller reads only `apns-channel-id`,
    /// which is not in the table.
    static func decode(_ block: UnsafeRawBufferPointer) throws(ConnectionFault) -> [(name: String, value: String)] {
        var reader = Reader(rest: block)
        var fields: [(name: String, value: String)] = []
        while let first = reader.rest.first {
            if first & 0x80 != 0 {
                fields.append(try staticField(try reader.readInteger(prefixBits: 7)))
            } else if first & 0xE0 == 0x20 {
                guard try reader.readInteger(prefixBits: 5) == 0 else {
                    throw compressionFault("a table that was not allowed")
                }
            } else {
                let index = try reader.readInteger(prefixBits: first & 0x40 != 0 ? 6 : 4)
                let name = index == 0 ? try reader.readString() : try staticField(index).name
                fields.append((name, try reader.readString()))
            }
        }
        return fields
    }

    /// Returns an entry of the static table (RFC 7541, appendix A): a `:status`, or an empty name for any other entry.
    private static func staticField(_ index: Int) throws(ConnectionFault) -> (name: String, value: String) {
        let statuses = ["200", "204", "206", "304", "400", "404", "500"]
        switch index {
        case 8...14: return (":status", statuses[index - 8])
        case 1...StaticHeaders.count: return ("", "")
        default: throw compressionFault("an index beyond the table (RFC 7541, 2.3.3)")
        }
    }

    private static func compressionFault(_ detail: StaticString) -> ConnectionFault {
        ConnectionFault(.compressionError, detail)
    }

    private struct Reader {
        var rest: UnsafeRawBufferPointer

        mutating func readByte() throws(ConnectionFault) -> UInt8 {
            guard let byte = rest.first else {
                throw ManagementHeaderBlock.compressionFault("a header block that ends too soon")
            }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst())
            return byte
        }

        mutating func readInteger(prefixBits: UInt8) throws(ConnectionFault) -> Int {
            let prefixMax = UInt8(1) << prefixBits - 1
            var number = Int(try readByte() & prefixMax)
            guard number == Int(prefixMax) else { return number }
            for shift in stride(from: 0, through: 21, by: 7) {
                let next = try readByte()
                number += Int(next & 127) << shift
                if next & 128 == 0 { return number }
            }
            throw ManagementHeaderBlock.compressionFault("a number that is too large (RFC 7541, 7.4)")
        }

        mutating func readString() throws(ConnectionFault) -> String {
            let isHuffman = (rest.first ?? 0) & 0x80 != 0
            let count = try readInteger(prefixBits: 7)
            guard count <= rest.count, count <= ManagementHeaderBlock.stringBytesMax else {
                throw ManagementHeaderBlock.compressionFault("a string that is too long (RFC 7541, 7.4)")
            }
            let bytes = UnsafeRawBufferPointer(rebasing: rest[..<count])
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            guard isHuffman else { return String(decoding: bytes, as: UTF8.self) }
            let room = Huffman.decodedBytesMax(encodedBytes: count) + 16
            let text: String? = withUnsafeTemporaryAllocation(byteCount: room, alignment: 16) { output in
                Huffman.code.decode(bytes, into: output)
                    .map { String(decoding: UnsafeRawBufferPointer(rebasing: output[..<$0]), as: UTF8.self) }
            }
            guard let text else {
                throw ManagementHeaderBlock.compressionFault("a string that is not Huffman code (RFC 7541, 5.2)")
            }
            return text
        }
    }
}
