import LiveActivity
import Reactor
import Redis

/// What texts must look like. Each rule answers what is wrong, or nil.
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

    /// `host:port`, separated by commas; librdkafka takes 9092 where the port is left out.
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
            if case .unix = url.location { return "Sentinels are reached by host and port" }
            return url.database == 0 ? nil : "Sentinels have no databases"
        } catch {
            return "\(error); the form is redis[s]://[[user]:password@]host[:port][,host[:port]…]"
        }
    }

    /// An address that can be listened on without asking anybody.
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

    /// What Apple allows in a bundle id; it becomes part of a header and of Redis keys.
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

    /// A member of `apps`. No separator, so that the names of environment variables say which app they mean.
    static func appName(_ text: String) -> String? {
        let isGood =
            (1...32).contains(text.utf8.count)
            && text.utf8.allSatisfy { isLetterOrDigit($0) && !(UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
        guard text != "none" else { return "none stands for no app in metrics" }
        return isGood ? nil : "an app's name is 1 to 32 small letters and digits"
    }

    /// A member of `policies`, which commands name too.
    static func policyName(_ text: String) -> String? {
        let isGood =
            (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { isLetterOrDigit($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
        return isGood ? nil : "a policy's name is 1 to 64 letters, digits, '-' and '_'"
    }

    /// Audience ids, of which the last character may be a `*` for whatever follows.
    static func audiencePattern(_ text: String) -> String? {
        let isGood = (1...Limits.identifierBytes).contains(text.utf8.count) && !text.dropLast().contains("*")
        return isGood ? nil : "is no pattern of audiences: 1 to \(Limits.identifierBytes) bytes, a * at the end only"
    }

    /// Properties that have a key of their own.
    private static let ownedProperties = [
        "bootstrap.servers": "is kafka.bootstrapServers here",
        "metadata.broker.list": "is kafka.bootstrapServers here",
        "group.id": "is kafka.groupId here",
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
