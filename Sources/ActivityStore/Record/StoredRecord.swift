/// How an activity stands in its value.
///
/// A script's time goes into its calls of Redis and into the strings that it makes. So an activity is one string: many are read by one
/// MGET, what a send verdict or a settlement changes lies at the beginning and is overwritten in place (SETRANGE, which keeps length
/// and expiry), and the reply to a sender is the value as it was read. What few activities have stands behind the token.
/// Numbers are little-endian, as they are in the memory of nearly every server: so its scripts read them without turning them round.
///
/// | bytes | meaning |
/// | --- | --- |
/// | 1–4 | the last second of the eight hours after the activity's birth; 0 if nothing was heard of it but an unregistration |
/// | 5–6 | the count of the token's bytes, and 32,768 if an answered alert follows the token, and 16,384 if audiences do |
/// | 7 | the token's ``TokenForm``, 0 if there is none; and the bits of ``Flag`` |
/// | 8–13 | digest of what is shown, see ``StoredDigest``; 0 while that is not known |
/// | 14 | the newest version's state, a letter (see `admit.lua`), changed by the ``StateBit``s |
/// | 15–20 | the time of the last send verdict, server milliseconds |
/// | 21–33 | the newest admitted version, see ``StoredVersion`` |
/// | 34–39 | when the bucket of priority 10 will be full, server milliseconds; 0 before the first draw |
/// | 40–44 | the last assigned timestamp, seconds, if it is not the newest version's own; else unused |
/// | 45–50 | when the token was registered, unregistered or retired, milliseconds |
/// | 51– | the token |
///
/// Behind it, in this order, what there is of:
///
/// | bytes | meaning |
/// | --- | --- |
/// | the answered alert | version of the newest command whose alert APNs has accepted (13): no older alert rings after it. Values of earlier builds have none |
/// | the audiences | how many it is in (1) and how many it has left that may not know of it (1), and the digest of each of them (8), see ``AudienceList`` |
/// | the last token that died | its fingerprint (12) |
/// | the last 429 | how often the spacing was doubled when APNs last limited the token (1), and when that was (6, server milliseconds) |
/// | the start | version of the newest start that was given a send verdict (13); until it is accepted, also `a`, or `s` once it is settled (1), the timestamp that it was assigned (5) and the claim of the record that it was given to (8) |
/// | what is held | version of the held command, in digits (30), and the command; there is one in the states `h` to `l`, `x` and `y` |
enum StoredRecord {
    // Where things begin, counted from 0.
    static let tokenCount = 4
    static let kind = 6
    static let digest = 7
    static let state = 13
    static let version = 20
    static let fullAt = 33
    static let assigned = 39
    static let registeredAt = 44
    static let token = 50
    /// Added to the count of the token's bytes, which is far below.
    static let answeredAlertFollows = 32_768
    static let audiencesFollow = 16_384
    static let countFlags = answeredAlertFollows | audiencesFollow
    /// Of timestamps in seconds, and of times in milliseconds.
    static let secondsBytes = 5
    static let millisecondsBytes = 6
    /// Of a dead token's fingerprint.
    static let retiredBytes = 12

    /// Bits of byte 14.
    enum StateBit {
        /// The newest version has drawn on the bucket.
        static let hasDrawn: UInt8 = 128
        /// Every letter has it; without it, the last assigned timestamp stands in a place of its own.
        static let isOwnTimestamp: UInt8 = 64
    }

    /// Bits of byte 7.
    enum Flag {
        static let frequentUpdates: UInt8 = 8
        /// The last 429 is there.
        static let limited: UInt8 = 16
        /// A start is there, with its claim.
        static let claimed: UInt8 = 32
        /// A start is there.
        static let started: UInt8 = 64
        /// The fingerprint of the last token that APNs has declared dead is there.
        static let retired: UInt8 = 128
    }
}

/// Forty-eight bits of a digest, of which none is 0. That two states of an activity meet in them is one chance in 2.8 × 10¹⁴.
enum StoredDigest {
    static let bytes = 6

    static func stored(_ digest: UInt64) -> UInt64 { max(1, digest & 0xFFFF_FFFF_FFFF) }
}

/// Numbers of a fixed count of bytes, the lowest first.
enum LittleEndian {
    /// - Parameter bytes: 1 through 8; higher bytes of the value are dropped.
    static func write(_ value: UInt64, bytes: Int, to destination: UnsafeMutableRawPointer) {
        var rest = value
        for position in 0..<bytes {
            destination.storeBytes(of: UInt8(truncatingIfNeeded: rest), toByteOffset: position, as: UInt8.self)
            rest >>= 8
        }
    }

    /// - Parameter memory: at most eight bytes.
    static func read(_ memory: some BidirectionalCollection<UInt8>) -> UInt64 {
        memory.reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
}
