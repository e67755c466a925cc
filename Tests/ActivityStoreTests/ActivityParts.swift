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

/// The names of the parts of an activity's value.
enum ActivityPart {
    /// The part that every value has, before the token.
    static let fixed = "fixed"
    static let token = "token"
    /// The last alert that APNs accepted.
    static let acceptedAlert = "accepted alert"
    static let audiences = "audiences"
    static let retiredToken = "retired token"
    /// The last 429.
    static let throttle = "throttle"
    static let start = "start"
    static let heldCommand = "held command"
}

/// Returns the parts of an activity's value, by their names in ``ActivityPart``.
func activityParts(_ value: [UInt8]) -> [String: [UInt8]] {
    let flags = value[StoredActivity.flagsByteOffset]
    var unreadPart = value[...]
    var parts: [String: [UInt8]] = [:]
    func takePart(_ name: String, _ count: Int) {
        if count > 0 { parts[name] = Array(unreadPart.prefix(count)) }
        unreadPart = unreadPart.dropFirst(count)
    }
    takePart(ActivityPart.fixed, StoredActivity.tokenByteOffset)
    // If the newest version keeps its own timestamp, the scripts ignore the bytes of the assigned timestamp. These
    // bytes may differ from the model's, so the test replaces them with zeros.
    if value[StoredActivity.phaseByteOffset] & StoredActivity.PhaseBit.ownTimestampBit != 0 {
        for index in StoredActivity.assignedTimestampByteOffset..<StoredActivity.registrationTimeByteOffset {
            parts[ActivityPart.fixed]?[index] = 0
        }
    }
    let count = Int(LittleEndian.read(value[StoredActivity.tokenByteCountByteOffset..<StoredActivity.flagsByteOffset]))
    takePart(ActivityPart.token, count & ~StoredActivity.followBitsInTokenByteCount)
    if count & StoredActivity.acceptedAlertFollowsBit != 0 {
        takePart(ActivityPart.acceptedAlert, StoredVersion.byteCount)
    }
    if count & StoredActivity.audiencesFollowBit != 0 {
        takePart(ActivityPart.audiences, 2 + 8 * unreadPart.prefix(2).reduce(0) { $0 + Int($1) })
    }
    if flags & StoredActivity.Flag.hasRetiredTokenBit != 0 {
        takePart(ActivityPart.retiredToken, StoredActivity.retiredTokenDigestBytes)
        // The model has no fingerprint of the retired token. So this part only says that a token was retired. Which
        // token it was is tested by replies that depend on it.
        parts[ActivityPart.retiredToken] = [1]
    }
    // A 429: how often the spacing is doubled (1 byte), and the time of the 429 (6). A start: its version (13 bytes);
    // until APNs accepts it, also a letter, its timestamp and its claim (14).
    if flags & StoredActivity.Flag.hasThrottleBit != 0 { takePart(ActivityPart.throttle, 7) }
    if flags & StoredActivity.Flag.hasStartBit != 0 {
        takePart(ActivityPart.start, flags & StoredActivity.Flag.hasClaimBit != 0 ? 27 : 13)
    }
    takePart(ActivityPart.heldCommand, unreadPart.count)
    return parts
}
