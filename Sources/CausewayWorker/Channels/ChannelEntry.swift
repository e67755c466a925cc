import FoundationEssentials

/// A channel of an audience, as the register in Redis and `causeway.channels` have it.
package struct ChannelEntry: Codable, Equatable, Sendable {
    package enum Storage: String, Codable, Sendable { case none, newest }
    package enum State: String, Codable, Sendable { case active, deleting }

    package var app: String
    package var environment: String
    package var audience: String
    /// APNs' id, base64.
    package var channel: String
    package var storage: Storage
    /// UNIX milliseconds.
    package var createdAt: Int64
    package var state = State.active
    /// To be deleted from then on, UNIX milliseconds; in the register only.
    package var deleteAfter: Int64?
    /// Whether the topic has it; in the register only.
    package var isPublished: Bool?

    package init(
        app: String,
        environment: String,
        audience: String,
        channel: String,
        storage: Storage,
        createdAt: Int64
    ) {
        self.app = app
        self.environment = environment
        self.audience = audience
        self.channel = channel
        self.storage = storage
        self.createdAt = createdAt
    }

    /// The key of its records in the topic.
    package var topicKey: String { "\(app)/\(environment)/\(audience)" }

    /// What the topic says.
    package var topicValue: [UInt8] {
        var entry = self
        (entry.deleteAfter, entry.isPublished) = (nil, nil)
        return entry.json
    }

    package var json: [UInt8] { ChannelJSON.encode(self) }

    package init?(json: [UInt8]) {
        guard let entry = ChannelJSON.decode(Self.self, json) else { return nil }
        self = entry
    }

    /// What the audience's record says, for the admission of its commands: storage policy (one byte), the moment of its creation (eight bytes,
    /// little-endian) and the id.
    package var recordField: [UInt8] {
        [storage == .newest ? 1 : 0] + withUnsafeBytes(of: createdAt.littleEndian) { Array($0) } + Array(channel.utf8)
    }
}

/// A channel is about to be asked for. If it is not resolved, there may be a channel that nobody knows.
package struct ChannelIntent: Codable, Equatable, Sendable {
    /// Its own, so that two attempts for one audience are two.
    package var identifier: String
    package var audience: String
    /// UNIX milliseconds.
    package var createdAt: Int64
    /// The process that asks: host and process id, for people.
    package var worker: String

    package init(identifier: String, audience: String, createdAt: Int64, worker: String) {
        self.identifier = identifier
        self.audience = audience
        self.createdAt = createdAt
        self.worker = worker
    }
}

enum ChannelJSON {
    static func encode(_ value: some Encodable) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Strings and numbers always encode.
        return (try? encoder.encode(value)).map(Array.init) ?? []
    }

    static func decode<Value: Decodable>(_ type: Value.Type, _ bytes: [UInt8]) -> Value? {
        try? JSONDecoder().decode(type, from: Data(bytes))
    }
}
