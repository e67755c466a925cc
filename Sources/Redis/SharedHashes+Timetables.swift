/// Timetables that the processes of a fleet share: a sorted set of names by the time at which they are due, and beside it, with a `+` at
/// the end of the key, a hash with what is known about each name: a letter, a time in UNIX milliseconds, and how often the name was
/// claimed. Two more hashes, with `*` and `=`, may have what belongs to a name.
extension SharedHashes {
    /// What one look at a timetable has found.
    public struct Claims: Sendable, Equatable {
        /// The server's time, UNIX milliseconds.
        public var nowMilliseconds: Int64
        /// All names in the timetable.
        public var waiting: Int
        /// The claimed names, with what is known about each.
        public var claimed: [Claim]
    }

    public struct Claim: Sendable, Equatable {
        public var name: [UInt8]
        public var text: String
    }

    /// Claims names that are due, the oldest first. A claimed name is due again after `leaseMilliseconds`, after its second claim in twice
    /// that time, and so on up to 32 times. A name whose own time is longer ago than `ageMaxMilliseconds` is removed instead.
    ///
    /// - Parameter limit: the maximum number of names.
    public func claim(
        _ key: [UInt8],
        limit: Int,
        leaseMilliseconds: Int64,
        ageMaxMilliseconds: Int64
    ) throws(RedisError) -> Claims {
        let arguments = ["\(limit)", "\(leaseMilliseconds)", "\(ageMaxMilliseconds)"].map { Array($0.utf8) }
        guard let parts = try call(Self.claiming, key, arguments).elements, parts.count >= 2,
            parts.count.isMultiple(of: 2), case .integer(let now) = parts[0], case .integer(let waiting) = parts[1]
        else { throw RedisError(.protocolViolation) }
        var claims = Claims(nowMilliseconds: now, waiting: Int(clamping: waiting), claimed: [])
        for index in stride(from: 2, to: parts.count, by: 2) {
            guard case .string(let name) = parts[index], case .string(let text) = parts[index + 1] else {
                throw RedisError(.protocolViolation)
            }
            claims.claimed.append(Claim(name: name, text: String(decoding: text, as: UTF8.self)))
        }
        return claims
    }

    /// Removes a claimed name and what belongs to it, unless something has changed what is known about the name since the claim.
    ///
    /// - Returns: whether this call has removed it.
    public func forget(_ key: [UInt8], _ claim: Claim) throws(RedisError) -> Bool {
        try call(Self.forgetting, key, [claim.name, Array(claim.text.utf8)]) == .integer(1)
    }

    private static let forgetting = """
        local timetable, name = KEYS[1], ARGV[1]
        if redis.call('HGET', timetable .. '+', name) ~= ARGV[2] then return 0 end
        redis.call('ZREM', timetable, name)
        for _, part in ipairs({'+', '*', '='}) do redis.call('HDEL', timetable .. part, name) end
        return 1
        """

    private static let claiming = """
        local timetable, known = KEYS[1], KEYS[1] .. '+'
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local due = redis.call('ZRANGEBYSCORE', timetable, '-inf', now, 'LIMIT', 0, ARGV[1])
        local reply = {now, 0}
        for _, name in ipairs(due) do
          local text = redis.call('HGET', known, name)
          local head, at, count = string.match(text or '', '^(%a (%d+) )(%d+)$')
          if not head or now - at > ARGV[3] + 0 then
            redis.call('ZREM', timetable, name)
            for _, part in ipairs({'+', '*', '='}) do redis.call('HDEL', timetable .. part, name) end
          else
            count = count + 1
            redis.call('ZADD', timetable, now + ARGV[2] * math.min(2 ^ (count - 1), 32), name)
            redis.call('HSET', known, name, head .. count)
            reply[#reply + 1], reply[#reply + 2] = name, head .. count
          end
        end
        reply[2] = redis.call('ZCARD', timetable)
        return reply
        """
}
