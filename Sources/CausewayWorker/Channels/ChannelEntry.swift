import Documents

/// A channel of an audience, as stored in Redis' register and in `causeway.channels`.
package struct ChannelEntry: Codable, Equatable, Sendable {
    package enum Storage: String, Codable, Sendable { case none, newest }
    package enum State: String, Codable, Sendable { case active, deleting }

    package var app: String
    package var environment: String
    package var audience: String
    /// APNs' id of the channel, base64.
    package var channel: String
    package var storage: Storage
    /// UNIX milliseconds.
    package var createdAt: Int64
    package var state = State.active
    /// When to delete the channel, UNIX milliseconds. Nil: the audience has not ended.
    package var deleteAfter: Int64?
    /// Whether `causeway.channels` has the entry as it is here. Only in the register.
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

    /// The key of the channel's records in `causeway.channels`.
    package var topicKey: String { "\(app)/\(environment)/\(audience)" }

    /// The value of the channel's record in `causeway.channels`.
    package var topicValue: [UInt8] {
        var entry = self
        entry.isPublished = nil
        return entry.json
    }

    package var json: [UInt8] {
        // Strings and numbers always encode.
        (try? StableJSON.bytes(self)) ?? []
    }

    package init?(json: [UInt8]) {
        guard let entry = StableJSON.decode(Self.self, json) else { return nil }
        self = entry
    }

    /// The field in the audience's record that tells admission of the channel. Storage policy (1 byte), creation time (8 bytes, little-endian,
    /// UNIX milliseconds), id.
    package var recordField: [UInt8] {
        [storage == .newest ? 1 : 0] + withUnsafeBytes(of: createdAt.littleEndian) { Array($0) } + Array(channel.utf8)
    }
}

/// Says that a worker is about to create a channel. While the intent exists, there may be a channel whose id nobody knows.
package struct ChannelIntent: Codable, Equatable, Sendable {
    /// Unique for each attempt, so that two attempts for one audience are two intents.
    package var identifier: String
    package var audience: String
    /// UNIX milliseconds.
    package var createdAt: Int64
    /// The creating process, as host and process id, for people.
    package var worker: String

    package init(identifier: String, audience: String, createdAt: Int64, worker: String) {
        self.identifier = identifier
        self.audience = audience
        self.createdAt = createdAt
        self.worker = worker
    }

    package var json: [UInt8] {
        // Strings and numbers always encode.
        (try? StableJSON.bytes(self)) ?? []
    }

    package init?(json: [UInt8]) {
        guard let intent = StableJSON.decode(Self.self, json) else { return nil }
        self = intent
    }
}
