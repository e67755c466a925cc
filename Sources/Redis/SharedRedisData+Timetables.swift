/// Timetables that all workers share: sorted sets in Redis, whose entries have a name and the time at which they are
/// due. A worker claims a due entry, and does its work. In a timetable of lifetimes, the name is an activity's key.
///
/// Three hashes hold more data of the entries, in fields with the entries' names. Their keys are the timetable's key
/// with one more character:
/// - `+`: the entry's text: a letter that the caller chooses, a wall time in ms, and how often the entry was claimed
/// - `*`: in a timetable of lifetimes, the activity's newest start, if its policy restarts activities (R34)
/// - `=`: in a timetable of lifetimes, the newest update, also only then
extension SharedRedisData {
    /// Entries of a timetable that are due, those that have been due for the longest time first.
    public struct DueEntries: Sendable, Equatable {
        /// The server's time, UNIX milliseconds.
        public var nowWallMilliseconds: Int64
        /// The number of all entries in the timetable, also of those that are not due yet.
        public var timetableEntryCount: Int
        public var entries: [Entry]

        public struct Entry: Sendable, Equatable {
            public var name: [UInt8]
            /// When the entry became due, UNIX milliseconds.
            public var dueWallMilliseconds: Int64

            public init(_ name: [UInt8], dueWallMilliseconds: Int64) {
                (self.name, self.dueWallMilliseconds) = (name, dueWallMilliseconds)
            }
        }

        public init(nowWallMilliseconds: Int64, timetableEntryCount: Int, entries: [Entry]) {
            self.nowWallMilliseconds = nowWallMilliseconds
            self.timetableEntryCount = timetableEntryCount
            self.entries = entries
        }
    }

    /// The entries that one call of ``claimEntries(_:_:firstClaimDurationMilliseconds:ageMillisecondsMax:)`` has
    /// claimed.
    public struct ClaimedEntries: Sendable, Equatable {
        /// The server's time, UNIX milliseconds.
        public var nowWallMilliseconds: Int64
        /// The number of entries that the timetable has after the call, claimed or not.
        public var timetableEntryCount: Int
        public var claims: [Claim]
    }

    /// An entry that this worker has claimed. `entryText` is the entry's text in the hash `+` after this claim. The
    /// text identifies the claim, because it says how often the entry was claimed, and each claim raises this number.
    public struct Claim: Sendable, Equatable {
        public var name: [UInt8]
        public var entryText: String

        /// How often the entry was claimed, this claim included; 0 if its text is not valid.
        public var claimCount: Int { entryText.split(separator: " ").last.flatMap { Int($0) } ?? 0 }
    }

    /// Reads the due entries of a timetable. Changes nothing.
    ///
    /// - Parameters:
    ///   - rank: how many due entries to skip, beginning with those that have been due for the longest time.
    ///   - entriesMax: the maximum number of entries to return.
    public func readDueEntries(_ key: [UInt8], from rank: Int, entriesMax: Int) throws(RedisError) -> DueEntries {
        let (now, entryCount, flatPairs) = try callTimetableScript(
            Self.dueEntriesScript,
            key,
            [rank, entriesMax].map { Array(String($0).utf8) }
        )
        var dueEntries = DueEntries(
            nowWallMilliseconds: now,
            timetableEntryCount: Int(clamping: entryCount),
            entries: []
        )
        for index in stride(from: flatPairs.startIndex, to: flatPairs.endIndex, by: 2) {
            guard case .string(let name) = flatPairs[index], case .integer(let due) = flatPairs[index + 1] else {
                throw RedisError(.protocolViolation)
            }
            dueEntries.entries.append(DueEntries.Entry(name, dueWallMilliseconds: due))
        }
        return dueEntries
    }

    /// Claims those of the entries that are still due. A claim makes the entry due later; until then, no worker can
    /// claim it again. The first claim lasts `firstClaimDurationMilliseconds`. Each further claim lasts twice as long
    /// as the previous one, up to 32 times the first, because an outage may delay the work for hours.
    ///
    /// A due entry is removed with its data, not claimed, if the time in its text (hash `+`) is longer ago than
    /// `ageMillisecondsMax`, or if the text is missing or not valid.
    public func claimEntries(
        _ key: [UInt8],
        _ names: [[UInt8]],
        firstClaimDurationMilliseconds: Int64,
        ageMillisecondsMax: Int64
    ) throws(RedisError) -> ClaimedEntries {
        let limitArguments = [firstClaimDurationMilliseconds, ageMillisecondsMax].map { Array(String($0).utf8) }
        let (now, entryCount, flatPairs) = try callTimetableScript(
            Self.claimScript,
            key,
            furtherKeys: Self.hashKeys(ofTimetable: key),
            limitArguments + names
        )
        var claimedEntries = ClaimedEntries(
            nowWallMilliseconds: now,
            timetableEntryCount: Int(clamping: entryCount),
            claims: []
        )
        for index in stride(from: flatPairs.startIndex, to: flatPairs.endIndex, by: 2) {
            guard case .string(let name) = flatPairs[index], case .string(let text) = flatPairs[index + 1] else {
                throw RedisError(.protocolViolation)
            }
            claimedEntries.claims.append(Claim(name: name, entryText: String(decoding: text, as: UTF8.self)))
        }
        return claimedEntries
    }

    /// Calls a script that returns the server's time, the number of entries in the timetable, and a flat list of pairs:
    /// a name, its value, the next name, its value, and so on.
    private func callTimetableScript(
        _ script: String,
        _ key: [UInt8],
        furtherKeys: [[UInt8]] = [],
        _ arguments: [[UInt8]]
    ) throws(RedisError) -> (nowWallMilliseconds: Int64, entryCount: Int64, flatPairs: ArraySlice<RedisValue>) {
        guard let parts = try callScript(script, key, furtherKeys: furtherKeys, arguments).elements,
            parts.count >= 2, parts.count.isMultiple(of: 2),
            case .integer(let now) = parts[0], case .integer(let entryCount) = parts[1]
        else { throw RedisError(.protocolViolation) }
        return (now, entryCount, parts[2...])
    }

    /// Removes a claimed entry and its data. Does nothing if the entry's text is no longer ``Claim/entryText``: a
    /// worker has claimed the entry again, or a new life of the activity has begun.
    ///
    /// - Returns: whether this call has removed the entry.
    public func removeClaimedEntry(_ key: [UInt8], _ claim: Claim) throws(RedisError) -> Bool {
        let hashKeys = Self.hashKeys(ofTimetable: key)
        let arguments = [claim.name, Array(claim.entryText.utf8)]
        return try callScript(Self.removeClaimScript, key, furtherKeys: hashKeys, arguments) == .integer(1)
    }

    /// Returns the keys of a timetable's three hashes, which a script gets as KEYS[2] to KEYS[4]. While a hash slot
    /// moves to another server, a key may seem to be missing. For keys in KEYS, Redis then refuses the script call
    /// (TRYAGAIN). For other keys it would not, and the script would remove an entry whose text only seems to be
    /// missing.
    private static func hashKeys(ofTimetable key: [UInt8]) -> [[UInt8]] { "+*=".utf8.map { key + [$0] } }

    private static let removeClaimScript = """
        local timetable, name = KEYS[1], ARGV[1]
        if redis.call('HGET', KEYS[2], name) ~= ARGV[2] then return 0 end
        redis.call('ZREM', timetable, name)
        for part = 2, 4 do redis.call('HDEL', KEYS[part], name) end
        return 1
        """

    private static let dueEntriesScript = """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local reply = {now, redis.call('ZCARD', KEYS[1])}
        local last = math.min(ARGV[1] + ARGV[2], redis.call('ZCOUNT', KEYS[1], '-inf', now)) - 1
        if last < ARGV[1] + 0 then return reply end
        local names = redis.call('ZRANGE', KEYS[1], ARGV[1], last, 'WITHSCORES')
        for index = 1, #names, 2 do
          reply[#reply + 1], reply[#reply + 2] = names[index], tonumber(names[index + 1])
        end
        return reply
        """

    private static let claimScript = """
        local timetable, known = KEYS[1], KEYS[2]
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local reply = {now, 0}
        for index = 3, #ARGV do
          local name = ARGV[index]
          local due = redis.call('ZSCORE', timetable, name)
          if due and due + 0 <= now then
            local text = redis.call('HGET', known, name)
            local head, at, count = string.match(text or '', '^(%a (%d+) )(%d+)$')
            if not head or now - at > ARGV[2] + 0 then
              redis.call('ZREM', timetable, name)
              for part = 2, 4 do redis.call('HDEL', KEYS[part], name) end
            else
              count = count + 1
              redis.call('ZADD', timetable, now + ARGV[1] * math.min(2 ^ (count - 1), 32), name)
              redis.call('HSET', known, name, head .. count)
              reply[#reply + 1], reply[#reply + 2] = name, head .. count
            end
          end
        end
        reply[2] = redis.call('ZCARD', timetable)
        return reply
        """
}
