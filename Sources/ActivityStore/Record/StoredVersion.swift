import LiveActivity
import Numbers
import Redis

/// A version as it is stored: five bytes of timestamp and eight of sequence. Equal versions have equal bytes.
enum StoredVersion {
    static let byteCount = 13
    static let timestampDigitCount = 10
    /// The length of a version's text: ten digits of timestamp and twenty of sequence. Comparing two texts gives the
    /// same result as comparing the versions.
    static let textByteCount = timestampDigitCount + Decimal.digitsMax

    static func write(_ version: Version, to destination: UnsafeMutableRawPointer) {
        LittleEndian.write(UInt64(clamping: version.timestamp), byteCount: StoredActivity.secondsBytes, to: destination)
        LittleEndian.write(version.sequence, byteCount: 8, to: destination + StoredActivity.secondsBytes)
    }

    /// Reads a stored version; nil if there are not exactly ``byteCount`` bytes.
    static func read(_ stored: UnsafeRawBufferPointer) -> Version? {
        guard stored.count == byteCount else { return nil }
        return Version(
            timestamp: Int64(LittleEndian.read(stored[..<StoredActivity.secondsBytes])),
            sequence: LittleEndian.read(stored[StoredActivity.secondsBytes...])
        )
    }

    static func writeText(_ version: Version, to destination: UnsafeMutableRawPointer) {
        Decimal.write(UInt64(clamping: version.timestamp), digitCount: timestampDigitCount, to: destination)
        Decimal.write(version.sequence, digitCount: Decimal.digitsMax, to: destination + timestampDigitCount)
    }

    /// Whether the bytes are the text of a version: thirty digits, with a sequence that fits into 64 bits.
    static func isVersionText(_ text: UnsafeRawBufferPointer) -> Bool { readText(text) != nil }

    /// Reads the text of a version; nil if the bytes are not the text of a version.
    static func readText(_ text: UnsafeRawBufferPointer) -> Version? {
        guard text.count == textByteCount,
            let timestamp = Decimal.parse(UnsafeRawBufferPointer(rebasing: text[..<timestampDigitCount])),
            let sequence = Decimal.parse(UnsafeRawBufferPointer(rebasing: text[timestampDigitCount...]))
        else { return nil }
        return Version(timestamp: Int64(timestamp), sequence: sequence)
    }
}

extension Version {
    /// Whether the timestamp is not negative and has at most ten digits, so that the version can be stored.
    var isStorable: Bool { (0...Limits.timestampMax).contains(timestamp) }
}
