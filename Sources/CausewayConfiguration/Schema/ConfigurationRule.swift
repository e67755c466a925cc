import LiveActivity
import Reactor
import Redis

/// A rule that the value of a text key must follow.
struct ConfigurationRule: Sendable {
    /// A regular expression for the JSON Schemas, with which an editor or Helm refuses a wrong text early. The
    /// expression matches every valid text, and perhaps some invalid ones. Nil: the schemas accept every text.
    let pattern: String?
    /// Returns what is wrong with a text; nil if the text is valid.
    let findFault: @Sendable (String) -> String?

    init(pattern: String? = nil, findFault: @escaping @Sendable (String) -> String?) {
        self.pattern = pattern
        self.findFault = findFault
    }

    /// The same rule, but the empty text is valid too.
    var orEmpty: ConfigurationRule {
        ConfigurationRule(pattern: pattern.map { "^$|\($0)" }) { text in text.isEmpty ? nil : findFault(text) }
    }
}

extension ConfigurationRule {
    static let any = ConfigurationRule { _ in nil }

    /// Kafka's own rule for topic names.
    static let topic = ConfigurationRule(pattern: "^[A-Za-z0-9._-]{1,249}$") { text in
        guard (1...249).contains(text.utf8.count), text != ".", text != "..",
            text.utf8.allSatisfy({
                isLetterOrDigit($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-")
            })
        else { return "is not a topic name: 1 to 249 of letters, digits, '.', '_' and '-'" }
        return nil
    }

    static let groupId = ConfigurationRule { text in
        (1...255).contains(text.utf8.count) ? nil : "must have 1 to 255 bytes"
    }

    /// A pattern for servers separated by commas: a host, or an IPv6 address in brackets, with or without a port.
    private static let serverListPattern = {
        let server = #"([^\s,:]+|[^\s,]*\]|[^\s,]+:[1-9][0-9]{0,4})"#
        return "^\(server)(,\(server))*$"
    }()

    /// Kafka's servers: `host:port`, separated by commas. Without a port, librdkafka uses 9092.
    static let bootstrapServers = ConfigurationRule(pattern: serverListPattern) { text in
        let servers = text.split(separator: ",", omittingEmptySubsequences: false)
        let isValid = servers.allSatisfy { server in
            guard !server.isEmpty, !server.contains(where: \.isWhitespace) else { return false }
            guard let colon = server.lastIndex(of: ":"), !server[colon...].contains("]") else { return true }
            return colon > server.startIndex && UInt16(server[server.index(after: colon)...]).map { $0 > 0 } == true
        }
        return isValid ? nil : "must be host:port, several separated by commas without spaces"
    }

    static let redisURL = ConfigurationRule(pattern: "^(rediss?|unix)://.") { text in
        do {
            _ = try RedisURL(text)
            return nil
        } catch {
            return
                """
                \(error); the forms are redis[s]://[[user]:password@]host[:port][/database] and \
                unix:///path[?db=number]
                """
        }
    }

    static let sentinelURL = ConfigurationRule(pattern: "^rediss?://.") { text in
        do {
            let url = try RedisURL(text, defaultPort: RedisURL.defaultSentinelPort)
            if case .unix = url.firstLocation { return "Sentinels need a host and a port" }
            return url.database == 0 ? nil : "Sentinels have no databases"
        } catch {
            return "\(error); the form is redis[s]://[[user]:password@]host[:port][,host[:port]…]"
        }
    }

    /// A numeric address at which the worker can listen. A name would need a DNS request.
    static let numericAddress = ConfigurationRule { text in
        SocketAddress(numeric: text, port: 0) == nil
            ? "is not a numeric address, such as 0.0.0.0, 127.0.0.1 or ::" : nil
    }

    static let collectorURL = ConfigurationRule(pattern: "^https?://.") { text in
        CollectorAddress(text) == nil ? "must be http://host[:port][/path], or https" : nil
    }

    /// A DNS name or a numeric address.
    static let host = ConfigurationRule(pattern: "^[A-Za-z0-9.:-]{1,253}$") { text in
        let isValid =
            (1...253).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                isLetterOrDigit($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ":")
            }
        return isValid ? nil : "is not a host name or an address"
    }

    /// Apple's rule for bundle ids. The id becomes part of a header and of Redis keys.
    static let bundleId = ConfigurationRule(pattern: "^[A-Za-z0-9.-]{1,155}$") { text in
        let isValid =
            (1...155).contains(text.utf8.count)
            && text.utf8.allSatisfy { isLetterOrDigit($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-") }
        return isValid ? nil : "is not a bundle id: 1 to 155 of letters, digits, '.' and '-'"
    }

    /// Apple's id of a team or a key.
    static let appleIdentifier = ConfigurationRule(pattern: "^[A-Z0-9]{10}$") { text in
        let isValid =
            text.utf8.count == 10
            && text.utf8.allSatisfy { isLetterOrDigit($0) && !(UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }
        return isValid ? nil : "must be 10 uppercase letters and digits"
    }

    static let path = ConfigurationRule { text in
        text.isEmpty ? "must name a file" : nil
    }

    /// The name of an app. It has only letters and digits, because `_` separates the parts of the environment variables
    /// that contain it.
    static let appName = ConfigurationRule(pattern: "^[a-z0-9]{1,32}$") { text in
        let isValid =
            (1...32).contains(text.utf8.count)
            && text.utf8.allSatisfy { isLetterOrDigit($0) && !(UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
        guard text != "none" else { return "the name none is reserved: metrics use it for records without an app" }
        return isValid ? nil : "an app's name is 1 to 32 lowercase letters and digits"
    }

    /// The name of a policy. The field `policy` of a command follows the same rule.
    static let policyName = ConfigurationRule(pattern: "^[A-Za-z0-9_-]{1,64}$") { text in
        let isValid =
            (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { isLetterOrDigit($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
        return isValid ? nil : "a policy's name is 1 to 64 letters, digits, '-' and '_'"
    }

    /// The name of a field in `content-state`, with dots between the keys of nested objects.
    static let contentStateFieldName = ConfigurationRule(pattern: #"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"#) { text in
        OversizeFields.isFieldName(text)
            ? nil
            : """
            is not a field's name: 1 to \(OversizeFields.nameBytesMax) letters, digits, '_' and '-', with dots \
            between keys
            """
    }

    /// The id of an audience, or the beginning of audience ids and then `*`: `match-*`.
    static let audiencePattern = ConfigurationRule { text in
        let isValid = (1...Limits.identifierBytesMax).contains(text.utf8.count) && !text.dropLast().contains("*")
        return isValid ? nil : "is not an audience pattern: 1 to \(Limits.identifierBytesMax) bytes, * only at the end"
    }

    /// librdkafka properties that must not be set, because keys of the configuration set them.
    private static let reservedProperties = [
        "bootstrap.servers": "cannot be set here: use kafka.bootstrapServers",
        "metadata.broker.list": "cannot be set here: use kafka.bootstrapServers",
        "group.id": "cannot be set here: use kafka.groupId",
    ]

    static let propertyName = ConfigurationRule { name in
        if let fault = reservedProperties[name] { return fault }
        let isValid =
            (1...128).contains(name.utf8.count)
            && name.utf8.allSatisfy {
                isLetterOrDigit($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_")
            }
        return isValid ? nil : "is not the name of a librdkafka property"
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }
}
