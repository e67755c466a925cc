/// A GOAWAY frame (RFC 9113 §6.8) for the connections of a service.
public struct GoAway: Sendable, Equatable {
    /// The error code: 0 is NO_ERROR, others are in RFC 9113 §7. Any 32-bit number is allowed.
    public var errorCode: UInt32 = 0
    /// The `reason` in the debug data, usually a word of Apple's table; empty: no debug data.
    public var reason = "Shutdown"
    /// The last stream that gets a response: 0 or an odd number. Nil: the last stream that has arrived.
    ///
    /// If a later stream has arrived already, the GOAWAY is false: the push on that stream may have reached a phone,
    /// but the GOAWAY says that it was not processed, so the client sends it again. To make a true GOAWAY that leaves
    /// requests unprocessed, use ``Faults/goAwayUnprocessedRequests``.
    public var lastStreamIdentifier: Int32?
    /// The time between a first GOAWAY, which is only a notice, and the final GOAWAY; 0: only the final GOAWAY is sent.
    /// The notice names the stream 2^31-1, so it excludes no stream. Until the final GOAWAY, the client can open
    /// another connection.
    public var graceMilliseconds = 0

    public static let reasonBytesMax = 64
    public static let graceMillisecondsMax = 600_000

    public init() {}

    /// Describes an invalid value; nil if all values are valid.
    var validationProblem: String? {
        if reason.utf8.count > Self.reasonBytesMax { return "reason is longer than \(Self.reasonBytesMax) bytes" }
        if let identifier = lastStreamIdentifier, identifier < 0 || identifier > 0 && identifier % 2 == 0 {
            return "lastStream is 0 or a client's stream, an odd number up to 2147483647"
        }
        if !(0...Self.graceMillisecondsMax).contains(graceMilliseconds) {
            return "graceMilliseconds is from 0 to \(Self.graceMillisecondsMax)"
        }
        if graceMilliseconds > 0, lastStreamIdentifier != nil {
            return "lastStream cannot be set with graceMilliseconds: in two steps it is the last that has arrived"
        }
        return nil
    }

    var debugData: [UInt8] {
        if reason.isEmpty { return [] }
        var writer = SimulatorJSONWriter()
        writer.object { $0.member("reason", reason) }
        return writer.bytes
    }
}
