import ActivityStore
import Redis

/// The register of channels in Redis: one hash for each app and environment, and two fields in each audience's record.
///
/// | field of `{channels:app:environment}` | |
/// | --- | --- |
/// | `a:<audience>` | a ``ChannelEntry`` |
/// | `i:<identifier>` | a ``ChannelIntent`` |
/// | `f:<channel>` | empty: another program made the channel |
/// | `r:` | when APNs' list was last compared with these fields, UNIX milliseconds |
///
/// Blocks. Use it from one thread at a time.
final class ChannelRegister {
    struct Place: Hashable, Sendable {
        var app: String
        /// `production` or `sandbox`.
        var environment: String
    }

    /// The lifetime of an audience's record after its last command.
    private static let recordMilliseconds: Int64 = 25 * 3_600_000

    private let hashes: SharedHashes

    init(configuration: RedisConfiguration) throws(RedisError) {
        hashes = try SharedHashes(configuration: configuration)
    }

    private func key(_ place: Place, _ suffix: String = "") -> [UInt8] {
        Array("{channels:\(place.app):\(place.environment)}\(suffix)".utf8)
    }

    private func bytes(_ kind: Character, _ name: String) -> [UInt8] { Array("\(kind):\(name)".utf8) }

    /// Reads the whole hash at one moment. Skips values that it cannot read: another release wrote them.
    func known(_ place: Place) throws(RedisError) -> Reconciliation.Known {
        var known = Reconciliation.Known()
        for (field, value) in try hashes.hash(key(place)) {
            let name = String(decoding: field.dropFirst(2), as: UTF8.self)
            switch field.first {
            case UInt8(ascii: "a"): if let entry = ChannelEntry(json: value) { known.entries.append(entry) }
            case UInt8(ascii: "i"):
                if let intent = ChannelJSON.decode(ChannelIntent.self, value) { known.intents.append(intent) }
            case UInt8(ascii: "f"): known.foreign.insert(name)
            case UInt8(ascii: "r"): known.reconciledAt = Int64(String(decoding: value, as: UTF8.self))
            default: break
            }
        }
        known.entries.sort { $0.audience < $1.audience }
        known.intents.sort { ($0.createdAt, $0.identifier) < ($1.createdAt, $1.identifier) }
        return known
    }

    func entry(_ place: Place, audience: String) throws(RedisError) -> ChannelEntry? {
        try hashes.value(key(place), bytes("a", audience)).flatMap(ChannelEntry.init(json:))
    }

    func write(_ entry: ChannelEntry) throws(RedisError) {
        let place = Place(app: entry.app, environment: entry.environment)
        try hashes.set(key(place), [(bytes("a", entry.audience), entry.json)])
    }

    func remove(_ entry: ChannelEntry) throws(RedisError) {
        try hashes.remove(key(Place(app: entry.app, environment: entry.environment)), [bytes("a", entry.audience)])
    }

    func write(_ intent: ChannelIntent, _ place: Place) throws(RedisError) {
        try hashes.set(key(place), [(bytes("i", intent.identifier), ChannelJSON.encode(intent))])
    }

    func remove(_ intents: [ChannelIntent], _ place: Place) throws(RedisError) {
        try hashes.remove(key(place), intents.map { bytes("i", $0.identifier) })
    }

    func noteForeign(_ channels: [String], _ place: Place) throws(RedisError) {
        if !channels.isEmpty { try hashes.set(key(place), channels.map { (bytes("f", $0), []) }) }
    }

    func forgetForeign(_ channels: [String], _ place: Place) throws(RedisError) {
        try hashes.remove(key(place), channels.map { bytes("f", $0) })
    }

    func noteReconciliation(_ place: Place, atMilliseconds: Int64) throws(RedisError) {
        try hashes.set(key(place), [(bytes("r", ""), Array(String(atMilliseconds).utf8))])
    }

    // MARK: - Leases

    func takeCreation(of audience: String, _ place: Place, milliseconds: Int64) throws(RedisError) -> Bool {
        try hashes.takeLease(key(place, "create:\(audience)"), milliseconds: milliseconds)
    }

    func endCreation(of audience: String, _ place: Place) throws(RedisError) {
        try hashes.endLease(key(place, "create:\(audience)"))
    }

    func isBeingCreated(_ audience: String, _ place: Place) throws(RedisError) -> Bool {
        try hashes.isLeased(key(place, "create:\(audience)"))
    }

    /// - Parameter name: the periodic work that one worker at a time does.
    func takeTurn(_ name: String, _ place: Place, milliseconds: Int64) throws(RedisError) -> Bool {
        try hashes.takeLease(key(place, "turn:\(name)"), milliseconds: milliseconds)
    }

    // MARK: - Audiences' records

    /// Tells admission of the audience's channel. Field `hp` for production, `hs` for the sandbox.
    func announce(_ entry: ChannelEntry) throws(RedisError) {
        guard let key = recordKey(entry.app, entry.audience) else { return }
        try hashes.set(key, [(Self.field(entry.environment), entry.recordField)])
        try hashes.limitLife(key, milliseconds: Self.recordMilliseconds)
    }

    func withdraw(_ entry: ChannelEntry) throws(RedisError) {
        guard let key = recordKey(entry.app, entry.audience) else { return }
        try hashes.remove(key, [Self.field(entry.environment)])
    }

    private func recordKey(_ app: String, _ audience: String) -> [UInt8]? {
        InspectedSegments(app: app, audience: audience)?.recordKey
    }

    private static func field(_ environment: String) -> [UInt8] {
        Array((environment == "production" ? "hp" : "hs").utf8)
    }
}
