extension Alert: Codable {
    public init(from decoder: any Decoder) throws { try self.init(RecordObject(JSONValue(from: decoder), "")) }

    public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }

    init(_ alert: RecordObject) throws(RecordFault) {
        title = try Self.readText(alert, "title")
        body = try Self.readText(alert, "body")
        sound = try alert.readString("sound")
    }

    private static func readText(_ alert: RecordObject, _ key: String) throws(RecordFault) -> Text? {
        guard case .object = alert.member(key) else { return try alert.readString(key).map { .plain($0) } }
        let text = try alert.readObject(key)
        return .localized(
            key: try text.requireValue("loc-key", text.readString("loc-key")),
            arguments: try text.readStrings("loc-args") ?? []
        )
    }

    var json: JSONValue {
        var members: [String: JSONValue] = [:]
        members["title"] = title?.json
        members["body"] = body?.json
        members["sound"] = sound.map { .string($0) }
        return .object(members)
    }
}

extension Alert.Text {
    fileprivate var json: JSONValue {
        switch self {
        case .plain(let text): .string(text)
        case .localized(let key, []): ["loc-key": .string(key)]
        case .localized(let key, let arguments):
            ["loc-key": .string(key), "loc-args": .array(arguments.map { .string($0) })]
        }
    }
}
