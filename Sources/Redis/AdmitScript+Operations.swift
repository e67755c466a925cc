extension AdmitScript {
    /// What follows the admissions of updates and ends in the script: starts, holds, registrations, unregistrations and addresses, one
    /// a call. It uses the names at the script's beginning.
    ///
    /// Of a device the field `w` of an attributes type has the starts that wait for its token, oldest version first and one an activity:
    /// of each two bytes with the length of its activity's id, four with that of its command, its version, the id and the command.
    static let operations: StaticString = """
        call = redis.call
        local key = KEYS[1]
        local DEVICE_LIFETIME = 7776000000
        local HELD_STARTS_MAX = 8
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

        -- Whether the version at the beginning of one value is newer than that of another.
        local function isNewer(left, right)
          local timestamp, low, high = read('<I5I4I4', left)
          local rightTimestamp, rightLow, rightHigh = read('<I5I4I4', right)
          if timestamp ~= rightTimestamp then return timestamp > rightTimestamp end
          return high > rightHigh or high == rightHigh and low > rightLow
        end

        -- A state's lower-case letter, whether it is an end's, and what to add to a letter to keep all else that the state says.
        local function taken(state)
          local letter = state % 128
          if letter < 64 then letter = letter + 64 end
          local ended = letter < 97
          if ended then letter = letter + 32 end
          return letter, ended, state - letter
        end

        if operation == 's' or ARGV[2] == '' then
          local value = call('GET', key) or UNKNOWN
          if #value < 50 then return MALFORMED end
          local lifeEnd, length, kind = read('<I4I2B', value)
          local stateByte, newest, registeredAt = byte(value, 14), sub(value, 21, 33), read('<I6', value, 45)
          local last = read('<I5', value, stateByte % 128 < 64 and 40 or 21)
          local state, ended, kept = taken(stateByte)
          local form, frequent = kind % 8, kind % 16 - kind % 8
          local limitAt = 51 + length
          local startAt = kind % 32 >= 16 and limitAt + 7 or limitAt
          local heldAt = startAt
          if kind >= 64 then heldAt = startAt + (kind % 64 >= 32 and 27 or 13) end
          local token, limit = sub(value, 51, limitAt - 1), sub(value, limitAt, startAt - 1)
          local start, held = sub(value, startAt, heldAt - 1), sub(value, heldAt)
          local holds = state >= 104 and (state <= 108 or state >= 120)
          local behind = #value + 1 - heldAt
          if kind >= 128 or kind % 64 >= 32 and kind < 64 or (holds and behind <= 30) or (not holds and behind ~= 0) then
            return MALFORMED
          end

          -- All of it; `middle` is the record's bytes 8 to 44.
          local function store(middle)
            local flags = form + frequent + (limit ~= '' and 16 or 0) + (start ~= '' and 64 or 0) + (#start > 13 and 32 or 0)
            local value = pack('<I4I2B', lifeEnd, #token, flags) .. middle .. pack('<I6', registeredAt) .. token .. limit .. start .. held
            call('SET', key, value, 'PX', ACTIVITY_LIFETIME)
          end

          if operation == 's' then
            local version, claim = ARGV[2], ARGV[3]
            if start ~= '' then
              if sub(start, 1, 13) == version then
                if sub(start, 20) ~= claim then return byte(start, 14) == 97 and 'unknown' or 'duplicate' end
                -- In state `b` the start is the newest version itself, and a token is one of the life before.
                if ended or state ~= 98 and form > 0 then return 'superseded' end
                return 'send' .. sub(start, 15, 19)
              end
              if isNewer(start, version) then return 'superseded' end
            end
            local timestamp, letter = read('<I5', version), 98
            if state ~= 110 and not isNewer(version, newest) then
              letter = state
              if not ended and newest == version and (state == 115 or state == 102) then return 'duplicate' end
              if ended or form > 0 or last >= timestamp then return 'superseded' end
            else
              newest, form, token, held = version, 0, '', ''
            end
            local now, seconds = serverTime()
            local assignedTimestamp = timestamp <= last and math.min(last + 1, TIMESTAMP_MAX) or timestamp
            if assignedTimestamp ~= read('<I5', newest) then letter = letter - 64 end
            local assigned = pack('<I5', assignedTimestamp)
            frequent, limit, start, lifeEnd = 0, '', version .. 'a' .. assigned .. claim, seconds + UPDATES_SECONDS
            store(pack('<I6BI6', 0, letter, now) .. newest .. pack('<I6', 0) .. assigned)
            return 'send' .. assigned
          end

          if operation == 'h' then
            if state == 110 or newest ~= ARGV[6] then return 'superseded' end
            if state == 115 or state == 102 then return 'duplicate' end
            if form > 0 then return 'retry' end
            held = ARGV[3] .. ARGV[4]
            store(sub(value, 8, 13) .. char((ARGV[5] == '1' and 105 or 104) + kept) .. sub(value, 15, 44))
            return 'held'
          end

          if operation == 'r' then
            local at, formThen = read('<I6B', ARGV[3])
            if at < registeredAt then return 'stale' end
            local reply, letter = 'registered', state
            if held ~= '' and state <= 108 then
              if sub(held, 1, 30) > ARGV[4] then
                reply = reply .. held
              else
                held, letter = '', state <= 105 and 115 or 97
              end
            end
            if lifeEnd == 0 then
              local _, seconds = serverTime()
              lifeEnd = seconds + UPDATES_SECONDS
            end
            form, token, registeredAt = formThen, sub(ARGV[3], 8), at
            if ARGV[5] ~= '' then frequent = ARGV[5] == '1' and 8 or 0 end
            store(sub(value, 8, 13) .. char(letter + kept) .. sub(value, 15, 44))
            return reply
          end

          if operation == 'x' then
            local at = ARGV[3] + 0
            if at < registeredAt then return 'stale' end
            form, token, registeredAt = 0, '', at
            store(sub(value, 8, 44))
            return 'unregistered'
          end

          return redis.error_reply('ERR unknown operation')
        end

        local suffix = ARGV[2]

        if operation == 'h' then
          local version, command, activity = ARGV[3], ARGV[4], ARGV[6]
          local t, w = unpack(call('HMGET', key, 't' .. suffix, 'w' .. suffix))
          local starts, place, position = {}, nil, 1
          while w and position <= #w do
            local start, activityLength, commandLength = position, read('<I2I4', w, position)
            position = start + 36 + activityLength + commandLength
            local other = sub(w, start + 6, start + 35)
            if sub(w, start + 36, start + 35 + activityLength) ~= activity then
              starts[#starts + 1] = sub(w, start, position - 1)
              if not place and other > version then place = #starts end
            elseif other > version then
              return 'superseded'
            end
          end
          if t and #t > 13 then return 'retry' end
          if #starts >= HELD_STARTS_MAX then return 'full' end
          table.insert(starts, place or #starts + 1, pack('<I2I4', #activity, #command) .. version .. activity .. command)
          write({'w' .. suffix, table.concat(starts)}, DEVICE_LIFETIME)
          return 'held'
        end

        if operation == 'r' then
          local t, w = unpack(call('HMGET', key, 't' .. suffix, 'w' .. suffix))
          if sub(ARGV[3], 1, 13) < sub(t or '', 1, 13) then return 'stale' end
          -- What comes after a start that is over, too: then it is the first that is not older.
          local after, position, isAfter, given, later = ARGV[5], 1, ARGV[5] == '', nil, nil
          while w and position <= #w and not given do
            local start, activityLength, commandLength = position, read('<I2I4', w, position)
            position = start + 36 + activityLength + commandLength
            local version = sub(w, start + 6, start + 35)
            local held = version .. sub(w, start + 36 + activityLength, position - 1)
            if isAfter then
              given = held
            elseif version == after and sub(w, start + 36, start + 35 + activityLength) == ARGV[6] then
              isAfter = true
            elseif version >= after then
              later = later or held
            end
          end
          if not isAfter then given = later end
          write({'t' .. suffix, ARGV[3], 'u' .. suffix, ARGV[4]}, DEVICE_LIFETIME)
          return 'registered' .. (given or '')
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
            local now, interval, pushes = serverTime(), read('<I3I2', ARGV[3])
            local full, given = s == '' and now or math.max(sub(s, 1, 13) + 0, now), sub(s, 14)
            local wait = full - now - (pushes - 1) * interval
            if wait > 0 then
              reply = 'wait' .. string.format('%.0f', wait)
            else
              full = full + interval
              reply = 'address' .. digits(full + (given == '' and 0 or given)) .. t .. u
              changes[#changes + 1] = 's'
              changes[#changes + 1] = digits(full) .. given
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
