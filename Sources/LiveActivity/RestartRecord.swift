/// The record of the command that starts an activity again after its lifetime is over.
public enum RestartRecord {
    /// Composes the record from commands that the timetable of lifetimes kept. The new start has the attributes, the
    /// alert and the custom keys of the former start, and the newest state. Its body may be too large.
    ///
    /// These parts of the former start are not repeated:
    /// - `id`, `sequence` and `expiration`, because the new start is another command with a later time. It has an `id`
    ///   of its own (``LifetimeCommandIdentifier``).
    /// - `stale-date`, because this date has usually passed.
    /// - The alert's `sound`, because the user has not asked for the new start. The alert itself stays, because a
    ///   device ignores a start without an alert.
    ///
    /// - Parameters:
    ///   - start: the record of the activity's newest start, and its version.
    ///   - newestUpdate: the record of the newest update that the timetable keeps, and its version; nil if the
    ///     timetable keeps no update. An update that is older than the start, or whose record is damaged, is not used.
    ///   - restartAtMilliseconds: when the new life begins, UNIX milliseconds. The new start's timestamp and id have
    ///     this time.
    /// - Returns: nil if the start's record is damaged, or if no valid record can be composed from it.
    public static func compose(
        start: (version: Version, record: [UInt8]),
        newestUpdate: (version: Version, record: [UInt8])?,
        restartAtMilliseconds: Int64
    ) -> [UInt8]? {
        guard decode(start.record)?.event == .start else { return nil }
        let newestUpdate = newestUpdate.flatMap { $0.version > start.version ? $0 : nil }
        let state = newestUpdate.flatMap { newestUpdate in
            decode(newestUpdate.record).flatMap { bytes($0.contentState, of: newestUpdate.record) }
        }
        var record = start.record
        for key in ["id", "sequence", "expiration"] { remove([key], from: .record, of: &record) }
        remove(["stale-date"], from: .aps, of: &record)
        remove(["alert", "sound"], from: .aps, of: &record)
        let identifier = LifetimeCommandIdentifier(
            beganAtMilliseconds: restartAtMilliseconds,
            stateVersion: state == nil ? start.version : newestUpdate?.version
        )
        record.replaceSubrange(1..<1, with: Array(#""id":"\#(identifier.text)","#.utf8))
        replace(\.timestampDigits, of: &record, with: Array("\(restartAtMilliseconds / 1_000)".utf8))
        if let state { replace(\.contentState, of: &record, with: state) }
        return record.withUnsafeBytes { (try? Command.decodeIgnoringBodyLimit($0)) != nil } ? record : nil
    }

    /// Whether the record of a kept update can be decoded and has a content state. If not, the record is damaged.
    public static func hasState(_ update: [UInt8]) -> Bool {
        decode(update).map { !$0.contentState.isAbsent } ?? false
    }

    /// Whether a newer release of Causeway must have written the record. Either of two things shows this:
    /// - The record has a key or a value that this release does not know.
    /// - The record begins with a letter. So far, every record is a JSON object. A future release that writes another
    ///   format must begin its records with a letter, so that this function recognizes them.
    /// - Parameter record: the record of a command that the timetable keeps.
    public static func hasUnknownFormat(_ record: [UInt8]) -> Bool {
        if case UInt8(ascii: "A")...UInt8(ascii: "Z") = record.first ?? 0 { return true }
        if case UInt8(ascii: "a")...UInt8(ascii: "z") = record.first ?? 0 { return true }
        return record.withUnsafeBytes { record in
            do throws(Fault) {
                _ = try Command.decodeWrittenByCauseway(record)
                return false
            } catch {
                return error.code == .unknownKey || error.code == .unknownValue
            }
        }
    }

    /// The object in which the path of a removed key begins: the record, or Apple's dictionary.
    private enum PathRoot { case record, aps }

    /// Decodes a record that Causeway wrote; nil if the record is damaged.
    private static func decode(_ record: [UInt8]) -> Command? {
        record.withUnsafeBytes { try? Command.decodeWrittenByCauseway($0) }
    }

    private static func bytes(_ range: ByteRange, of record: [UInt8]) -> [UInt8]? {
        range.isAbsent ? nil : record.withUnsafeBytes { Array(range.bytes(in: $0)) }
    }

    private static func replace(_ part: KeyPath<Command, ByteRange>, of record: inout [UInt8], with bytes: [UInt8]) {
        guard let range = decode(record)?[keyPath: part], !range.isAbsent else { return }
        let offset = Int(range.offset)
        record.replaceSubrange(offset..<offset + Int(range.count), with: bytes)
    }

    private static func remove(_ path: [String], from root: PathRoot, of record: inout [UInt8]) {
        guard let command = decode(record) else { return }
        let start = root == .aps ? Int(command.aps.offset) : 0
        let newByteCount = record.withUnsafeMutableBytes { bytes in
            JSONMemberRemoval.remove(path.map { Array($0.utf8) }, from: start, in: bytes)
        }
        if let newByteCount { record.removeSubrange(newByteCount...) }
    }
}
