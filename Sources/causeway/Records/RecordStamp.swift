import LiveActivity

/// Gives a recorded command the present time. Otherwise a phone would drop it as too old.
enum RecordStamp {
    /// The command with `aps.timestamp` replaced. Anything that is no command is returned unchanged.
    static func stamped(_ record: [UInt8], unixSeconds: Int64) -> [UInt8] {
        guard let command = try? record.withUnsafeBytes({ try Command.decode($0) }) else { return record }
        let place = command.timestampDigits
        let digits = Array(String(unixSeconds).utf8)
        // Both have ten digits until the year 2286.
        guard digits.count == Int(place.count) else { return record }
        var stamped = record
        stamped.replaceSubrange(Int(place.offset)..<place.end, with: digits)
        return stamped
    }
}
