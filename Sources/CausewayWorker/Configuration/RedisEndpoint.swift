/// What a Redis URL says: `redis[s]://[[user]:password@]host[:port][/database]`, `rediss` meaning TLS.
///
/// User and password are percent-decoded. An IPv6 address stands in brackets.
public struct RedisEndpoint: Sendable, Equatable {
    public var isTLS: Bool
    public var host: String
    /// 1...65,535; 6,379 where the URL names none.
    public var port: UInt16
    public var user: String?
    /// Never print it.
    public var password: String?
    /// 0...65,535. Redis Cluster knows only 0.
    public var database: Int

    /// What is wrong with a URL. Holds no part of it, since that could be the password.
    public struct FormatError: Error, Equatable {
        public var reason: String
    }

    public init(url: String) throws(FormatError) {
        var rest: Substring
        if url.hasPrefix("redis://") {
            (isTLS, rest) = (false, url.dropFirst("redis://".count))
        } else if url.hasPrefix("rediss://") {
            (isTLS, rest) = (true, url.dropFirst("rediss://".count))
        } else {
            throw FormatError(reason: "begins with neither redis:// nor rediss://")
        }
        guard !rest.contains(where: { $0 == "?" || $0 == "#" }) else {
            throw FormatError(reason: "has a query or a fragment; percent-encode ? and # in a password")
        }

        user = nil
        password = nil
        if let at = rest.lastIndex(of: "@") {
            let credentials = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            rest = rest[rest.index(after: at)...]
            guard credentials.count == 2 else {
                throw FormatError(reason: "has a user and no password; write user:password@ or :password@")
            }
            user = try Self.percentDecoded(credentials[0], name: "user")
            password = try Self.percentDecoded(credentials[1], name: "password")
        }

        database = 0
        if let slash = rest.firstIndex(of: "/") {
            let path = rest[rest.index(after: slash)...]
            rest = rest[..<slash]
            if !path.isEmpty {
                guard let number = Self.number(path) else {
                    throw FormatError(reason: "has a database that is not a number in 0...65535")
                }
                database = Int(number)
            }
        }
        (host, port) = try Self.hostAndPort(rest)
    }

    private static func hostAndPort(_ text: Substring) throws(FormatError) -> (String, UInt16) {
        var host = text
        var port: UInt16 = 6379
        if let colon = text.lastIndex(of: ":"), !text[colon...].contains("]") {
            guard let number = Self.number(text[text.index(after: colon)...]), number > 0 else {
                throw FormatError(reason: "has a port that is not a number in 1...65535")
            }
            port = number
            host = text[..<colon]
        }
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(where: { $0 == ":" || $0 == "[" || $0 == "]" }) {
            throw FormatError(reason: "has an IPv6 address without brackets")
        }
        guard !host.isEmpty, !host.contains(where: { $0.isWhitespace || $0 == "/" }) else {
            throw FormatError(reason: "names no host")
        }
        return (String(host), port)
    }

    /// Digits only: `UInt16` alone would take a sign as well.
    private static func number(_ text: Substring) -> UInt16? {
        text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ? UInt16(text) : nil
    }

    private static func percentDecoded(_ text: Substring, name: String) throws(FormatError) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(Self.hexValue), let low = rest.popFirst().flatMap(Self.hexValue)
            else { throw FormatError(reason: "has a \(name) with a % that two hex digits do not follow") }
            bytes.append(high << 4 | low)
        }
        guard let decoded = String(validating: bytes, as: UTF8.self) else {
            throw FormatError(reason: "has a \(name) that is not UTF-8")
        }
        return decoded.isEmpty ? nil : decoded
    }

    private static func hexValue(_ byte: UInt8) -> UInt8? {
        Character(Unicode.Scalar(byte)).hexDigitValue.map(UInt8.init)
    }
}
