/// How an activity stands in its hash.
///
/// A script's time goes into its calls of Redis and into the strings that it makes. So all that an admission reads or changes is one
/// binary record, the field `r`: it is read by one HGET, and written by one HSET from pieces that are at hand. The token, which
/// only a send verdict needs, begins in it and goes on in a second field. No value but `h` is above 64 bytes
/// (`hash-max-listpack-value`), which would cost the hash its compact encoding; a token of 160 hexadecimal digits fills both to the
/// last byte. Numbers are big-endian. An absent field and an empty one mean the same.
///
/// | field | bytes | meaning |
/// | --- | --- | --- |
/// | `r` | 1–13 | the newest admitted version, see ``StoredVersion`` |
/// | | 14–18 | the last assigned timestamp, seconds |
/// | | 19 | the newest version's state, a letter (see ``AdmitScript``); and 128 if that version has drawn on the bucket |
/// | | 20–25 | the time of the last send verdict, server milliseconds |
/// | | 26–31 | digest of what is shown, see ``StoredDigest``; 0 while that is not known |
/// | | 32–37 | when the bucket of priority 10 will be full, server milliseconds; 0 before the first draw |
/// | | 38 | the token's ``TokenForm``, 0 if there is none; and the bits of ``Flag`` |
/// | | 39–42 | the last second of the eight hours after the activity's birth; 0 if nothing was heard of it but an unregistration |
/// | | 43–48 | when the token was registered, unregistered or retired, milliseconds |
/// | | 49–64 | the token's beginning |
/// | `t` | | what follows of the token, up to 64 bytes |
/// | `u` | | the rest of a longer one |
/// | `l` | 1 | how often the spacing was doubled when APNs last limited the token |
/// | | 2–7 | when that was, server milliseconds |
/// | `h` | 1–30 | version of the held command, in digits |
/// | | 31– | the held command |
/// | `b` | 1–13 | version of the newest start that was given a send verdict; once that was accepted, nothing more |
/// | | 14 | `a` until it is settled, then `s` |
/// | | 15–19 | the timestamp that it was assigned, seconds |
/// | | 20–27 | the claim of the record that it was given to |
enum StoredRecord {
    // Where things begin, counted from 0.
    static let timestamp = 13
    static let state = 18
    static let kind = 37
    static let registeredAt = 42
    static let token = 48
    /// Of timestamps in seconds, and of times in milliseconds.
    static let secondsBytes = 5
    static let millisecondsBytes = 6

    /// Bits of byte 38.
    enum Flag {
        static let frequentUpdates: UInt8 = 8
        /// There is `l`.
        static let limited: UInt8 = 16
        /// There is `b`, with a claim.
        static let started: UInt8 = 32
        /// There is `u`.
        static let longToken: UInt8 = 64
    }
}

/// Eight bytes of the sequence and five of the timestamp: thirteen that are equal if the versions are.
enum StoredVersion {
    static let bytes = 13

    static func write(_ version: ScriptVersion, to destination: UnsafeMutableRawPointer) {
        BigEndian.write(version.sequence, bytes: 8, to: destination)
        BigEndian.write(version.timestampSeconds, bytes: StoredRecord.secondsBytes, to: destination + 8)
    }
}

/// Forty-eight bits of a digest, of which none is 0. That two states of an activity meet in them is one chance in 2.8 × 10¹⁴.
enum StoredDigest {
    static let bytes = 6

    static func stored(_ digest: UInt64) -> UInt64 { max(1, digest & 0xFFFF_FFFF_FFFF) }
}

/// Numbers of a fixed count of bytes, the highest first.
enum BigEndian {
    /// - Parameter bytes: 1 through 8; higher bytes of the value are dropped.
    static func write(_ value: UInt64, bytes: Int, to destination: UnsafeMutableRawPointer) {
        var rest = value
        var position = bytes
        while position > 0 {
            position -= 1
            destination.storeBytes(of: UInt8(truncatingIfNeeded: rest), toByteOffset: position, as: UInt8.self)
            rest >>= 8
        }
    }

    /// - Parameter memory: at most eight bytes.
    static func read(_ memory: some Sequence<UInt8>) -> UInt64 { memory.reduce(0) { $0 << 8 | UInt64($1) } }
}
