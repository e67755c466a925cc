extension AdmitScript {
    /// What follows the admissions of updates and ends in the script: starts, holds, registrations, unregistrations and addresses, one
    /// a call. It uses the names at the script's beginning.
    static let operations: StaticString = """
        call = redis.call
        local key = KEYS[1]
        local DEVICE_LIFETIME = 7776000000
        local TIMESTAMP_MAX, TIME_MAX = 9999999999, 9999999999999

        local function serverTime()
          local time = call('TIME')
          return time[1] * 1000 + math.floor(time[2] / 1000), time[1] + 0
        end

        local function digits(milliseconds)
          return string.format('%013.0f', math.min(math.max(milliseconds, 0), TIME_MAX))
        end

        local function write(changes, lifetime)
          call('HSET', key, unpack(changes))
          call('PEXPIRE', key, lifetime)
        end

        -- The record, or that of an activity of which nothing is known.
        local function known(r)
          return r or string.rep('\\0', 18) .. 'n' .. string.rep('\\0', 29)
        end

        -- Whether the version at the beginning of one value is newer than that of another.
        local function isNewer(left, right)
          local high, low, timestamp = read('>I4I4I5', left)
          local rightHigh, rightLow, rightTimestamp = read('>I4I4I5', right)
          if timestamp ~= rightTimestamp then return timestamp > rightTimestamp end
          return high > rightHigh or high == rightHigh and low > rightLow
        end

        -- A state's lower-case letter, whether it is an end's, and what to add to a letter to keep both that and whether a push was drawn.
        local function taken(state)
          local drawn = state >= 128 and 128 or 0
          state = state - drawn
          if state < 97 then return state + 32, true, drawn - 32 end
          return state, false, drawn
        end

        if operation == 's' then
          local version, claim = ARGV[2], ARGV[3]
          local r, b = unpack(call('HMGET', key, 'r', 'b'))
          r, b = known(r), b or ''
          local last, stateByte, kind = read('>I5BxxxxxxxxxxxxxxxxxxB', r, 14)
          local state, ended = taken(stateByte)
          local hasToken = kind % 8 > 0
          if b ~= '' then
            if sub(b, 1, 13) == version then
              if sub(b, 20) ~= claim then return byte(b, 14) == 97 and 'unknown' or 'duplicate' end
              -- In state `b` the start is the newest version itself, and a token is one of the life before.
              if ended or state ~= 98 and hasToken then return 'superseded' end
              return 'send' .. sub(b, 15, 19)
            end
            if isNewer(b, version) then return 'superseded' end
          end
          local timestamp, newest = read('>I5', version, 9), version .. 'b'
          local changes = {'b', '', 'r', ''}
          if state ~= 110 and not isNewer(version, r) then
            if not ended and sub(r, 1, 13) == version and (state == 115 or state == 102) then return 'duplicate' end
            if ended or hasToken or last >= timestamp then return 'superseded' end
            newest = sub(r, 1, 13) .. char(state)
          else
            if hasToken then changes[5], changes[6] = 't', '' end
            if kind % 128 >= 64 then changes[7], changes[8] = 'u', '' end
            if state >= 104 and state <= 108 or state >= 120 then
              changes[#changes + 1] = 'h'
              changes[#changes + 1] = ''
            end
          end
          if kind % 32 >= 16 then
            changes[#changes + 1] = 'l'
            changes[#changes + 1] = ''
          end
          local now, seconds = serverTime()
          local assigned = pack('>I5', timestamp <= last and math.min(last + 1, TIMESTAMP_MAX) or timestamp)
          changes[2] = version .. 'a' .. assigned .. claim
          changes[4] = sub(newest, 1, 13) .. assigned .. sub(newest, 14)
            .. pack('>I6I6I6BI4', now, 0, 0, 32, seconds + UPDATES_SECONDS) .. sub(r, 43, 48)
          write(changes, ACTIVITY_LIFETIME)
          return 'send' .. assigned
        end

        local suffix = ARGV[2]

        if suffix == '' then
          local r, h = unpack(call('HMGET', key, 'r', 'h'))
          local isKnown = r
          r = known(r)
          local stateByte, kind, lifeEnd, registeredAt = read('>BxxxxxxxxxxxxxxxxxxBI4I6', r, 19)
          local state, ended, kept = taken(stateByte)
          local isLong = kind % 128 >= 64

          if operation == 'h' then
            if state == 110 or sub(r, 1, 13) ~= ARGV[6] then return 'superseded' end
            if state == 115 or state == 102 then return 'duplicate' end
            if kind % 8 > 0 then return 'retry' end
            local letter = ARGV[5] == '1' and 105 or 104
            write({'r', sub(r, 1, 18) .. char(letter + kept) .. sub(r, 20), 'h', ARGV[3] .. ARGV[4]}, ACTIVITY_LIFETIME)
            return 'held'
          end

          if operation == 'r' then
            local at, form = read('>I6B', ARGV[3])
            if at < registeredAt then return 'stale' end
            local token, reply, letter = sub(ARGV[3], 8), 'registered', state
            local changes = {'r', '', 't', sub(token, 17, 80)}
            if isLong or #token > 80 then changes[5], changes[6] = 'u', sub(token, 81) end
            if h and h ~= '' and state >= 104 and state <= 108 then
              if sub(h, 1, 30) > ARGV[4] then
                reply = reply .. h
              else
                changes[#changes + 1] = 'h'
                changes[#changes + 1] = ''
                letter = state <= 105 and 115 or 97
              end
            end
            if lifeEnd == 0 then
              local _, seconds = serverTime()
              lifeEnd = seconds + UPDATES_SECONDS
            end
            kind = form + (ARGV[5] == '1' and 8 or 0) + (kind % 64 - kind % 16) + (#token > 80 and 64 or 0)
            changes[2] = sub(r, 1, 18) .. char(letter + kept) .. sub(r, 20, 37) .. pack('>BI4', kind, lifeEnd)
              .. sub(ARGV[3], 1, 6) .. sub(token, 1, 16)
            write(changes, ACTIVITY_LIFETIME)
            return reply
          end

          if operation == 'x' then
            local at = ARGV[3] + 0
            if at < registeredAt then return 'stale' end
            local changes = {'r', sub(r, 1, 37) .. char(kind % 64 - kind % 8) .. sub(r, 39, 42) .. pack('>I6', at)}
            if kind % 8 > 0 then changes[3], changes[4] = 't', '' end
            if isLong then changes[5], changes[6] = 'u', '' end
            write(changes, ACTIVITY_LIFETIME)
            return 'unregistered'
          end

          return redis.error_reply('ERR unknown operation')
        end

        if operation == 'h' then
          local version = ARGV[3]
          local t, h = unpack(call('HMGET', key, 't' .. suffix, 'h' .. suffix))
          if h and sub(h, 1, 30) > version then return 'superseded' end
          if t and #t > 13 then return 'retry' end
          write({'h' .. suffix, version .. ARGV[4]}, DEVICE_LIFETIME)
          return 'held'
        end

        if operation == 'r' then
          local t, h = unpack(call('HMGET', key, 't' .. suffix, 'h' .. suffix))
          if sub(ARGV[3], 1, 13) < sub(t or '', 1, 13) then return 'stale' end
          local changes, reply = {'t' .. suffix, ARGV[3], 'u' .. suffix, ARGV[4]}, 'registered'
          if h and h ~= '' then
            if sub(h, 1, 30) > ARGV[5] then
              reply = reply .. h
            else
              changes[5], changes[6] = 'h' .. suffix, ''
            end
          end
          write(changes, DEVICE_LIFETIME)
          return reply
        end

        if operation == 'a' then
          local t, u, s = unpack(call('HMGET', key, 't' .. suffix, 'u' .. suffix, 's'))
          t, s = t or '', s or ''
          local changes = {}
          if ARGV[4] and sub(ARGV[4], 1, 13) >= sub(t, 1, 13) then
            t, u = ARGV[4], ARGV[5]
            changes[1], changes[2], changes[3], changes[4] = 't' .. suffix, t, 'u' .. suffix, u
          end
          local reply = 'noToken'
          if #t > 13 then
            local now, interval, pushes = serverTime(), read('>I3I2', ARGV[3])
            local full = s == '' and now or math.max(s + 0, now)
            local wait = full - now - (pushes - 1) * interval
            if wait > 0 then
              reply = 'wait' .. string.format('%.0f', wait)
            else
              reply = 'address' .. t .. u
              changes[#changes + 1] = 's'
              changes[#changes + 1] = digits(full + interval)
            end
          end
          if changes[1] then write(changes, DEVICE_LIFETIME) end
          return reply
        end

        if operation == 'x' then
          local at, changes, registered = ARGV[3], {}, {}
          if suffix == '*' then
            local all = call('HGETALL', key)
            for index = 1, #all, 2 do
              if sub(all[index], 1, 2) == 't:' then registered[sub(all[index], 2)] = all[index + 1] end
            end
            if not next(registered) then return 'unregistered' end
          else
            registered[suffix] = call('HGET', key, 't' .. suffix) or ''
          end
          for each, t in pairs(registered) do
            if at >= sub(t, 1, 13) then
              for field, value in pairs({t = at, u = ''}) do
                changes[#changes + 1] = field .. each
                changes[#changes + 1] = value
              end
            end
          end
          if not changes[1] then return 'stale' end
          write(changes, DEVICE_LIFETIME)
          return 'unregistered'
        end

        return redis.error_reply('ERR unknown operation')
        """
}
