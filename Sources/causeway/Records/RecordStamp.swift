import LiveActivity

/// Gives recorded commands the present time, and commands of the same second an order. Otherwise a phone would drop a command as too old,
/// and a command sent again within the second would be a duplicate.
struct RecordStamp {
    private static let microsecondsPerSecond: Int64 = 1_000_000

    private var lastMicroseconds: Int64 = 0

    /// The command with the present `aps.timestamp`, which is added if it is missing, and with the time within the second as `sequence`
    /// unless it has one. Each command is newer than the one before. Anything that is no command is returned unchanged.
    mutating func stamped(_ record: [UInt8], unixMicroseconds: Int64) -> [UInt8] {
        guard let (dated, command) = Self.dated(record) else { return record }
        let microseconds = max(unixMicroseconds, lastMicroseconds + 1)
        let place = command.timestampDigits
        let digits = Array(String(microseconds / Self.microsecondsPerSecond).utf8)
        // Both have ten digits until the year 2286.
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
        // A record that says `"sequence": 0` itself cannot have the member twice.
        guard case .success = Self.decoded(ordered) else { return stamped }
        return ordered
    }

    /// The command with a timestamp, of its own or added; nil if the record is wrong in another way.
    private static func dated(_ record: [UInt8]) -> ([UInt8], Command)? {
        switch decoded(record) {
        case .success(let command): return (record, command)
        case .failure(let fault):
            guard fault.code == .missingField, fault.field.field == .timestamp else { return nil }
            // The place of the fault is the brace of `aps`, which has an event.
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
