import Foundation

/// The keys of a command's JSON that contain a hyphen.
private enum Key {
    static let contentState = "content-state"
    static let attributesType = "attributes-type"
    static let staleDate = "stale-date"
    static let dismissalDate = "dismissal-date"
    static let relevanceScore = "relevance-score"
    static let inputPushToken = "input-push-token"
    static let inputPushChannel = "input-push-channel"

    /// The objects to which Apple may add keys. If a command is read, changed and written, the unknown keys in these
    /// objects stay.
    static let extensibleObjectKeys: Set = ["aps", "alert", "title", "body"]
}

extension LiveActivityCommand: Codable {
    public func encode(to encoder: any Encoder) throws { try makeJSON().encode(to: encoder) }

    public init(from decoder: any Decoder) throws { try self.init(json: JSONValue(from: decoder)) }

    public func value() throws -> Data { try makeJSON().text() }

    public init(value: Data) throws { try self.init(json: JSONValue(text: value)) }

    /// Returns the record's JSON. If the command was read from a record, unchanged parts stay as they were read.
    func makeJSON() throws -> JSONValue {
        let ownJSON = try makePropertiesJSON()
        guard let receivedJSON else { return ownJSON }
        return ownJSON.mergingChanges(
            into: receivedJSON,
            comparedWith: try Self(json: receivedJSON).makePropertiesJSON(),
            in: Key.extensibleObjectKeys
        )
    }

    /// Returns the JSON of the command's properties. It lacks what only `receivedJSON` has: unknown keys, and the
    /// original digits of numbers.
    func makePropertiesJSON() throws -> JSONValue {
        var record: [String: JSONValue] = ["app": .string(app), "aps": .object(try makeAps())]
        switch address {
        case .activity(let name): record["activity"] = .string(name)
        case .audience(let name):
            record["audience"] = .string(name)
            record["channel"] = requestsChannel.map { .boolean($0) }
        case .channel(let name, let environment):
            record["channel"] = .string(name)
            record["environment"] = .string(environment.rawValue)
        }
        if case .start(let start) = event {
            if let device = start.device { record["device"] = .string(device) }
            if let template = start.activityTemplate { record["activity"] = .string(template) }
        }
        if let token {
            record["token"] = .string(token.token.digits)
            record["environment"] = .string(token.environment.rawValue)
        }
        record["payload"] = payload.map { .object($0) }
        record["id"] = id.map { .string($0) }
        record["sequence"] = sequence.map { .wholeNumber($0) }
        record["priority"] = priority.map { .integer(Int64($0)) }
        record["expiration"] = expiration.map { .seconds($0) }
        record["policy"] = policy.map { .string($0) }
        return .object(record)
    }

    private func makeAps() throws -> [String: JSONValue] {
        var aps: [String: JSONValue] = ["timestamp": .seconds(timestamp)]
        switch event {
        case .start(let start):
            aps["event"] = "start"
            aps[Key.attributesType] = .string(start.attributesType)
            aps["attributes"] = start.attributes
            switch start.updates {
            case .token: aps[Key.inputPushToken] = 1
            case .channel(let name): aps[Key.inputPushChannel] = .string(name)
            case nil: break
            }
        case .update: aps["event"] = "update"
        case .end: aps["event"] = "end"
        }
        // ActivityKit decodes the state with default strategies, so the state is encoded with them too. The encoder of
        // the whole record may have other strategies.
        aps[Key.contentState] = try contentState.map { try JSONValue(encoding: $0) }
        aps["alert"] = alert?.json
        aps[Key.staleDate] = staleDate.map { .seconds($0) }
        aps[Key.dismissalDate] = dismissalDate.map { .seconds($0) }
        aps[Key.relevanceScore] = relevanceScore.map { .number($0) }
        return aps
    }

    private init(json: JSONValue) throws {
        let record = try RecordObject(json, "")
        let aps = try record.readObject("aps")
        receivedJSON = json
        event = try Self.readEvent(record, aps)
        app = try record.requireValue("app", record.readString("app"))
        let environment = try record.readString("environment").map { PushEnvironment(rawValue: $0) }
        if let audience = try record.readString("audience") {
            address = .audience(audience)
            requestsChannel = try record.readBoolean("channel")
        } else if record.has("channel") {
            address = .channel(
                try record.requireValue("channel", record.readString("channel")),
                environment ?? .production
            )
        } else {
            address = .activity(try record.requireValue("activity", record.readString("activity")))
        }
        if let digits = try record.readString("token") {
            token = (PushToken(digits: digits), try record.requireValue("environment", environment))
        }
        payload = try record.readMembers("payload")
        id = try record.readString("id")
        sequence = try record.readUnsigned("sequence")
        priority = try record.readUnsigned("priority").map { Int(clamping: $0) }
        expiration = try record.readDateFromSeconds("expiration")
        policy = try record.readString("policy")

        timestamp = try aps.requireValue("timestamp", aps.readDateFromSeconds("timestamp"))
        contentState = try aps.member(Key.contentState)?.decoded(as: ContentState.self)
        alert = try aps.has("alert") ? Alert(aps.readObject("alert")) : nil
        staleDate = try aps.readDateFromSeconds(Key.staleDate)
        dismissalDate = try aps.readDateFromSeconds(Key.dismissalDate)
        relevanceScore = try aps.readNumber(Key.relevanceScore)
    }

    private static func readEvent(_ record: RecordObject, _ aps: RecordObject) throws(RecordFault) -> Event {
        switch try aps.requireValue("event", aps.readString("event")) {
        case "update": return .update
        case "end": return .end
        case "start":
            var updates: Start.Updates?
            if let channel = try aps.readString(Key.inputPushChannel) {
                updates = .channel(channel)
            } else if aps.has(Key.inputPushToken) {
                updates = .token
            }
            return .start(
                Start(
                    device: try record.readString("device"),
                    activityTemplate: record.has("audience")
                        ? try record.requireValue("activity", record.readString("activity")) : nil,
                    attributesType: try aps.requireValue(Key.attributesType, aps.readString(Key.attributesType)),
                    attributes: try aps.requireValue("attributes", aps.member("attributes")),
                    updates: updates
                )
            )
        default: throw aps.fault("event", "expected start, update or end")
        }
    }
}
