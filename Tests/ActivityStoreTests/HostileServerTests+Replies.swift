/// Replies that a server sends in these tests.
extension HostileServerTests {
    /// The first part of a reply to a permitted push: a number, packed as in ``makeSendReply``. A valid reply also has
    /// a second part, the activity's value.
    static let packedPush = ":111264530448426\r\n"

    /// Returns an activity's value as a bulk string of RESP. All bytes are below 128, so that it can be written as a
    /// text.
    static func makeValue(kind: String, registeredAt: String, token: String) -> String {
        func zeros(_ count: Int) -> String { String(repeating: "\0", count: count) }
        let count = String(UnicodeScalar(UInt8(token.utf8.count & 0x7F))) + "\0"
        let value = zeros(4) + count + kind + zeros(6) + "a" + zeros(30) + registeredAt + token
        return "$\(value.utf8.count)\r\n\(value)\r\n"
    }

    /// Returns the reply to a permitted push: the activity's value, and a number that packs the timestamp, the priority
    /// and the pushes left in the budget.
    static func makeSendReply(
        timestamp: Int64 = 0x6543_2100,
        priority: Int64 = 3,
        budget: Int64 = 42,
        kind: String = "\u{01}",
        registeredAt: String = "\u{63}\0\0\0\0\0",
        token: String = "\u{01}\u{02}\u{03}"
    ) -> String {
        let value = makeValue(kind: kind, registeredAt: registeredAt, token: token)
        return "*2\r\n:\(timestamp << 16 | priority << 14 | budget)\r\n\(value)"
    }

    /// Returns the short reply to a permitted push: the activity's value and Redis' clock. It means that the push gets
    /// the timestamp and the priority that the call requested.
    static func makeShortSendReply(
        kind: String = "\u{01}",
        token: String = "\u{01}\u{02}\u{03}",
        clock: String = ":1760000000000\r\n"
    ) -> String {
        "*2\r\n" + makeValue(kind: kind, registeredAt: "\u{63}\0\0\0\0\0", token: token) + clock
    }
}
