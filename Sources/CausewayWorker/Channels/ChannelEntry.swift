import Documents

/// A channel of an audience, as stored in the registry (Redis' list of channels) and in the topic `causeway.channels`.
package struct ChannelEntry: Codable, Equatable, Sendable {
    package enum Storage: String, Codable, Sendable { case none, newest }
    package enum State: String, Codable, Sendable { case active, deleting }

    package var app: String
    package var environment: String
    package var audience: String
    /// APNs' id of the channel, base64.
    package var channel: String
    package var storage: Storage
    /// When the channel was created, UNIX milliseconds.
    package var createdAtWallMilliseconds: Int64
    package var state = State.active
    /// When to delete the channel, UNIX milliseconds. The keeper sets this time when the audience has ended. Nil has
    /// two meanings:
    ///
    /// - If `state` is `active`: no deletion is planned.
    /// - If `state` is `deleting`: the deletion is final, and no start can cancel it any more.
    package var deletionDueWallMilliseconds: Int64?
    /// If an operator wants this channel although its audience has ended: when Redis admitted that end, UNIX
    /// milliseconds. That end causes no deletion; only a later end does. Nil: no operator wants this. Stored only in
    /// Redis, so a loss of Redis' data loses the operator's wish (K8).
    package var disregardedEndWallMilliseconds: Int64?
    /// True: `causeway.channels` has the current form of this entry. Nil: that form must still be written there. Has no
    /// meaning while `state` is `deleting`: the topic may then say `active`, `deleting` or nothing. Stored only in
    /// Redis.
    package var isPublished: Bool?

    private enum CodingKeys: String, CodingKey {
        case app, environment, audience, channel, storage
        case createdAtWallMilliseconds = "createdAt"
        case state
        // The names in JSON have no units. Redis and `causeway.channels` have entries of former releases, so
        // "deleteAfter" keeps its name, although here "After" would mean a duration.
        case deletionDueWallMilliseconds = "deleteAfter"
        case disregardedEndWallMilliseconds = "disregardedEnd"
        case isPublished
    }

    package init(
        app: String,
        environment: String,
        audience: String,
        channel: String,
        storage: Storage,
        createdAtWallMilliseconds: Int64
    ) {
        self.app = app
        self.environment = environment
        self.audience = audience
        self.channel = channel
        self.storage = storage
        self.createdAtWallMilliseconds = createdAtWallMilliseconds
    }

    /// Whether the channel must be deleted now, or its deletion has begun.
    package func mustBeDeleted(nowWallMilliseconds: Int64) -> Bool {
        state == .deleting || deletionDueWallMilliseconds.map { $0 <= nowWallMilliseconds } == true
    }

    /// The key of the channel's records in `causeway.channels`.
    package var recordKey: String { "\(app)/\(environment)/\(audience)" }

    /// The value of the channel's record in `causeway.channels`: the entry without the properties that are stored only
    /// in Redis.
    package var recordValue: [UInt8] {
        var entry = self
        (entry.disregardedEndWallMilliseconds, entry.isPublished) = (nil, nil)
        return entry.json
    }

    package var json: [UInt8] {
        // Encoding cannot fail, because the entry has only strings, numbers and booleans.
        (try? StableJSON.bytes(self)) ?? []
    }

    package init?(json: [UInt8]) {
        guard let entry = StableJSON.decode(Self.self, json) else { return nil }
        self = entry
    }

    /// Reads the note in Redis that the channels topic lacks an audience's tombstone. If this release cannot read the
    /// note, the entry has no channel: a tombstone needs only the audience's name.
    init(tombstoneNote json: [UInt8], of audience: String, _ appEnvironment: AppEnvironment) {
        self =
            ChannelEntry(json: json)
            ?? ChannelEntry(
                app: appEnvironment.app,
                environment: appEnvironment.environment,
                audience: audience,
                channel: "",
                storage: .none,
                createdAtWallMilliseconds: 0
            )
    }

    /// The value of the channel's field in the audience's hash in Redis, where the script of admission reads the
    /// channel. Its bytes: storage policy (1 byte), creation time (8 bytes, little-endian, UNIX milliseconds), channel
    /// id.
    package var channelFieldValue: [UInt8] {
        [storage == .newest ? 1 : 0] + withUnsafeBytes(of: createdAtWallMilliseconds.littleEndian) { Array($0) }
            + Array(channel.utf8)
    }
}

/// An entry of the registry that this release cannot read. A newer release may have written it.
package struct UnreadableChannelEntry: Equatable, Sendable {
    package var audience: String
    /// APNs' id of the channel; nil if even this part of the entry cannot be read. Then any unknown channel at APNs may
    /// belong to this entry, so no unknown channel is deleted.
    package var channel: String?

    package init(audience: String, channel: String?) { (self.audience, self.channel) = (audience, channel) }

    init(audience: String, json: [UInt8]) {
        struct ChannelOnly: Decodable { var channel: String }
        self.init(audience: audience, channel: StableJSON.decode(ChannelOnly.self, json)?.channel)
    }
}

/// An intent (R32): the note in Redis that a worker or `causeway channels` is about to create a channel. While the
/// intent exists, APNs may have a channel whose id no process knows.
package struct ChannelCreationIntent: Codable, Equatable, Sendable {
    /// Unique for each attempt to create a channel. Each attempt may leave a channel at APNs, so two attempts for one
    /// audience need two intents.
    package var identifier: String
    package var audience: String
    /// When the intent was written, UNIX milliseconds.
    package var createdAtWallMilliseconds: Int64
    /// The host and the id of the process that creates the channel, for operators.
    package var worker: String

    private enum CodingKeys: String, CodingKey {
        case identifier, audience
        case createdAtWallMilliseconds = "createdAt"
        case worker
    }

    package init(identifier: String, audience: String, createdAtWallMilliseconds: Int64, worker: String) {
        self.identifier = identifier
        self.audience = audience
        self.createdAtWallMilliseconds = createdAtWallMilliseconds
        self.worker = worker
    }

    package var json: [UInt8] {
        // Encoding cannot fail, because the intent has only strings and numbers.
        (try? StableJSON.bytes(self)) ?? []
    }

    package init?(json: [UInt8]) {
        guard let intent = StableJSON.decode(Self.self, json) else { return nil }
        self = intent
    }
}
