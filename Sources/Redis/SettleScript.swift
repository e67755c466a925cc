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
        local key, suffix, version, outcome = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
        local byte, sub, call = string.byte, string.sub, redis.call

        if outcome == 'g' then
          local s = call('HGET', key, 's')
          if s and s ~= '' then
            call('HSET', key, 's', string.format('%013.0f', math.max(s - sub(ARGV[4], 1, 7), 0)))
          end
          return 0
        end

        local changes, count, retired = {}, 0, 0
        local v, state, b, h, t, u, p
        if outcome == 'l' then
          v, p = unpack(call('HMGET', key, 'v', 'p'))
        elseif suffix == '' then
          v, b = unpack(call('HMGET', key, 'v', 'b'))
          if v and sub(v, 1, 30) == version then state = byte(v, 31) end
        else
          h = call('HGET', key, 'h' .. suffix)
        end
        if ARGV[5] then t, u = unpack(call('HMGET', key, 't' .. suffix, 'u' .. suffix)) end

        if p and suffix == '' then
          local time, pace = call('TIME'), ARGV[4]
          local now, limited = time[1] .. sub('000000' .. time[2], -6, -4), sub(p, 30)
          if v and sub(v, 42, 54) > limited or limited == '' or now < limited then
            local doublings, spacing, longest = 0, sub(pace, 1, 7), sub(pace, 8, 14)
            if limited ~= '' and now >= limited then
              doublings = math.max(sub(p, 28, 29) - math.floor((now - limited) / sub(pace, 15, 21)), 0)
            end
            if spacing * 2 ^ doublings < longest + 0 then doublings = math.min(doublings + 1, 22) end
            local full = sub(p, 15, 27)
            if full == '' then full = '0000000000000' end
            changes, count = {'p', sub(p, 1, 14) .. full .. string.format('%02.0f', doublings) .. now}, 2
          end
        end
        if state then
          local ended = state < 97
          if ended then state = state + 32 end
          local letter, shown
          if outcome == 'a' then
            letter, shown = 's', sub(v, 32, 55) .. ARGV[4]
          elseif state ~= 115 and state ~= 102 then
            letter, shown = outcome == 'f' and 'f' or 's', sub(v, 32)
          end
          if letter then
            if ended then letter = string.upper(letter) end
            changes, count = {'v', version .. letter .. shown}, 2
            if state >= 104 and state <= 108 or state >= 120 then
              changes[3], changes[4] = 'h', ''
              count = 4
            end
          end
        end
        if b and #b > 30 and sub(b, 1, 30) == version then
          changes[count + 1], changes[count + 2] = 'b', outcome == 'a' and version or version .. 's' .. sub(b, 32)
          count = count + 2
        end
        if h and h ~= '' and sub(h, 1, 30) == version then
          changes[count + 1], changes[count + 2] = 'h' .. suffix, ''
          count = count + 2
        end
        if ARGV[5] and t and sub(t, 14) == ARGV[5] and u == ARGV[6] then
          local registered = sub(t, 1, 13)
          if ARGV[7] == '' or registered < ARGV[7] then
            changes[count + 1], changes[count + 2], changes[count + 3], changes[count + 4] =
              't' .. suffix, string.format('%013.0f', math.min(registered + 1, 9999999999999)), 'u' .. suffix, ''
            count, retired = count + 4, 1
          end
        end
        if count > 0 then call('HSET', key, unpack(changes)) end
        return retired
        """
}
