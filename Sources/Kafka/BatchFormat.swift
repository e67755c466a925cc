/// The bytes around a record's value, in the batch that it was fetched in.
///
/// librdkafka allocates a buffer before it checks how many headers a record has. In the record format since Kafka 0.11
/// (magic 2: https://kafka.apache.org/documentation/#record) that number follows the value directly.
enum BatchFormat {
    /// Whether a record certainly has no headers. If false, ask librdkafka.
    ///
    /// The byte behind the value is trusted only if the bytes before the value have this format: the key, then the
    /// value's length as a varint. Older formats have four bytes for the length, and so have values of a mebibyte or
    /// more. If librdkafka had copied a record's parts apart, the bytes would match only by chance.
    ///
    /// A record of this format never ends with its value unless a broker broke it. Then one byte behind the record is
    /// read, and at worst the record counts as one without headers, which it is.
    ///
    /// - Parameters:
    ///   - key: the record's key.
    ///   - value: the value of the same record.
    static func certainlyHasNoHeaders(key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) -> Bool {
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
        // Zigzag encoding: a number that is not negative is stored doubled.
        guard length == value.count << 1 else { return false }
        return start.load(fromByteOffset: value.count, as: UInt8.self) == 0
    }
}
