/// A GOAWAY frame (RFC 9113 §6.8) for the connections of a service.
public struct GoAway: Sendable, Equatable {
    /// The error code: 0 is NO_ERROR, the others are in RFC 9113 §7; any 32 bits may come.
    public var code: UInt32 = 0
    /// The `reason` of the debug data, a word of Apple's table as a rule; empty: no debug data.
    public var reason = "Shutdown"
    /// The last stream that is, or will be, answered: 0 or a client's, which are odd. Nil: the last that has come. What is under way above
    /// a lower one is given up, though its push has reached its phone: a client that sends it again sends it twice, as it would to a
    /// service that says what is not so. For one that tells the truth see ``Faults/goAwayUnprocessed``.
    public var lastStream: Int32?
    /// Above 0: in two steps. First one with the last stream 2^31-1, and only so much later, when the client has had time to go
    /// elsewhere, the one that counts.
    public var graceMilliseconds = 0

    public static let reasonBytesMax = 64
    public static let graceMillisecondsMax = 600_000

    public init() {}

    /// What is wrong with the values; nil if nothing is.
    var problem: String? {
        if reason.utf8.count > Self.reasonBytesMax { return "reason is longer than \(Self.reasonBytesMax) bytes" }
        if let stream = lastStream, stream < 0 || stream > 0 && stream % 2 == 0 {
            return "lastStream is 0 or a client's stream, an odd number up to 2147483647"
        }
        if !(0...Self.graceMillisecondsMax).contains(graceMilliseconds) {
            return "graceMilliseconds is from 0 to \(Self.graceMillisecondsMax)"
        }
        if graceMilliseconds > 0, lastStream != nil {
            return "lastStream and graceMilliseconds: in two steps the last stream is the last that has come"
        }
        return nil
    }

    var debugData: [UInt8] {
        if reason.isEmpty { return [] }
        var writer = JSONWriter()
        writer.object { $0.member("reason", reason) }
        return writer.bytes
    }
}
