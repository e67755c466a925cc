/// What lies around a record's value in the batch that it was fetched in.
///
/// librdkafka allocates a buffer before it looks how many headers a record has. In the format of records since Kafka 0.11 (magic 2:
/// https://kafka.apache.org/documentation/#record) that number stands right behind the value.
enum RecordFormat {
    /// Whether a record is seen to have no headers; false: it must be asked for them.
    ///
    /// - Parameters:
    ///   - key: of the record.
    ///   - value: of the same record.
    ///
    /// What lies behind the value is looked at only when what lies in front of it is of that format: key, the value's length as a varint,
    /// value. In the formats before, and for values from a mebibyte on, the length has four bytes; and were a record's parts copied apart,
    /// no such length would stand there but by chance. A record of this format never ends with its value, unless a broker breaks it: then one byte behind it is
    /// looked at, and the record is at worst taken to have no headers, of which it has none.
    static func showsNoHeaders(key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) -> Bool {
        guard let keyStart = key.baseAddress, let start = value.baseAddress else { return false }
        let lengthStart = keyStart + key.count
        let lengthBytes = UInt(bitPattern: start) &- UInt(bitPattern: lengthStart)
        guard (1...3).contains(lengthBytes) else { return false }
        var length = 0
        for position in 0..<Int(lengthBytes) {
            let byte = lengthStart.load(fromByteOffset: position, as: UInt8.self)
            guard (byte & 0x80 == 0) == (position + 1 == Int(lengthBytes)) else { return false }
            length |= Int(byte & 0x7F) << (7 * position)
        }
        // Numbers alternate in sign: an even one is twice what it stands for.
        guard length == value.count << 1 else { return false }
        return start.load(fromByteOffset: value.count, as: UInt8.self) == 0
    }
}
