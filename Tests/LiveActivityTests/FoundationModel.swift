import Foundation
import LiveActivity
import RecordTestbed

/// A second implementation of the rules of a command. It checks the values that Foundation reads. Tests compare its
/// result with the decoder's.
struct CommandModel: Equatable {
    var event: String
    var timestamp: UInt64
    var sequence: UInt64
    var app: String
    var activity: String?
    var audience: String?
    var device: String?
    var identifier: String?
    var token: String?
    var environment: String?
    var attributesType: String?
    var priority: UInt64
    var expirationSeconds: UInt64?
    var hasAlert: Bool
    var policy: String?

    /// Reads a command; nil if the record is invalid.
    init?(_ value: FoundationValue) {
        guard let record = value.object, let aps = record["aps"]?.object else { return nil }
        let knownKeys: Set<String> = [
            "app", "activity", "audience", "device", "id", "token", "environment", "sequence", "priority", "policy",
            "channel",
            "expiration",
            "aps", "payload",
        ]
        guard knownKeys.isSuperset(of: record.keys) else { return nil }
        guard let app = Self.validName(record["app"]) else { return nil }
        self.app = app
        guard Self.isAbsentOr(record["id"], { Self.validName($0, bytesMax: 64) != nil }),
            Self.isAbsentOr(record["device"], { Self.validName($0) != nil }),
            Self.isAbsentOr(record["activity"], { Self.validName($0) != nil }),
            Self.isAbsentOr(record["audience"], { Self.validName($0) != nil }),
            Self.isAbsentOr(record["sequence"], { $0.unsigned != nil }),
            Self.isAbsentOr(record["priority"], { $0.unsigned == 5 || $0.unsigned == 10 }),
            Self.isAbsentOr(record["policy"], { Self.isPolicy($0.string) }),
            Self.isAbsentOr(record["expiration"], { (1_000_000_000...9_999_999_999).contains($0.unsigned ?? 0) }),
            Self.isAbsentOr(record["payload"], { $0.object != nil && $0.object?["aps"] == nil }),
            Self.isAbsentOr(
                record["channel"],
                { $0.isBoolean && record["audience"] != nil || Self.isChannel($0.string) }
            ),
            Self.isAbsentOr(record["token"], { Self.isToken($0.string) }),
            Self.isAbsentOr(record["environment"], { ["production", "sandbox"].contains($0.string) }),
            record["channel"]?.string != nil || (record["token"] == nil) == (record["environment"] == nil)
        else { return nil }
        guard let event = aps["event"]?.string, let timestamp = aps["timestamp"]?.unsigned, Self.isValid(aps, event),
            (1_000_000_000...9_999_999_999).contains(timestamp), Self.isAddressed(record, event)
        else { return nil }
        self.event = event
        self.timestamp = timestamp
        sequence = record["sequence"]?.unsigned ?? 0
        activity = record["activity"]?.string
        audience = record["audience"]?.string
        device = record["device"]?.string
        identifier = record["id"]?.string
        token = record["token"]?.string
        environment = record["environment"]?.string
        attributesType = aps["attributes-type"]?.string
        priority = record["priority"]?.unsigned ?? 0
        expirationSeconds = record["expiration"]?.unsigned
        hasAlert = aps["alert"] != nil
        policy = record["policy"]?.string
    }

    /// The fields of a decoded command.
    init(_ command: Command, in record: Record) {
        event = command.event.name.description
        timestamp = UInt64(command.version.timestamp)
        sequence = command.version.sequence
        app = record.string(command.app) ?? ""
        activity = record.string(command.activity)
        audience = record.string(command.audience)
        device = record.string(command.device)
        identifier = record.string(command.identifier)
        token = record.string(command.token)
        environment = command.environment?.name.description
        attributesType = record.string(command.attributesType)
        priority = UInt64(command.priority)
        expirationSeconds = command.expirationSeconds < 0 ? nil : UInt64(command.expirationSeconds)
        hasAlert = command.hasAlert
        policy = record.string(command.policy)
    }

    private static func isAddressed(_ record: [String: FoundationValue], _ event: String) -> Bool {
        let isStart = event == "start"
        guard record["channel"]?.string == nil else {
            return !isStart && ["activity", "audience", "device", "token"].allSatisfy { record[$0] == nil }
        }
        guard record["audience"] != nil else {
            return record["activity"] != nil && (record["device"] != nil) == isStart
        }
        guard record["device"] == nil, record["token"] == nil else { return false }
        return isStart ? record["activity"]?.string?.contains("{device}") ?? false : record["activity"] == nil
    }

    private static func isAbsentOr(_ value: FoundationValue?, _ rule: (FoundationValue) -> Bool) -> Bool {
        value.map(rule) ?? true
    }

    private static func validName(_ value: FoundationValue?, bytesMax: Int = 256) -> String? {
        guard let text = value?.string, !text.isEmpty, text.utf8.count <= bytesMax,
            !text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control })
        else { return nil }
        return text
    }

    private static func isChannel(_ text: String?) -> Bool {
        guard let text, (4...64).contains(text.utf8.count) else { return false }
        return Data(base64Encoded: text) != nil
    }

    private static func isPolicy(_ text: String?) -> Bool {
        guard let text, (1...64).contains(text.utf8.count) else { return false }
        return text.unicodeScalars.allSatisfy {
            $0.isASCII && ($0.properties.isAlphabetic || "0123456789-_".unicodeScalars.contains($0))
        }
    }

    private static func isToken(_ text: String?) -> Bool {
        guard let text, (8...200).contains(text.utf8.count), text.utf8.count.isMultiple(of: 2) else { return false }
        return text.unicodeScalars.allSatisfy { $0.isASCII && $0.properties.isASCIIHexDigit }
    }

    private static func isValid(_ aps: [String: FoundationValue], _ event: String) -> Bool {
        guard ["start", "update", "end"].contains(event),
            isAbsentOr(aps["content-state"], { $0.object != nil }), event == "end" || aps["content-state"] != nil,
            isAbsentOr(aps["attributes"], { $0.object != nil }),
            isAbsentOr(aps["attributes-type"], { validName($0) != nil }),
            isAbsentOr(aps["stale-date"], \.isNumber), isAbsentOr(aps["relevance-score"], \.isNumber),
            isAbsentOr(aps["dismissal-date"], { $0.isNumber && event == "end" }),
            isAbsentOr(aps["input-push-token"], { $0.unsigned == 1 && event == "start" }),
            isAbsentOr(aps["input-push-channel"], { validName($0, bytesMax: 8_192) != nil && event == "start" }),
            aps["input-push-token"] == nil || aps["input-push-channel"] == nil,
            isAbsentOr(aps["alert"], isAlert)
        else { return false }
        guard event == "start" else { return true }
        guard aps["attributes"] != nil, aps["attributes-type"] != nil, let alert = aps["alert"]?.object else {
            return false
        }
        return ["title", "body"]
            .allSatisfy { key in
                alert[key].map { ($0.string ?? $0.object?["loc-key"]?.string) != "" } ?? false
            }
    }

    private static func isAlert(_ value: FoundationValue) -> Bool {
        guard let alert = value.object else { return false }
        return isAbsentOr(alert["sound"], { $0.string != nil }) && isAbsentOr(alert["title"], isText)
            && isAbsentOr(alert["body"], isText)
    }

    private static func isText(_ value: FoundationValue) -> Bool {
        if value.string != nil { return true }
        guard let object = value.object, object["loc-key"]?.string != nil else { return false }
        return isAbsentOr(object["loc-args"]) {
            if case .array(let elements) = $0 { elements.allSatisfy { $0.string != nil } } else { false }
        }
    }
}
