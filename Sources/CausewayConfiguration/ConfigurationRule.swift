import LiveActivity
import Reactor
import Redis

/// The rules for texts. Each returns what is wrong, or nil.
enum ConfigurationRule {
    /// Kafka's own rule for topic names.
    static func topic(_ text: String) -> String? {
        guard (1...249).contains(text.utf8.count), text != ".", text != "..",
            text.utf8.allSatisfy({
                isLetterOrDigit($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-")
            })
        else { return "is not a topic name: 1 to 249 of letters, digits, '.', '_' and '-'" }
        return nil
    }

    static func groupIdentifier(_ text: String) -> String? {
        (1...255).contains(text.utf8.count) ? nil : "must have 1 to 255 bytes"
    }

    /// `host:port`, several separated by commas. librdkafka uses port 9092 if there is none.
    static func bootstrapServers(_ text: String) -> String? {
        let servers = text.split(separator: ",", omittingEmptySubsequences: false)
        let isGood = servers.allSatisfy { server in
            guard !server.isEmpty, !server.contains(where: \.isWhitespace) else { return false }
            guard let colon = server.lastIndex(of: ":"), !server[colon...].contains("]") else { return true }
            return colon > server.startIndex && UInt16(server[server.index(after: colon)...]).map { $0 > 0 } == true
        }
        return isGood ? nil : "must be host:port, several separated by commas without spaces"
    }

    static func redisURL(_ text: String) -> String? {
        do {
            _ = try RedisURL(text)
            return nil
        } catch {
            return
                "\(error); the forms are redis[s]://[[user]:password@]host[:port][/database] and unix:///path[?db=number]"
        }
    }

    static func sentinelURL(_ text: String) -> String? {
        do {
            let url = try RedisURL(text, portDefault: RedisURL.sentinelPortDefault)
            if case .unix = url.location { return "Sentinels need a host and a port" }
            return url.database == 0 ? nil : "Sentinels have no databases"
        } catch {
            return "\(error); the form is redis[s]://[[user]:password@]host[:port][,host[:port]…]"
        }
    }

    /// A numeric address: listening on it needs no look-up.
    static func numericAddress(_ text: String) -> String? {
        SocketAddress(numeric: text, port: 0) == nil
            ? "is not a numeric address, such as 0.0.0.0, 127.0.0.1 or ::" : nil
    }

    static func collectorURL(_ text: String) -> String? {
        CollectorAddress(text) == nil ? "must be http://host[:port][/path], or https" : nil
    }

    /// A DNS name or a numeric address.
    static func host(_ text: String) -> String? {
        let isGood =
            (1...253).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                isLetterOrDigit($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ":")
            }
        return isGood ? nil : "is not a host name or an address"
    }

    /// Apple's rule for bundle ids. The id becomes part of a header and of Redis keys.
    static func bundleIdentifier(_ text: String) -> String? {
        let isGood =
            (1...155).contains(text.utf8.count)
            && text.utf8.allSatisfy { isLetterOrDigit($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-") }
        return isGood ? nil : "is not a bundle id: 1 to 155 of letters, digits, '.' and '-'"
    }

    /// A team or key id.
    static func appleIdentifier(_ text: String) -> String? {
        let isGood =
            text.utf8.count == 10
            && text.utf8.allSatisfy { isLetterOrDigit($0) && !(UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }
        return isGood ? nil : "must be Apple's ten capital letters and digits"
    }

    static func path(_ text: String) -> String? {
        text.isEmpty ? "must name a file" : nil
    }

    /// The name of an app. It has no separators, so that an environment variable's name says clearly which app it belongs to.
    static func appName(_ text: String) -> String? {
        let isGood =
            (1...32).contains(text.utf8.count)
            && text.utf8.allSatisfy { isLetterOrDigit($0) && !(UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
        guard text != "none" else { return "the name none is reserved: metrics use it for no app" }
        return isGood ? nil : "an app's name is 1 to 32 small letters and digits"
    }

    /// The name of a policy; commands use it too.
    static func policyName(_ text: String) -> String? {
        let isGood =
            (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { isLetterOrDigit($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
        return isGood ? nil : "a policy's name is 1 to 64 letters, digits, '-' and '_'"
    }

    /// An audience id, or the beginning of audience ids followed by `*`.
    static func audiencePattern(_ text: String) -> String? {
        let isGood = (1...Limits.identifierBytes).contains(text.utf8.count) && !text.dropLast().contains("*")
        return isGood ? nil : "is not an audience pattern: 1 to \(Limits.identifierBytes) bytes, * only at the end"
    }

    /// librdkafka properties that have a key of their own here.
    private static let ownedProperties = [
        "bootstrap.servers": "is set by kafka.bootstrapServers",
        "metadata.broker.list": "is set by kafka.bootstrapServers",
        "group.id": "is set by kafka.groupId",
    ]

    static func propertyName(_ name: String) -> String? {
        if let complaint = ownedProperties[name] { return complaint }
        let isGood =
            (1...128).contains(name.utf8.count)
            && name.utf8.allSatisfy {
                isLetterOrDigit($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_")
            }
        return isGood ? nil : "is not the name of a librdkafka property"
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
