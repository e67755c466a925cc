/// How an activity is stored as one value. (R15)
///
/// Most of a script's time goes into its calls of Redis and into the strings that it makes. Therefore:
/// - An activity is one string, and one MGET reads many activities.
/// - The parts that a send verdict or a settlement changes come first. The script overwrites them in place (SETRANGE,
///   which keeps length and expiry).
/// - If a command may be sent, the reply is often the value itself as the script has read it, so that the script makes
///   no new string.
/// - Numbers are little-endian, as on nearly every server, so the scripts need not reorder bytes.
///
/// | bytes | meaning |
/// | --- | --- |
/// | 1–4 | when updates end, seconds: eight hours after the beginning; 0 if no start and no token has come. Former releases also stored a number when a command found no token. Such a number does not count. It can be recognized: the value has no start, no token and no time of a registration |
/// | 5–6 | the number of the token's bytes, plus 32,768 if an accepted alert follows the token, plus 16,384 if the part about audiences follows |
/// | 7 | the token's ``TokenForm``, 0 if there is no token; and the bits of ``Flag`` |
/// | 8–13 | the digest of the state that the activity shows, see ``StoredDigest``; 0 while the state is not known |
/// | 14 | the newest version's phase, a letter (see `admit.lua`), changed by the ``PhaseBit``s |
/// | 15–20 | when Redis last allowed a push, server milliseconds |
/// | 21–33 | the newest admitted version, see ``StoredVersion`` |
/// | 34–39 | when the budget for priority 10 will be full, server milliseconds; 0 before the first draw |
/// | 40–44 | the last `aps.timestamp` that Redis assigned, seconds, if it is not the newest version's own; otherwise unused. A token that is read again (R25) raises it to the present second, and a registration to the timestamp of the version that the app shows |
/// | 45–50 | when the token was registered or unregistered, milliseconds; raised by 1 when the token is retired, or when an accepted end removes the activity from audiences |
/// | 51– | the token |
///
/// Bytes 40–44 are raised because phones ignore a push whose timestamp is below that of the last push, and pushes
/// before a loss of data may have had higher timestamps than their commands (R11). Bytes 45–50 are raised so that a
/// registration that is read again is stale, and brings back neither the token nor the audiences.
///
/// After the token come these parts, in this order, each only if it exists:
///
/// | part | bytes |
/// | --- | --- |
/// | the accepted alert | the version of the newest command whose alert APNs has accepted (13): no older alert rings after it |
/// | the audiences | how many audiences the activity is in (1), how many it left without a worker's confirmation (1), the digest of each (8) |
/// | the last token that was retired | the beginning of the token's SHA-1 (12) |
/// | the last 429 | how often the spacing is doubled since this 429 (1), when Redis recorded the 429 (6, server milliseconds) |
/// | the start | the version of the newest start that Redis allowed to be sent (13); 14 bytes more until APNs accepts it |
/// | the held command | its version in digits (30) and the command; it exists in the phases `h`, `i`, `k`, `l`, `x` and `y` |
///
/// The 14 bytes of a start that is not accepted yet are: `a`, or `s` once the start is settled (1); the timestamp that
/// Redis assigned to the start (5); and the claim of the record that may be sent (8). If Redis knows the start only
/// from a record that was read again (R25), the bytes are: `r`; the last assigned timestamp; and zeros instead of a
/// claim. ``AudienceList`` describes the digests of audiences.
///
/// If the length of a value is not the sum of its parts, Causeway did not write the value, and only the call with this
/// key fails. A value with a token of 160 hexadecimal digits and no further part has 130 bytes; the allocator gives it
/// a block of 160.
enum StoredActivity {
    // Where the parts begin, counted from 0. The table above counts from 1, as Lua does.
    static let tokenByteCountByteOffset = 4
    static let flagsByteOffset = 6
    static let digestByteOffset = 7
    static let phaseByteOffset = 13
    static let versionByteOffset = 20
    static let budgetFullAtByteOffset = 33
    static let assignedTimestampByteOffset = 39
    static let registrationTimeByteOffset = 44
    static let tokenByteOffset = 50
    /// Added to the number of the token's bytes if an accepted alert follows the token. The number of bytes itself is
    /// always far lower. The bit is not in the byte of ``Flag``, because that byte has no free bit.
    static let acceptedAlertFollowsBit = 32_768
    /// Added to the number of the token's bytes if the part about audiences follows the token.
    static let audiencesFollowBit = 16_384
    /// All bits that are added to the number of the token's bytes.
    static let followBitsInTokenByteCount = acceptedAlertFollowsBit | audiencesFollowBit
    /// The number of bytes of a timestamp (UNIX seconds): enough for ten digits.
    static let secondsBytes = 5
    /// The number of bytes of a time in milliseconds: enough for thirteen digits.
    static let millisecondsBytes = 6
    /// How many hexadecimal digits of a retired token's SHA-1 are stored, instead of the whole token of about 80 bytes.
    static let retiredTokenDigestBytes = 12
    /// The number of bytes of the part about the last 429.
    static let throttleBytes = 1 + millisecondsBytes
    /// The number of bytes of the part about a start until APNs accepts the start: its version, a letter, a timestamp
    /// and a claim. After the acceptance, only the version is left.
    static let unacceptedStartBytes = StoredVersion.byteCount + 1 + secondsBytes + 8

    /// Bits of byte 14. This byte is the letter of the newest version's phase, changed by these bits.
    enum PhaseBit {
        /// Whether the newest version has drawn on the budget for priority 10. The phase's letter never has this bit
        /// itself, because letters are ASCII.
        static let hasDrawnBit: UInt8 = 128
        /// Whether the last `aps.timestamp` that Redis assigned to a push is the newest version's own (R11). If not, it
        /// is in bytes 40–44. Every letter already has this bit, so the script only clears it.
        static let ownTimestampBit: UInt8 = 64
    }

    /// Bits of byte 7. The three lowest bits of this byte are the token's form.
    enum Flag {
        static let allowsFrequentUpdatesBit: UInt8 = 8
        /// Whether the value has the part about the last 429.
        static let hasThrottleBit: UInt8 = 16
        /// Whether the part about a start has 14 more bytes, with the claim, because APNs has not accepted the start
        /// yet.
        static let hasClaimBit: UInt8 = 32
        /// Whether the value has the part about a start.
        static let hasStartBit: UInt8 = 64
        /// Whether the value has the part about the last token that was retired (R17).
        static let hasRetiredTokenBit: UInt8 = 128
    }
}

/// The lowest 48 bits of a digest, as they are stored. If all these bits are 0, the number 1 is stored, because a
/// stored 0 means that the state is not known. Two different states have the same 48 bits with a probability of 1 in
/// 2.8 × 10¹⁴.
enum StoredDigest {
    static let byteCount = 6

    static func value(of digest: UInt64) -> UInt64 { max(1, digest & 0xFFFF_FFFF_FFFF) }
}

/// Numbers with a fixed number of bytes, lowest byte first.
enum LittleEndian {
    /// Writes the lowest bytes of a number.
    ///
    /// - Parameter byteCount: how many bytes to write, 1 to 8. The value's higher bytes are left out.
    static func write(_ value: UInt64, byteCount: Int, to destination: UnsafeMutableRawPointer) {
        var rest = value
        for position in 0..<byteCount {
            destination.storeBytes(of: UInt8(truncatingIfNeeded: rest), toByteOffset: position, as: UInt8.self)
            rest >>= 8
        }
    }

    /// Reads a number.
    ///
    /// - Parameter bytes: at most eight bytes.
    static func read(_ bytes: some BidirectionalCollection<UInt8>) -> UInt64 {
        bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
}
