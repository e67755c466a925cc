/// The record of a command that starts an activity again whose lifetime is over.
public enum RestartRecord {
    /// Composes the record from commands that the timetable of lifetimes kept. The new start has the attributes, the alert and the
    /// custom keys of the former one, and the state that the activity showed last. If the body would not fit with that state, it has
    /// the former start's state.
    ///
    /// Left out are the former start's `id`, `sequence` and `expiration`; `stale-date`, which has usually passed; and the alert's
    /// `sound`: a start without an alert is ignored, but its user has not asked for anything.
    /// - Parameters:
    ///   - start: the record of the activity's newest start.
    ///   - shown: the record of the newest update that the activity has shown; nil: there is none. Not used if the start is newer.
    ///   - restartMilliseconds: when the former life ended, UNIX milliseconds: the start's timestamp, and the number in its id.
    /// - Returns: nil if the start's record is damaged.
    public static func compose(start: [UInt8], shown: [UInt8]?, restartMilliseconds: Int64) -> [UInt8]? {
        guard let former = decoded(start), former.event == .start else { return nil }
        var state: [UInt8]?
        if let shown, let command = decoded(shown), command.version > former.version {
            state = bytes(command.contentState, of: shown)
        }
        var bare = start
        for key in ["id", "sequence", "expiration"] { remove([key], from: .record, of: &bare) }
        remove(["stale-date"], from: .aps, of: &bare)
        remove(["alert", "sound"], from: .aps, of: &bare)
        let identifier = LifetimeIdentifier.text(beganMilliseconds: restartMilliseconds)
        bare.replaceSubrange(1..<1, with: Array(#""id":"\#(identifier)","#.utf8))
        replace(\.timestampDigits, of: &bare, with: Array("\(restartMilliseconds / 1_000)".utf8))
        guard acceptedCommand(bare) != nil else { return nil }
        guard let state else { return bare }
        var full = bare
        replace(\.contentState, of: &full, with: state)
        return acceptedCommand(full)?.fits == true ? full : bare
    }

    private enum Place { case record, aps }

    /// Nil if the record is damaged. It may have what only records have that Causeway wrote.
    private static func decoded(_ record: [UInt8]) -> Command? {
        record.withUnsafeBytes { try? Command.decodeHeld($0) }
    }

    /// The command as a worker reads it; its body may be too large. Nil if a worker would refuse it.
    private static func acceptedCommand(_ record: [UInt8]) -> Command? {
        record.withUnsafeBytes { try? Command.decode($0) }
    }

    private static func bytes(_ range: ByteRange, of record: [UInt8]) -> [UInt8]? {
        range.isAbsent ? nil : record.withUnsafeBytes { Array(range.bytes(in: $0)) }
    }

    private static func replace(_ part: KeyPath<Command, ByteRange>, of record: inout [UInt8], with bytes: [UInt8]) {
        guard let range = decoded(record)?[keyPath: part], !range.isAbsent else { return }
        let offset = Int(range.offset)
        record.replaceSubrange(offset..<offset + Int(range.count), with: bytes)
    }

    private static func remove(_ path: [String], from place: Place, of record: inout [UInt8]) {
        guard let command = decoded(record) else { return }
        let start = place == .aps ? Int(command.aps.offset) : 0
        let count = record.withUnsafeMutableBytes { room in
            MemberRemoval.remove(path.map { Array($0.utf8) }, from: start, in: room)
        }
        if let count { record.removeSubrange(count...) }
    }
}
