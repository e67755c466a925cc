import LiveActivity

/// Gives recorded commands the present time, and commands of the same second an order. Otherwise a phone would drop a command as too old,
/// and a command sent again within the second would be a duplicate.
struct RecordStamp {
    private static let microsecondsPerSecond: Int64 = 1_000_000

    private var lastMicroseconds: Int64 = 0

    /// The command with `aps.timestamp` replaced, and with the time within the second as `sequence` unless it has one. Each command is
    /// newer than the one before. Anything that is no command is returned unchanged.
    mutating func stamped(_ record: [UInt8], unixMicroseconds: Int64) -> [UInt8] {
        guard let command = Self.command(record) else { return record }
        let microseconds = max(unixMicroseconds, lastMicroseconds + 1)
        let place = command.timestampDigits
        let digits = Array(String(microseconds / Self.microsecondsPerSecond).utf8)
        // Both have ten digits until the year 2286.
        guard digits.count == Int(place.count) else { return record }
        lastMicroseconds = microseconds
        var stamped = record
        stamped.replaceSubrange(Int(place.offset)..<place.end, with: digits)
        guard command.version.sequence == 0, let brace = stamped.firstIndex(of: UInt8(ascii: "{")) else {
            return stamped
        }
        var ordered = stamped
        let member = "\"sequence\":\(microseconds % Self.microsecondsPerSecond),"
        ordered.insert(contentsOf: member.utf8, at: brace + 1)
        // A record that says `"sequence": 0` itself cannot have the member twice.
        return Self.command(ordered) == nil ? stamped : ordered
    }

    private static func command(_ record: [UInt8]) -> Command? {
        try? record.withUnsafeBytes { try Command.decodeAnySize($0) }
    }
}
