import Numbers

/// The device tokens that APNs knows, with their owners and states. The tokens of compact phones are not here: see
/// ``CompactCrowd``.
///
/// The table is a hash table with open addressing. The bytes of all tokens are in one array, `tokenStorage`. A token is
/// never removed: APNs responds with 410 to a retired token, but with 400 to a token that it does not know.
struct TokenTable {
    /// The number of bytes of an update token or a push-to-start token of a Live Activity: 160 hexadecimal digits.
    static let tokenByteCount = 80

    enum Owner: Equatable {
        /// A push-to-start token of a phone for one attributes type.
        case pushToStart(installation: Int, type: Int)
        /// An update token of the activity with this index in `DeviceModel.activities`.
        case activity(Int)
    }

    enum State: Equatable {
        case live
        /// The token became invalid at this time, UNIX milliseconds. APNs responds with 410, the reason and the time.
        /// With the reason `expiredToken`, APNs still responds with 200 during the grace time
        /// (``DeviceRules/retiredTokenGraceMilliseconds``).
        case retired(SimulatedResponse, atMilliseconds: Int64)
        /// APNs responds with 200 and no phone gets the push. Apple's APNs does this with replaced tokens, sometimes
        /// for weeks.
        case acceptedWithoutEffect
        /// The token belongs to another environment than this APNs.
        case otherEnvironment
    }

    struct Entry {
        var owner: Owner
        /// The index of the app. Pushes for the token must have the app's topic.
        var appIndex: Int
        var state: State
    }

    /// The maximum number of tokens in the table (R4). Tokens are never removed. Only tests change the limit.
    var tokensMax = 8_000_000
    private(set) var entries: [Entry] = []
    private var tokenStorage: [UInt8] = []
    /// Each bucket holds the index of an entry plus one; 0: the bucket is free. At most half of the buckets are used,
    /// so that a search soon finds the token or a free bucket.
    private var buckets: [UInt32] = Array(repeating: 0, count: 1_024)
    private var random: SplitMix64

    init(random: SplitMix64) {
        self.random = random
    }

    func hasRoom(for count: Int) -> Bool { count <= tokensMax - entries.count }

    /// Creates a random token for an owner. Returns its index; nil if the table is full.
    mutating func issue(to owner: Owner, appIndex: Int, state: State = .live) -> Int? {
        guard entries.count < tokensMax else { return nil }
        if (entries.count + 1) * 2 > buckets.count { rehash() }
        let index = entries.count
        entries.append(Entry(owner: owner, appIndex: appIndex, state: state))
        for _ in 0..<Self.tokenByteCount / 8 {
            withUnsafeBytes(of: random.next()) { tokenStorage.append(contentsOf: $0) }
        }
        insert(index)
        return index
    }

    /// Returns the index of the token with these bytes; nil if the table does not have it.
    func find(_ token: UnsafeRawBufferPointer) -> Int? {
        guard token.count == Self.tokenByteCount else { return nil }
        var bucket = Int(truncatingIfNeeded: Self.hash(token)) & (buckets.count - 1)
        return tokenStorage.withUnsafeBytes { tokenStorage in
            while buckets[bucket] != 0 {
                let index = Int(buckets[bucket]) - 1
                let start = index * Self.tokenByteCount
                if isEqual(token, UnsafeRawBufferPointer(rebasing: tokenStorage[start..<start + Self.tokenByteCount])) {
                    return index
                }
                bucket = (bucket + 1) & (buckets.count - 1)
            }
            return nil
        }
    }

    mutating func setState(_ state: State, of index: Int) {
        entries[index].state = state
    }

    /// Returns a token's lower-case hexadecimal digits, as apps send them.
    func hexadecimal(_ index: Int) -> String {
        tokenStorage[index * Self.tokenByteCount..<(index + 1) * Self.tokenByteCount]
            .withUnsafeBytes { Hexadecimal.text($0) }
    }

    private mutating func insert(_ index: Int) {
        var bucket = tokenStorage.withUnsafeBytes { tokenStorage in
            let start = index * Self.tokenByteCount
            let token = UnsafeRawBufferPointer(rebasing: tokenStorage[start..<start + Self.tokenByteCount])
            return Int(truncatingIfNeeded: Self.hash(token)) & (buckets.count - 1)
        }
        while buckets[bucket] != 0 { bucket = (bucket + 1) & (buckets.count - 1) }
        buckets[bucket] = UInt32(index + 1)
    }

    /// Doubles the number of buckets, and enters all tokens again.
    private mutating func rehash() {
        buckets = Array(repeating: 0, count: buckets.count * 2)
        for index in entries.indices { insert(index) }
    }

    /// Hashes all bytes of a token. For random tokens a few bytes would be enough, but a client may send invented
    /// tokens that differ in only a few bytes.
    private static func hash(_ token: UnsafeRawBufferPointer) -> UInt64 {
        var hash: UInt64 = 0
        for offset in stride(from: 0, to: tokenByteCount, by: 8) {
            hash = (hash ^ token.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) &* 0x9E37_79B9_7F4A_7C15
            hash ^= hash >> 29
        }
        return hash
    }
}
