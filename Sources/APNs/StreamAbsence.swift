/// Knows since when a connection allows no stream, and decides when the pool must replace the connection. It does no
/// I/O, and gets the time as an argument.
///
/// A server should allow 0 streams only for a short time (RFC 9113, section 6.5.2). Nothing else would end such a
/// connection: it takes no push that could time out, and its peer may acknowledge PINGs. And while the pool has it, the
/// pool opens no other connection instead.
struct StreamAbsence {
    /// How long a connection may allow no stream. The time is long, so that pools do not add many connections to the
    /// load of a server that has too much of it. (R21)
    static let millisecondsMax: Int64 = 30_000

    /// Nil if the connection allows streams, or has had no limit yet.
    private var sinceMilliseconds: Int64?

    /// Notes how many streams the connection allows now.
    mutating func noteLimit(streamsMax: Int, nowMilliseconds: Int64) {
        guard streamsMax == 0 else {
            sinceMilliseconds = nil
            return
        }
        if sinceMilliseconds == nil { sinceMilliseconds = nowMilliseconds }
    }

    /// Whether the connection has allowed no stream for so long that the pool must replace it.
    func isTooLong(nowMilliseconds: Int64) -> Bool {
        guard let sinceMilliseconds else { return false }
        return nowMilliseconds - sinceMilliseconds >= Self.millisecondsMax
    }
}
