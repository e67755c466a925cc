/// Reads the bytes around a record's value in the fetched batch, to detect records without headers.
///
/// librdkafka allocates a buffer before it checks how many headers a record has. In the record format since
/// Kafka 0.11 (magic 2: https://kafka.apache.org/documentation/#record) the number of headers follows the
/// value directly.
enum BatchFormat {
    /// Whether a record certainly has no headers. If false, ask librdkafka.
    ///
    /// The byte after the value is used only if the bytes before the value have this format: the key, then
    /// the value's length as a varint. Older formats have four bytes for the length, and so have values of a
    /// mebibyte or more. If librdkafka had copied key and value to separate places, these bytes would match
    /// only by chance.
    ///
    /// In this format at least one byte follows the value, unless a broker damaged the record. In this case
    /// one byte after the record is read. At worst the record counts as one without headers, and it has none.
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
