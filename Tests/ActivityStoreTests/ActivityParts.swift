import LiveActivity
import RedisTestbed

@testable import ActivityStore
@testable import Redis

extension RedisServer {
    /// Returns the value of a key; empty if the key does not exist.
    func value(_ key: String) -> [UInt8] { command(bytes: [Array("GET".utf8), Array(key.utf8)]).first ?? [] }

    /// Returns the non-empty fields of a hash, or the parts of an activity's value.
    func hash(_ key: String) -> [String: [UInt8]] {
        if command("TYPE", key) == ["string"] {
            return activityParts(value(key))
        }
        let flat = command(bytes: [Array("HGETALL".utf8), Array(key.utf8)])
        var fields: [String: [UInt8]] = [:]
        for index in stride(from: 0, to: flat.count - 1, by: 2) where !flat[index + 1].isEmpty {
            fields[String(decoding: flat[index], as: UTF8.self)] = flat[index + 1]
        }
        return fields
    }
}

/// Returns the parts of an activity's value by name: its record `r`, the token `t`, the last alert that APNs
/// accepted `e`, the audiences `a`, the dead token `d`, the last 429 `l`, the start `b` and the held command
/// `h`.
func activityParts(_ value: [UInt8]) -> [String: [UInt8]] {
    let flags = value[StoredActivity.flagsByteOffset]
    var unreadPart = value[...]
    var parts: [String: [UInt8]] = [:]
    func takePart(_ name: String, _ count: Int) {
        if count > 0 { parts[name] = Array(unreadPart.prefix(count)) }
        unreadPart = unreadPart.dropFirst(count)
    }
    takePart("r", StoredActivity.tokenByteOffset)
    // If the newest version keeps its own timestamp, the scripts ignore the bytes of the assigned timestamp. These
    // bytes may differ from the model's, so the test replaces them with zeros.
    if value[StoredActivity.phaseByteOffset] & StoredActivity.PhaseBit.ownTimestampBit != 0 {
        for index in StoredActivity.assignedTimestampByteOffset..<StoredActivity.registrationTimeByteOffset {
            parts["r"]?[index] = 0
        }
    }
    let count = Int(LittleEndian.read(value[StoredActivity.tokenByteCountByteOffset..<StoredActivity.flagsByteOffset]))
    takePart("t", count & ~StoredActivity.tokenByteCountFlags)
    if count & StoredActivity.acceptedAlertFlag != 0 { takePart("e", StoredVersion.byteCount) }
    if count & StoredActivity.audiencesFlag != 0 {
        takePart("a", 2 + 8 * unreadPart.prefix(2).reduce(0) { $0 + Int($1) })
    }
    if flags & StoredActivity.Flag.retiredTokenBit != 0 {
        takePart("d", StoredActivity.retiredTokenDigestBytes)
        // The model has no fingerprint of the dead token. So this part only says that a token died. Which token died is
        // tested by replies that depend on it.
        parts["d"] = [1]
    }
    // A 429: how often the spacing is doubled (1 byte), and the time of the 429 (6). A start: its version (13 bytes);
    // until APNs accepts it, also a letter, its timestamp and its claim (14).
    if flags & StoredActivity.Flag.throttleBit != 0 { takePart("l", 7) }
    if flags & StoredActivity.Flag.startBit != 0 { takePart("b", flags & StoredActivity.Flag.claimBit != 0 ? 27 : 13) }
    takePart("h", unreadPart.count)
    return parts
}
