/// The script `settle`: writes down how an admitted version ended, and retires a token that Apple has declared dead.
///
/// It changes only what `admit` has written and never makes a hash, so it leaves the expiry as `admit` set it.
/// Arguments: suffix, version (empty: only the token), outcome (`a` accepted, `f` final without having been shown,
/// `u` unknown), digest, and, when a token is to be retired, its two parts and the time before which it must have been
/// registered (empty: whenever). The reply is 1 if the token was retired, else 0.
///
/// Acceptance wins over the other outcomes, whatever the order: a start that one worker has in flight may be settled as
/// unknown by another that came upon it.
///
/// A retired token's registration time is raised by one, so that its own registration, delivered again, is stale and
/// does not bring the dead token back. For the fields see ``AdmitScript``.
enum SettleScript {
    static let body: StaticString = """
        local key, suffix, version, outcome = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
        local byte, sub, call = string.byte, string.sub, redis.call
        local changes, count, retired = {}, 0, 0
        local v, state, b, hv, t, u
        if suffix == '' then
          v, b = unpack(call('HMGET', key, 'v', 'b'))
          if v and sub(v, 1, 30) == version then state = byte(v, 31) end
        else
          hv = call('HGET', key, 'hv' .. suffix)
        end
        if ARGV[5] then t, u = unpack(call('HMGET', key, 't' .. suffix, 'u' .. suffix)) end

        if state then
          local ended = state < 97
          if ended then state = state + 32 end
          local letter, shown
          if outcome == 'a' then
            letter, shown = 's', sub(v, 32, 54) .. ARGV[4]
          elseif state ~= 115 and state ~= 102 then
            letter, shown = outcome == 'f' and 'f' or 's', sub(v, 32)
          end
          if letter then
            if ended then letter = string.upper(letter) end
            changes, count = {'v', version .. letter .. shown}, 2
            if state == 104 or state == 107 then
              changes[3], changes[4] = 'h', ''
              count = 4
            end
          end
        end
        if b and sub(b, 1, 31) == version .. 'a' then
          changes[count + 1], changes[count + 2] = 'b', version .. 's' .. sub(b, 32)
          count = count + 2
        end
        if hv and hv ~= '' and hv == version then
          changes[count + 1], changes[count + 2], changes[count + 3], changes[count + 4] =
            'h' .. suffix, '', 'hv' .. suffix, ''
          count = count + 4
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
