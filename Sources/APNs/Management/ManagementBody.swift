import FoundationEssentials

/// Bodies of requests and answers of the management service, as Apple documents them.
enum ManagementBody {
    /// Of a channel: what a creation asks for and what a read answers.
    struct Channel: Codable {
        /// 1: APNs keeps the newest message. 0: APNs keeps nothing.
        var storagePolicy: Int
        var pushType: String?

        enum CodingKeys: String, CodingKey {
            case storagePolicy = "message-storage-policy"
            case pushType = "push-type"
        }
    }

    /// All channels of an app in an environment.
    struct List: Decodable {
        var channels: [String]
    }

    static func encode(_ channel: Channel) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        return try Array(encoder.encode(channel))
    }

    /// Nil for a body in another form.
    static func decode<Body: Decodable>(_ type: Body.Type, _ body: [UInt8]) -> Body? {
        try? JSONDecoder().decode(type, from: Data(body))
    }
}
