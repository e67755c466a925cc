import LiveActivity
import Numbers
import Redis

/// A version as it is stored: five bytes of the timestamp and eight of the sequence, thirteen that are equal if the versions are.
enum StoredVersion {
    static let bytes = 13
    static let timestampDigits = 10
    /// Digits of a version's text: ten of the timestamp, twenty of the sequence. Texts compare as the versions do.
    static let textBytes = timestampDigits + Decimal.digitsMax

    static func write(_ version: Version, to destination: UnsafeMutableRawPointer) {
        LittleEndian.write(UInt64(clamping: version.timestamp), bytes: StoredRecord.secondsBytes, to: destination)
        LittleEndian.write(version.sequence, bytes: 8, to: destination + StoredRecord.secondsBytes)
    }

    /// Nil if they are not as many bytes as a version has.
    static func read(_ stored: UnsafeRawBufferPointer) -> Version? {
        guard stored.count == bytes else { return nil }
        return Version(
            timestamp: Int64(LittleEndian.read(stored[..<StoredRecord.secondsBytes])),
            sequence: LittleEndian.read(stored[StoredRecord.secondsBytes...])
        )
    }

    static func writeText(_ version: Version, to destination: UnsafeMutableRawPointer) {
        Decimal.write(UInt64(clamping: version.timestamp), digits: timestampDigits, to: destination)
        Decimal.write(version.sequence, digits: Decimal.digitsMax, to: destination + timestampDigits)
    }

    /// Whether bytes are the text of a version: thirty digits of which the sequence's fit into 64 bits.
    static func isText(_ text: UnsafeRawBufferPointer) -> Bool {
        text.count == textBytes
            && Decimal.parse(UnsafeRawBufferPointer(rebasing: text[..<timestampDigits])) != nil
            && Decimal.parse(UnsafeRawBufferPointer(rebasing: text[timestampDigits...])) != nil
    }
}

extension Version {
    /// Whether the timestamp has at most ten digits, and so can be stored.
    var isStorable: Bool { (0...Limits.timestampMost).contains(timestamp) }
}
