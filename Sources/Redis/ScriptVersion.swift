/// What orders the commands of one address: `aps.timestamp` and, where timestamps are equal, the sequence.
public struct ScriptVersion: Sendable, Hashable, Comparable {
    static let timestampDigits = 10
    /// Digits of a version's text: ten of the timestamp, twenty of the sequence.
    public static let textBytes = timestampDigits + Decimal.digitsMax
    /// The largest timestamp that ten digits hold.
    public static let timestampSecondsMax: UInt64 = 9_999_999_999

    /// UNIX seconds, 0 through ``timestampSecondsMax``.
    public let timestampSeconds: UInt64
    public let sequence: UInt64

    /// Nil if the timestamp has more than ten digits.
    public init?(timestampSeconds: UInt64, sequence: UInt64) {
        guard timestampSeconds <= Self.timestampSecondsMax else { return nil }
        self.timestampSeconds = timestampSeconds
        self.sequence = sequence
    }

    /// Reads the text form. Nil if it is not thirty digits, or the sequence does not fit into 64 bits.
    public init?(text: UnsafeRawBufferPointer) {
        guard text.count == Self.textBytes,
            let timestamp = Decimal.parse(UnsafeRawBufferPointer(rebasing: text[..<Self.timestampDigits])),
            let sequence = Decimal.parse(UnsafeRawBufferPointer(rebasing: text[Self.timestampDigits...]))
        else { return nil }
        self.init(timestampSeconds: timestamp, sequence: sequence)
    }

    public static func < (left: Self, right: Self) -> Bool {
        (left.timestampSeconds, left.sequence) < (right.timestampSeconds, right.sequence)
    }

    /// Writes the text form, ``textBytes`` long; texts compare as the versions do.
    func write(to destination: UnsafeMutableRawPointer) {
        Decimal.write(timestampSeconds, digits: Self.timestampDigits, to: destination)
        Decimal.write(sequence, digits: Decimal.digitsMax, to: destination + Self.timestampDigits)
    }
}
