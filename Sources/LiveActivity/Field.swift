/// A part of a record that Causeway reads: usually the value of a key. There may be at most 64 fields, because
/// ``JSONMembers`` has one bit for each.
public enum Field: UInt8, Sendable, CaseIterable, BitwiseCopyable {
    case record
    case app, activity, audience, device, aps, payload, id, sequence, priority, policy, expiration, token, environment
    case event, timestamp, contentState, apsAttributesType, attributes, alert
    case staleDate, dismissalDate, relevanceScore, inputPushToken, inputPushChannel
    case alertTitle, alertBody, alertSound
    case titleKey, titleArguments, bodyKey, bodyArguments
    /// Keys of commands that Causeway wrote, for example to hold them or to fan them out. A producer must not write
    /// these keys.
    case alertTimestamp, alertSequence
    case registeredAt, attributesType, frequentUpdates, shows, showsTimestamp, showsSequence, audiences, channels
    case channel
    /// The request body that is composed from the command. It is not a key of the record.
    case body

    /// The keys from the record's object down, joined with dots; empty for the record itself.
    public var path: StaticString {
        switch self {
        case .record: ""
        case .app: "app"
        case .activity: "activity"
        case .audience: "audience"
        case .device: "device"
        case .aps: "aps"
        case .payload: "payload"
        case .id: "id"
        case .sequence: "sequence"
        case .priority: "priority"
        case .policy: "policy"
        case .expiration: "expiration"
        case .token: "token"
        case .environment: "environment"
        case .event: "aps.event"
        case .timestamp: "aps.timestamp"
        case .contentState: "aps.content-state"
        case .apsAttributesType: "aps.attributes-type"
        case .attributes: "aps.attributes"
        case .alert: "aps.alert"
        case .staleDate: "aps.stale-date"
        case .dismissalDate: "aps.dismissal-date"
        case .relevanceScore: "aps.relevance-score"
        case .inputPushToken: "aps.input-push-token"
        case .inputPushChannel: "aps.input-push-channel"
        case .alertTitle: "aps.alert.title"
        case .alertBody: "aps.alert.body"
        case .alertSound: "aps.alert.sound"
        case .titleKey: "aps.alert.title.loc-key"
        case .titleArguments: "aps.alert.title.loc-args"
        case .bodyKey: "aps.alert.body.loc-key"
        case .bodyArguments: "aps.alert.body.loc-args"
        case .alertTimestamp: "alertTimestamp"
        case .alertSequence: "alertSequence"
        case .registeredAt: "registeredAt"
        case .attributesType: "attributesType"
        case .frequentUpdates: "frequentUpdates"
        case .shows: "shows"
        case .showsTimestamp: "shows.timestamp"
        case .showsSequence: "shows.sequence"
        case .audiences: "audiences"
        case .channels: "channels"
        case .channel: "channel"
        case .body: "body"
        }
    }

    /// What the field's value must be, in words that follow "must be" in a message.
    var requirement: StaticString {
        switch self {
        case .record, .aps, .payload, .contentState, .attributes, .alert: "an object"
        case .app, .activity, .audience, .device, .attributesType: "a string of 1 to 256 bytes"
        case .id: "a string of 1 to 64 bytes"
        case .sequence, .alertSequence, .showsSequence: "a whole number from 0 to 18446744073709551615"
        case .priority: "5 or 10"
        case .policy: "a string of 1 to 64 letters, digits, \"-\" and \"_\""
        case .expiration: "whole seconds since 1970, 10 digits (milliseconds have 13, and 0 is not allowed)"
        case .token: "an even number of hexadecimal digits, 8 to 200"
        case .environment: "\"production\" or \"sandbox\""
        case .event: "\"start\", \"update\" or \"end\""
        case .timestamp, .alertTimestamp, .showsTimestamp:
            "whole seconds since 1970, 10 digits (milliseconds have 13, seconds since 2001 have 9)"
        case .apsAttributesType: "a string of 1 to 256 bytes, the Swift type's name"
        case .staleDate, .dismissalDate: "a number, seconds since 1970"
        case .relevanceScore: "a number"
        case .inputPushToken: "1"
        case .inputPushChannel: "a string, the channel id"
        case .alertTitle, .alertBody: "a string, or an object with \"loc-key\" and optionally \"loc-args\""
        case .alertSound: "a string"
        case .titleKey, .bodyKey: "a string"
        case .titleArguments, .bodyArguments: "an array of strings"
        case .registeredAt: "whole milliseconds since 1970, 13 digits"
        case .frequentUpdates, .channels: "true or false"
        case .channel: "true or false, or the id of a channel, 4 to 64 characters of base64"
        case .shows: "a timestamp, or an object with \"timestamp\" and optionally \"sequence\""
        case .audiences: "an array of strings of 1 to 256 bytes"
        case .body: "at most 4096 bytes"
        }
    }
}
