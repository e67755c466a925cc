/// Detects records without headers, from the bytes around a record's value in the fetched batch. librdkafka detects
/// them too, but allocates a buffer first.
///
/// In the record format since Kafka 0.11 (magic 2: https://kafka.apache.org/documentation/#record), the key is followed
/// by the value's length (a varint), the value, and the number of headers.
enum HeaderDetection {
    /// Whether a record certainly has no headers. If false, the caller must ask librdkafka. True if exactly the value's
    /// length is between key and value, and the byte after the value is 0.
    ///
    /// - Parameter value: the value of the same record as the key.
    static func certainlyHasNoHeaders(key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) -> Bool {
        guard let keyStart = key.baseAddress, let valueStart = value.baseAddress else { return false }
        let lengthStart = keyStart + key.count
        let lengthBytes = UInt(bitPattern: valueStart) &- UInt(bitPattern: lengthStart)
        // The length has at most three bytes. Older formats have four, and in magic 2 only a value of a mebibyte or
        // more has a longer length. If librdkafka has copied key and value elsewhere, other bytes are between them, and
        // practically never look like the value's length: they are refused here or below.
        guard (1...3).contains(lengthBytes) else { return false }
        var length = 0
        for position in 0..<Int(lengthBytes) {
            let byte = lengthStart.load(fromByteOffset: position, as: UInt8.self)
            guard (byte & 0x80 == 0) == (position + 1 == Int(lengthBytes)) else { return false }
            length |= Int(byte & 0x7F) << (7 * position)
        }
        // The varint is zigzag-encoded, which doubles every number that is not negative.
        guard length == value.count << 1 else { return false }
        // This read is safe: in magic 2, at least one byte follows the value. In a damaged record, this byte may belong
        // to the next record. If it is 0, librdkafka would find no headers either.
        return valueStart.load(fromByteOffset: value.count, as: UInt8.self) == 0
    }
}
