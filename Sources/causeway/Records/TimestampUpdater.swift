import LiveActivity

/// Gives recorded commands the current time, because a phone ignores a command with an old time. Commands also get a
/// sequence, which replaces their own. Otherwise two commands of the same second could have equal versions, or the
/// later one the lower version.
struct TimestampUpdater {
    private static let microsecondsPerSecond: Int64 = 1_000_000

    /// The time that the last command got, UNIX microseconds.
    private var lastCommandAtMicroseconds: Int64 = 0

    /// Returns the command with the current time as `aps.timestamp`. The command's `sequence` becomes the microseconds
    /// within the second, so the command is newer than each earlier one that got a `sequence` from this method.
    ///
    /// A record is returned unchanged if it is not a valid command, or if its timestamp does not have ten digits. It
    /// gets only the timestamp if it is not valid with a `sequence`, for example because it is then too large.
    mutating func withCurrentTimestamp(_ record: [UInt8], unixMicroseconds: Int64) -> [UInt8] {
        guard let (recordWithTimestamp, command) = Self.addTimestampIfMissing(to: record) else { return record }
        let microseconds = max(unixMicroseconds, lastCommandAtMicroseconds + 1)
        let timestampRange = command.timestampDigits
        let digits = Array(String(microseconds / Self.microsecondsPerSecond).utf8)
        // Overwrite the digits only if the new number has as many. Timestamps have ten digits until the year 2286.
        guard digits.count == Int(timestampRange.count) else { return record }
        lastCommandAtMicroseconds = microseconds
        var updatedRecord = recordWithTimestamp
        updatedRecord.replaceSubrange(Int(timestampRange.offset)..<timestampRange.end, with: digits)
        guard let brace = updatedRecord.firstIndex(of: UInt8(ascii: "{")) else {
            return updatedRecord
        }
        var recordWithSequence = updatedRecord
        let member = "\"sequence\":\(microseconds % Self.microsecondsPerSecond),"
        recordWithSequence.insert(contentsOf: member.utf8, at: brace + 1)
        // If the record already had a sequence, it now has two, and decoding fails. Then remove the old sequence, which
        // comes second.
        guard case .failure(let fault) = Self.decode(recordWithSequence) else { return recordWithSequence }
        var repair = RecordRepair(recordWithSequence)
        guard fault.code == .duplicateKey, fault.path.field == .sequence, repair.repair(fault) else {
            return updatedRecord
        }
        return repair.bytes
    }

    /// Decodes a record. If only its timestamp is missing, inserts a placeholder and decodes the record again. Returns
    /// the record, with the placeholder if it needed one, and the decoded command; nil if the record has another fault.
    private static func addTimestampIfMissing(to record: [UInt8]) -> ([UInt8], Command)? {
        switch decode(record) {
        case .success(let command): return (record, command)
        case .failure(let fault):
            guard fault.code == .missingField, fault.path.field == .timestamp else { return nil }
            // Insert the timestamp behind the opening brace of `aps`, which is the fault's offset. The object has at
            // least an event, so a comma must follow the timestamp.
            var recordWithTimestamp = record
            recordWithTimestamp.insert(contentsOf: "\"timestamp\":1000000000,".utf8, at: fault.offset + 1)
            return (try? decode(recordWithTimestamp).get()).map { (recordWithTimestamp, $0) }
        }
    }

    private static func decode(_ record: [UInt8]) -> Result<Command, Fault> {
        record.withUnsafeBytes { bytes in
            Result { () throws(Fault) in try Command.decodeIgnoringBodyLimit(bytes) }
        }
    }
}
