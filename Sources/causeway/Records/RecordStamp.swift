import LiveActivity

/// Moves a command to now: what was recorded yesterday is old news to a phone.
enum RecordStamp {
    /// The command with `aps.timestamp` replaced; anything that is no command comes back as it is.
    static func stamped(_ record: [UInt8], unixSeconds: Int64) -> [UInt8] {
        guard let command = try? record.withUnsafeBytes({ try Command.decode($0) }) else { return record }
        let place = command.timestampDigits
        let digits = Array(String(unixSeconds).utf8)
        // Both have ten digits for some centuries to come.
        guard digits.count == Int(place.count) else { return record }
        var stamped = record
        stamped.replaceSubrange(Int(place.offset)..<place.end, with: digits)
        return stamped
    }
}
