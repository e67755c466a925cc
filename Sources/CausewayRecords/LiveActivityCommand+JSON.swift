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

    /// The names of the objects to which Apple may add keys. In these objects, a changed command keeps unknown keys.
    static let extensibleObjectKeys: Set = ["aps", "alert", "title", "body"]
}

extension LiveActivityCommand: Codable {
    public func encode(to encoder: any Encoder) throws { try json().encode(to: encoder) }

    public init(from decoder: any Decoder) throws { try self.init(json: JSONValue(from: decoder)) }

    public func value() throws -> Data { try json().text() }

    public init(value: Data) throws { try self.init(json: JSONValue(text: value)) }

    /// Returns the record's JSON. If the command was read from a record, unchanged parts stay as they were read.
    func json() throws -> JSONValue {
        let ownJSON = try propertiesJSON()
        guard let receivedJSON else { return ownJSON }
        return ownJSON.mergingChanges(
            into: receivedJSON,
            comparedWith: try Self(json: receivedJSON).propertiesJSON(),
            in: Key.extensibleObjectKeys
        )
    }

    /// Returns the JSON of the command's properties alone, without the parts that only `receivedJSON` has.
    func propertiesJSON() throws -> JSONValue {
        var record: [String: JSONValue] = ["app": .string(app), "aps": .object(try aps())]
        switch address {
        case .activity(let name): record["activity"] = .string(name)
        case .audience(let name):
            record["audience"] = .string(name)
            record["channel"] = asksForChannel.map { .boolean($0) }
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

    private func aps() throws -> [String: JSONValue] {
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
        // ActivityKit decodes the state with default strategies, and the encoder of the whole record may have others.
        // So the state has an encoder of its own.
        aps[Key.contentState] = try contentState.map { try JSONValue(encoding: $0) }
        aps["alert"] = alert?.json
        aps[Key.staleDate] = staleDate.map { .seconds($0) }
        aps[Key.dismissalDate] = dismissalDate.map { .seconds($0) }
        aps[Key.relevanceScore] = relevanceScore.map { .number($0) }
        return aps
    }

    private init(json: JSONValue) throws {
        let record = try RecordObject(json, "")
        let aps = try record.object("aps")
        receivedJSON = json
        event = try Self.readEvent(record, aps)
        app = try record.required("app", record.string("app"))
        let environment = try record.string("environment").map { PushEnvironment(rawValue: $0) }
        if let audience = try record.string("audience") {
            address = .audience(audience)
            asksForChannel = try record.boolean("channel")
        } else if record.has("channel") {
            address = .channel(try record.required("channel", record.string("channel")), environment ?? .production)
        } else {
            address = .activity(try record.required("activity", record.string("activity")))
        }
        if let digits = try record.string("token") {
            token = (PushToken(digits: digits), try record.required("environment", environment))
        }
        payload = try record.members("payload")
        id = try record.string("id")
        sequence = try record.unsigned("sequence")
        priority = try record.unsigned("priority").map { Int(clamping: $0) }
        expiration = try record.dateFromSeconds("expiration")
        policy = try record.string("policy")

        timestamp = try aps.required("timestamp", aps.dateFromSeconds("timestamp"))
        contentState = try aps.member(Key.contentState)?.decoded(as: ContentState.self)
        alert = try aps.has("alert") ? Alert(aps.object("alert")) : nil
        staleDate = try aps.dateFromSeconds(Key.staleDate)
        dismissalDate = try aps.dateFromSeconds(Key.dismissalDate)
        relevanceScore = try aps.number(Key.relevanceScore)
    }

    private static func readEvent(_ record: RecordObject, _ aps: RecordObject) throws(RecordFault) -> Event {
        switch try aps.required("event", aps.string("event")) {
        case "update": return .update
        case "end": return .end
        case "start":
            var updates: Start.Updates?
            if let channel = try aps.string(Key.inputPushChannel) {
                updates = .channel(channel)
            } else if aps.has(Key.inputPushToken) {
                updates = .token
            }
            return .start(
                Start(
                    device: try record.string("device"),
                    activityTemplate: record.has("audience")
                        ? try record.required("activity", record.string("activity")) : nil,
                    attributesType: try aps.required(Key.attributesType, aps.string(Key.attributesType)),
                    attributes: try aps.required("attributes", aps.member("attributes")),
                    updates: updates
                )
            )
        default: throw aps.fault("event", "expected start, update or end")
        }
    }
}
