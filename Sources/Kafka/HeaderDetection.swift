/// Detects records without headers, from the bytes around a record's value in the fetched batch.
///
/// librdkafka itself allocates a buffer before it knows that a record has no headers. In the record format since Kafka
/// 0.11 (magic 2: https://kafka.apache.org/documentation/#record), the number of headers follows the value directly.
enum HeaderDetection {
    /// Whether a record certainly has no headers. If false, the caller must ask librdkafka.
    ///
    /// The format of magic 2 has this order: key, length of the value (a varint), value, number of headers. So this
    /// function checks that the bytes between key and value are the value's length, and then reads the byte after the
    /// value: 0 means no headers.
    ///
    /// - Parameter value: the value of the same record as the key.
    static func certainlyHasNoHeaders(key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) -> Bool {
        guard let keyStart = key.baseAddress, let valueStart = value.baseAddress else { return false }
        let lengthStart = keyStart + key.count
        let lengthBytes = UInt(bitPattern: valueStart) &- UInt(bitPattern: lengthStart)
        // Accept only a length of up to three bytes, because older formats store every length in four bytes. (In magic
        // 2, only a value of a mebibyte or more has a longer length.) If librdkafka has copied key and value to
        // separate addresses, the bytes between them are practically never the value's length, and are refused below.
        guard (1...3).contains(lengthBytes) else { return false }
        var length = 0
        for position in 0..<Int(lengthBytes) {
            let byte = lengthStart.load(fromByteOffset: position, as: UInt8.self)
            guard (byte & 0x80 == 0) == (position + 1 == Int(lengthBytes)) else { return false }
            length |= Int(byte & 0x7F) << (7 * position)
        }
        // The varint is zigzag-encoded, which doubles every number that is not negative.
        guard length == value.count << 1 else { return false }
        // This read is safe: in magic 2, at least one byte follows the value. If a broker has damaged the record, this
        // byte may belong to the next record. At worst, the record then counts as one without headers, and librdkafka
        // would find no headers in it either.
        return valueStart.load(fromByteOffset: value.count, as: UInt8.self) == 0
    }
}
