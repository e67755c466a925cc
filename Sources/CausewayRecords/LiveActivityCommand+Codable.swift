import Foundation

extension LiveActivityCommand: Codable {
    private enum CodingKeys: String, CodingKey {
        case app, activity, audience, channel, device, aps, payload, id, sequence, priority, expiration, policy, token
        case environment
    }

    private enum ApsKeys: String, CodingKey {
        case event, timestamp, attributes, alert
        case contentState = "content-state"
        case attributesType = "attributes-type"
        case staleDate = "stale-date"
        case dismissalDate = "dismissal-date"
        case relevanceScore = "relevance-score"
        case inputPushToken = "input-push-token"
        case inputPushChannel = "input-push-channel"
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(app, forKey: .app)
        switch address {
        case .activity(let name): try container.encode(name, forKey: .activity)
        case .audience(let name):
            try container.encode(name, forKey: .audience)
            try container.encodeIfPresent(asksForChannel, forKey: .channel)
        case .channel(let name, let environment):
            try container.encode(name, forKey: .channel)
            try container.encode(environment, forKey: .environment)
        }
        if case .start(let start) = event {
            try container.encodeIfPresent(start.device, forKey: .device)
            try container.encodeIfPresent(start.activityTemplate, forKey: .activity)
        }
        if let token {
            try container.encode(token.token, forKey: .token)
            try container.encode(token.environment, forKey: .environment)
        }
        try container.encodeIfPresent(payload, forKey: .payload)
        try container.encodeIfPresent(id, forKey: .id)
        try container.encodeIfPresent(sequence, forKey: .sequence)
        try container.encodeIfPresent(priority, forKey: .priority)
        try container.encodeSeconds(expiration, .expiration)
        try container.encodeIfPresent(policy, forKey: .policy)
        var aps = container.nestedContainer(keyedBy: ApsKeys.self, forKey: .aps)
        try encodeAps(to: &aps)
    }

    private func encodeAps(to aps: inout KeyedEncodingContainer<ApsKeys>) throws {
        switch event {
        case .start(let start):
            try aps.encode("start", forKey: .event)
            try aps.encode(start.attributesType, forKey: .attributesType)
            try aps.encode(start.attributes, forKey: .attributes)
            switch start.updates {
            case .token: try aps.encode(1, forKey: .inputPushToken)
            case .channel(let name): try aps.encode(name, forKey: .inputPushChannel)
            case nil: break
            }
        case .update: try aps.encode("update", forKey: .event)
        case .end: try aps.encode("end", forKey: .event)
        }
        try aps.encodeSeconds(timestamp, .timestamp)
        // ActivityKit decodes with default strategies, whatever the strategies of the encoder of the record are.
        try aps.encodeIfPresent(try contentState.map { try JSONValue(encoding: $0) }, forKey: .contentState)
        try aps.encodeIfPresent(alert, forKey: .alert)
        try aps.encodeSeconds(staleDate, .staleDate)
        try aps.encodeSeconds(dismissalDate, .dismissalDate)
        try aps.encodeIfPresent(relevanceScore, forKey: .relevanceScore)
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let aps = try container.nestedContainer(keyedBy: ApsKeys.self, forKey: .aps)
        event = try Self.event(container, aps)
        app = try container.decode(String.self, forKey: .app)
        let environment = try container.decodeIfPresent(PushEnvironment.self, forKey: .environment)
        if let audience = try container.decodeIfPresent(String.self, forKey: .audience) {
            address = .audience(audience)
            asksForChannel = try container.decodeIfPresent(Bool.self, forKey: .channel)
        } else if let channel = try container.decodeIfPresent(String.self, forKey: .channel) {
            address = .channel(channel, environment ?? .production)
        } else {
            address = .activity(try container.decode(String.self, forKey: .activity))
        }
        if let digits = try container.decodeIfPresent(PushToken.self, forKey: .token) {
            token = (digits, try container.decode(PushEnvironment.self, forKey: .environment))
        }
        payload = try container.decodeIfPresent([String: JSONValue].self, forKey: .payload)
        id = try container.decodeIfPresent(String.self, forKey: .id)
        sequence = try container.decodeIfPresent(UInt64.self, forKey: .sequence)
        priority = try container.decodeIfPresent(Int.self, forKey: .priority)
        expiration = try container.seconds(.expiration)
        policy = try container.decodeIfPresent(String.self, forKey: .policy)

        timestamp = UnixTime.date(seconds: try aps.decode(Double.self, forKey: .timestamp))
        contentState = try aps.decodeIfPresent(JSONValue.self, forKey: .contentState)?.decoded(as: ContentState.self)
        alert = try aps.decodeIfPresent(Alert.self, forKey: .alert)
        staleDate = try aps.seconds(.staleDate)
        dismissalDate = try aps.seconds(.dismissalDate)
        relevanceScore = try aps.decodeIfPresent(Double.self, forKey: .relevanceScore)
    }

    private static func event(
        _ container: KeyedDecodingContainer<CodingKeys>,
        _ aps: KeyedDecodingContainer<ApsKeys>
    ) throws -> Event {
        let name = try aps.decode(String.self, forKey: .event)
        switch name {
        case "update": return .update
        case "end": return .end
        case "start":
            var updates: Start.Updates?
            if let channel = try aps.decodeIfPresent(String.self, forKey: .inputPushChannel) {
                updates = .channel(channel)
            } else if aps.contains(.inputPushToken) {
                updates = .token
            }
            let isToAudience = container.contains(.audience)
            return .start(
                Start(
                    device: try container.decodeIfPresent(String.self, forKey: .device),
                    activityTemplate: isToAudience ? try container.decode(String.self, forKey: .activity) : nil,
                    attributesType: try aps.decode(String.self, forKey: .attributesType),
                    attributes: try aps.decode(JSONValue.self, forKey: .attributes),
                    updates: updates
                )
            )
        default:
            throw DecodingError.dataCorruptedError(
                forKey: .event,
                in: aps,
                debugDescription: "must be start, update or end, not \(name)"
            )
        }
    }
}
