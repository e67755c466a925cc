/// Timetables that all workers share. A timetable is a sorted set in Redis. Its elements are called names; in the
/// timetables of lifetimes, a name is an activity's key. Each name has a time at which it is due: a worker then claims
/// the name and does the work for it.
///
/// Three hashes belong to a timetable. Their fields are the names, and their keys are the timetable's key followed by
/// `+`, `*` or `=`. The hash `+` has each name's text: a letter that the caller chooses, a time in UNIX milliseconds,
/// and the number of claims. The two other hashes may have further data of a name.
extension SharedHashes {
    /// Names in a timetable that are due, such as keys of activities. The name that has been due for the longest time
    /// comes first.
    public struct DueEntries: Sendable, Equatable {
        /// The server's time, UNIX milliseconds.
        public var nowMilliseconds: Int64
        /// The number of names in the timetable, also of those that are not due yet.
        public var timetableNameCount: Int
        public var names: [Name]

        public struct Name: Sendable, Equatable {
            public var name: [UInt8]
            /// When the work for `name` became due, UNIX milliseconds.
            public var dueMilliseconds: Int64

            public init(_ name: [UInt8], dueMilliseconds: Int64) {
                (self.name, self.dueMilliseconds) = (name, dueMilliseconds)
            }
        }

        public init(nowMilliseconds: Int64, timetableNameCount: Int, names: [Name]) {
            self.nowMilliseconds = nowMilliseconds
            self.timetableNameCount = timetableNameCount
            self.names = names
        }
    }

    /// The names (such as keys of activities) that one call of
    /// ``claimEntries(_:_:leaseMilliseconds:ageMillisecondsMax:)`` has claimed in a timetable.
    public struct ClaimedEntries: Sendable, Equatable {
        /// The server's time, UNIX milliseconds.
        public var nowMilliseconds: Int64
        /// The number of names that the timetable has after the call, claimed or not.
        public var timetableNameCount: Int
        public var claims: [Claim]
    }

    /// A name that this worker has claimed in a timetable. The name identifies the work, for example by an activity's
    /// key. `text` has a letter, a time and the number of claims, as Redis stores them for the name after this claim.
    /// Each further claim changes the number, so the text identifies this claim.
    public struct Claim: Sendable, Equatable {
        public var name: [UInt8]
        public var text: String
    }

    /// Reads the names in a timetable, such as keys of activities, that are due. Changes nothing.
    ///
    /// - Parameters:
    ///   - rank: how many names to skip, beginning with the name that has been due for the longest time.
    ///   - limit: the maximum number of names to return.
    public func readDueEntries(_ key: [UInt8], from rank: Int, limit: Int) throws(RedisError) -> DueEntries {
        let (now, count, parts) = try callTimetableScript(
            Self.dueNamesScript,
            key,
            [rank, limit].map { Array(String($0).utf8) }
        )
        var dueNames = DueEntries(nowMilliseconds: now, timetableNameCount: Int(clamping: count), names: [])
        for index in stride(from: parts.startIndex, to: parts.endIndex, by: 2) {
            guard case .string(let name) = parts[index], case .integer(let due) = parts[index + 1] else {
                throw RedisError(.protocolViolation)
            }
            dueNames.names.append(DueEntries.Name(name, dueMilliseconds: due))
        }
        return dueNames
    }

    /// Claims those of the names (such as keys of activities) that are still due in the timetable. No other worker can
    /// claim such a name until it is due again.
    ///
    /// After the first claim, a name is due again after `leaseMilliseconds`. Each further claim doubles this time, up
    /// to 32 times `leaseMilliseconds`, because an outage may delay the work for a name for hours.
    ///
    /// For each name, the hash whose key is the timetable's key and `+` has a text: a letter, a time and the number of
    /// claims. If this time is longer ago than `ageMillisecondsMax`, or the text is missing or not valid, the call
    /// removes the due name and its data instead of claiming it.
    public func claimEntries(
        _ key: [UInt8],
        _ names: [[UInt8]],
        leaseMilliseconds: Int64,
        ageMillisecondsMax: Int64
    ) throws(RedisError) -> ClaimedEntries {
        let limitArguments = [leaseMilliseconds, ageMillisecondsMax].map { Array(String($0).utf8) }
        let (now, count, parts) = try callTimetableScript(Self.claimScript, key, limitArguments + names)
        var claimedNames = ClaimedEntries(nowMilliseconds: now, timetableNameCount: Int(clamping: count), claims: [])
        for index in stride(from: parts.startIndex, to: parts.endIndex, by: 2) {
            guard case .string(let name) = parts[index], case .string(let text) = parts[index + 1] else {
                throw RedisError(.protocolViolation)
            }
            claimedNames.claims.append(Claim(name: name, text: String(decoding: text, as: UTF8.self)))
        }
        return claimedNames
    }

    /// Calls a script that returns the server's time, the number of names in the timetable, and pairs of a
    /// name and its value.
    private func callTimetableScript(
        _ script: String,
        _ key: [UInt8],
        _ arguments: [[UInt8]]
    ) throws(RedisError) -> (nowMilliseconds: Int64, count: Int64, pairs: ArraySlice<RedisValue>) {
        guard let parts = try callScript(script, key, arguments).elements, parts.count >= 2,
            parts.count.isMultiple(of: 2),
            case .integer(let now) = parts[0], case .integer(let count) = parts[1]
        else { throw RedisError(.protocolViolation) }
        return (now, count, parts[2...])
    }

    /// Removes a claimed name and its data. Does nothing if a worker has claimed the name again, or a new life of the
    /// activity has begun: Redis then stores another text for the name than ``Claim/text``.
    ///
    /// - Returns: whether this call has removed the name.
    public func removeClaimedEntry(_ key: [UInt8], _ claim: Claim) throws(RedisError) -> Bool {
        try callScript(Self.removeClaimScript, key, [claim.name, Array(claim.text.utf8)]) == .integer(1)
    }

    private static let removeClaimScript = """
        local timetable, name = KEYS[1], ARGV[1]
        if redis.call('HGET', timetable .. '+', name) ~= ARGV[2] then return 0 end
        redis.call('ZREM', timetable, name)
        for _, part in ipairs({'+', '*', '='}) do redis.call('HDEL', timetable .. part, name) end
        return 1
        """

    private static let dueNamesScript = """
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
        local timetable, known = KEYS[1], KEYS[1] .. '+'
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
              for _, part in ipairs({'+', '*', '='}) do redis.call('HDEL', timetable .. part, name) end
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
