import LiveActivity

/// Gives recorded commands the current time, and gives commands of the same second an order. Otherwise a
/// phone would drop a command as too old, and a command that is sent twice in a second would be a duplicate.
struct RecordStamp {
    private static let microsecondsPerSecond: Int64 = 1_000_000

    private var lastMicroseconds: Int64 = 0

    /// Returns the command with the current `aps.timestamp`, which is added if it is missing. A command
    /// without a `sequence` gets the microseconds within the second as `sequence`, so each command is newer
    /// than the one before. A record that is not a command is returned unchanged.
    mutating func stamped(_ record: [UInt8], unixMicroseconds: Int64) -> [UInt8] {
        guard let (dated, command) = Self.dated(record) else { return record }
        let microseconds = max(unixMicroseconds, lastMicroseconds + 1)
        let place = command.timestampDigits
        let digits = Array(String(microseconds / Self.microsecondsPerSecond).utf8)
        // Old and new timestamp have ten digits until the year 2286, so the digits can be overwritten.
        guard digits.count == Int(place.count) else { return record }
        lastMicroseconds = microseconds
        var stamped = dated
        stamped.replaceSubrange(Int(place.offset)..<place.end, with: digits)
        guard command.version.sequence == 0, let brace = stamped.firstIndex(of: UInt8(ascii: "{")) else {
            return stamped
        }
        var ordered = stamped
        let member = "\"sequence\":\(microseconds % Self.microsecondsPerSecond),"
        ordered.insert(contentsOf: member.utf8, at: brace + 1)
        // A record that has `"sequence": 0` already cannot get a second `sequence`.
        guard case .success = Self.decoded(ordered) else { return stamped }
        return ordered
    }

    /// Returns the command with its own or an added timestamp; nil if the record has another fault.
    private static func dated(_ record: [UInt8]) -> ([UInt8], Command)? {
        switch decoded(record) {
        case .success(let command): return (record, command)
        case .failure(let fault):
            guard fault.code == .missingField, fault.field.field == .timestamp else { return nil }
            // The fault's offset is the opening brace of `aps`. The object has an event, so a comma may
            // follow the timestamp.
            var dated = record
            dated.insert(contentsOf: "\"timestamp\":1000000000,".utf8, at: fault.offset + 1)
            return (try? decoded(dated).get()).map { (dated, $0) }
        }
    }

    private static func decoded(_ record: [UInt8]) -> Result<Command, Fault> {
        record.withUnsafeBytes { bytes in
            Result { () throws(Fault) in try Command.decodeAnySize(bytes) }
        }
    }
}
