/// The script `settle`: writes down how an admitted version ended, or that APNs limits an activity, and retires a token that
/// Apple has declared dead.
///
/// It changes only what `admit` has written and never makes a hash, so it leaves the expiry as `admit` set it.
/// Arguments: suffix, version (empty: only the token), outcome, digest, and, when a token is to be retired, its two parts
/// and the time before which it must have been registered (empty: whenever). The reply is 1 if the token was retired, else 0.
/// Outcomes: `a` accepted, `f` final without having been shown, `u` unknown; `l` limited, with the pace in place of the digest;
/// `g` gives a start back to a device's bucket, with that bucket's numbers in place of the digest.
///
/// Acceptance wins over the other outcomes, whatever the order: a start that one worker has in flight may be settled as
/// unknown by another that came upon it.
///
/// One 429 counts once, however often it is written down: only if there was a send verdict since the last that counted, unless
/// the clock was set back.
///
/// A retired token's registration time is raised by one, so that its own registration, delivered again, is stale and
/// does not bring the dead token back. For the fields see ``AdmitScript``.
enum SettleScript {
    static let body: StaticString = """
        local key, what = KEYS[1], ARGV[1]
        local byte, char, sub, call = string.byte, string.char, string.sub, redis.call
        local read, pack = struct.unpack, struct.pack
        local outcome, suffix = byte(what), ARGV[2] or ''

        if outcome == 103 then
          local s = call('HGET', key, 's')
          if s and s ~= '' then
            call('HSET', key, 's', string.format('%013.0f', math.max(s - read('>I3', what, 2), 0)))
          end
          return 0
        end

        if suffix ~= '' then
          local changes, count, retired = {}, 0, 0
          local h = call('HGET', key, 'h' .. suffix)
          local t, u
          if ARGV[3] then t, u = unpack(call('HMGET', key, 't' .. suffix, 'u' .. suffix)) end
          if outcome ~= 108 and h and h ~= '' and sub(h, 1, 30) == sub(what, 2) then
            changes, count = {'h' .. suffix, ''}, 2
          end
          if t and sub(t, 14) == ARGV[3] and u == ARGV[4] then
            local registered = sub(t, 1, 13)
            if ARGV[5] == '' or registered < ARGV[5] then
              changes[count + 1], changes[count + 2], changes[count + 3], changes[count + 4] =
                't' .. suffix, string.format('%013.0f', math.min(registered + 1, 9999999999999)), 'u' .. suffix, ''
              retired = 1
            end
          end
          if changes[1] then call('HSET', key, unpack(changes)) end
          return retired
        end

        local r = call('HGET', key, 'r')
        if not r then return 0 end
        local stateByte, kind = byte(r, 19), byte(r, 38)
        local changes, retired, before = nil, 0, r
        local hasStarted = kind % 64 >= 32

        if outcome == 108 then
          local sent, lifeEnd = read('>I6xxxxxxxxxxxxxI4', r, 20)
          if lifeEnd > 0 then
            local time = call('TIME')
            local now = time[1] * 1000 + math.floor(time[2] / 1000)
            local spacing, longest, recovery = read('>I3xxxxxxxxxxxxxxxxxI3I3', what, 2)
            local doublings, limitedAt, isLimited = 0, 0, kind % 32 >= 16
            if isLimited then doublings, limitedAt = read('>BI6', call('HGET', key, 'l')) end
            if not isLimited or sent > limitedAt or now < limitedAt then
              doublings = now < limitedAt and 0 or math.max(doublings - math.floor((now - limitedAt) / recovery), 0)
              if spacing * 2 ^ doublings < longest then doublings = math.min(doublings + 1, 22) end
              if not isLimited then kind = kind + 16 end
              r = sub(r, 1, 37) .. char(kind) .. sub(r, 39)
              changes = {'r', r, 'l', pack('>BI6', doublings, now)}
            end
          end
        elseif #what > 1 then
          local version = sub(what, 2, 14)
          local holds = false
          if sub(r, 1, 13) == version then
            local drawn = stateByte >= 128 and 128 or 0
            local state, case = stateByte - drawn, 0
            if state < 97 then state, case = state + 32, 32 end
            if state ~= 110 then
              if outcome == 97 then
                r = sub(r, 1, 18) .. char(115 - case + drawn) .. sub(r, 20, 25) .. sub(what, 15) .. sub(r, 32)
              elseif state ~= 115 and state ~= 102 then
                r = sub(r, 1, 18) .. char((outcome == 102 and 102 or 115) - case + drawn) .. sub(r, 20)
              end
              holds = state >= 104 and state <= 108 or state >= 120
            end
          end
          if hasStarted or holds then
            changes = {'r', r}
            if holds then changes[3], changes[4] = 'h', '' end
            local b = hasStarted and call('HGET', key, 'b')
            if b and sub(b, 1, 13) == version then
              local count = #changes
              if outcome == 97 then
                kind = kind - 32
                r = sub(r, 1, 37) .. char(kind) .. sub(r, 39)
                changes[2], changes[count + 1], changes[count + 2] = r, 'b', version
              else
                changes[count + 1], changes[count + 2] = 'b', version .. 's' .. sub(b, 15)
              end
            end
          end
        end

        if ARGV[3] and kind % 8 == byte(ARGV[3]) then
          local t, u = unpack(call('HMGET', key, 't', 'u'))
          local registeredAt = read('>I6', r, 43)
          if sub(r, 49) .. (t or '') .. (u or '') == sub(ARGV[3], 2)
            and (ARGV[4] == '' or registeredAt < read('>I6', ARGV[4])) then
            r = sub(r, 1, 37) .. char(kind % 64 - kind % 8) .. sub(r, 39, 42)
              .. pack('>I6', math.min(registeredAt + 1, 9999999999999))
            changes = changes or {'r', ''}
            changes[2] = r
            local count = #changes
            changes[count + 1], changes[count + 2] = 't', ''
            if kind % 128 >= 64 then changes[count + 3], changes[count + 4] = 'u', '' end
            retired = 1
          end
        end
        if changes then
          call('HSET', key, unpack(changes))
        elseif r ~= before then
          call('HSET', key, 'r', r)
        end
        return retired
        """
}
