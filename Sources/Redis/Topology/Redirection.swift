import Numbers
import Reactor

/// What an error MOVED or ASK says: which server gets all further calls for a hash slot (MOVED), or only the next call
/// with the same key (ASK).
struct Redirection: Equatable {
    var isAsk: Bool
    var hashSlot: Int
    var location: RedisURL.Location

    /// Reads an error such as `MOVED 3999 127.0.0.1:6381`. Returns nil if the text is not a valid MOVED or ASK.
    ///
    /// - Parameter replyingServer: the server that sent the error. If the error has no host, or `?`, because the
    ///   cluster does not know its own addresses, `location` has the host of this server.
    init?(error text: UnsafeRawBufferPointer, from replyingServer: RedisURL.Location) {
        let words = text.split(separator: UInt8(ascii: " "), maxSplits: 3, omittingEmptySubsequences: false)
        guard words.count >= 3 else { return nil }
        if words[0].elementsEqual("MOVED".utf8) {
            isAsk = false
        } else if words[0].elementsEqual("ASK".utf8) {
            isAsk = true
        } else {
            return nil
        }
        guard let hashSlot = Decimal.parse(UnsafeRawBufferPointer(rebasing: words[1])),
            hashSlot < KeyHashSlot.hashSlotCount,
            // Search for the last colon, because the host may be an IPv6 address without brackets.
            let colon = words[2].lastIndex(of: UInt8(ascii: ":")),
            let port = Decimal.parse(UnsafeRawBufferPointer(rebasing: words[2][(colon + 1)...])),
            let location = RedisURL.Location(
                announced: String(decoding: words[2][..<colon], as: UTF8.self),
                port: port,
                by: replyingServer
            )
        else { return nil }
        self.hashSlot = Int(hashSlot)
        self.location = location
    }
}

extension RedisURL.Location {
    private static let hostBytesMax = 255

    /// Makes a server's location from the host and the port that another server reported. Returns nil if one of them is
    /// invalid, or if the host is missing and the reporting server is on a Unix socket.
    init?(announced host: String, port: UInt64, by replyingServer: RedisURL.Location) {
        guard let port = UInt16(exactly: port), port > 0, host.utf8.count <= Self.hostBytesMax, !host.utf8.contains(0)
        else { return nil }
        guard host.isEmpty || host == "?" else {
            self = .host(host, port: port)
            return
        }
        guard case .host(let serverHost, _) = replyingServer else { return nil }
        self = .host(serverHost, port: port)
    }
}

extension RedisURL.Location: CustomStringConvertible {
    public var description: String {
        switch self {
        case .host(let host, let port): HostAndPort(host: host, port: port).description
        case .unix(let path): path
        }
    }
}
