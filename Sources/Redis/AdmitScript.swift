/// The script `admit`: decides what becomes of a command, a held command, a registration or a look-up of an address.
///
/// Every operation reads with one call, decides, and then writes all that changes with one HSET, followed by at most
/// one PEXPIRE, so that a server out of memory refuses all of it or nothing. Time is the server's (`TIME`): one clock
/// for all workers. An absent field and an empty one mean the same. `KEYS[1]` is the hash.
///
/// A script's time goes into reading and writing fields and into turning numbers into text and back. So the fields are few,
/// numbers stand in them with all their leading zeros, to be compared and copied as text, and what changes with every
/// push is one field. No value but `h` is above 64 bytes, which would cost the hash its compact encoding. The reply is one
/// string as well: a word, and with some words what ``RedisConnection`` reads behind it.
///
/// | field of an activity | bytes | meaning |
/// | --- | --- | --- |
/// | `v` | 1–30 | the newest admitted version |
/// | | 31 | its state, see below |
/// | | 32–41 | the last assigned timestamp, seconds |
/// | | 42–54 | the time of the last send verdict, server milliseconds |
/// | | 55–62 | digest of what is shown; missing while that is not known |
/// | `t` | 1–13 | when the token was registered, unregistered or retired, milliseconds |
/// | | 14–64 | the token's beginning; missing if there is no token |
/// | `u` | | the token's rest |
/// | `h` | | the held command, of the newest version |
/// | `b` | 1–30 | version of the newest start that was given a send verdict |
/// | | 31 | `a` until it is settled, then `s` |
/// | | 32–41 | the timestamp that it was assigned, seconds |
/// | | 42–49 | the claim of the record that it was given to |
///
/// A start may be sent once, and a record whose reply was lost asks again: the claim tells it from other records of the same
/// start. A record asks only while it has sent nothing, so its own verdict is repeated, with its timestamp and without a
/// change; every other record hears `unknown` or, once settled, `duplicate`, and changes nothing either. `unknown` is
/// written down by `settle`, which leaves the claim: the record that holds it may still be on its way to send. The repetition
/// is refused only for what has come since: an end, or a newer state of an activity that has a token and so lives without it.
///
/// A device's hash holds `t u h` and `hv`, the version of what is held, each followed by `:` and the attributes type.
///
/// States of the newest version. An upper-case letter says that the version is an end: then only a start opens the
/// activity again. A newer version begins at `w`, `a`, `b` or `s`, and drops what is held.
///
/// - `w` waits for its pace or a token: to `a` by a send verdict, `h` by a hold, `s` when unchanged, `s` `f` by settling
/// - `a` a send verdict was given, the answer is not known: to `h` by a hold (the token was retired), `s` `f` by settling
/// - `b` the same for a start: to `s` `f` by settling
/// - `h` held: to `k` by a send verdict, `s` by a registration whose app shows it already, `s` `f` by settling
/// - `k` as `a`, and still held: to `h` when its token was retired, `a` by a registration whose app shows it, `s` `f` by settling
/// - `s` settled; `f` settled without having been shown: an end in this state may be followed by a newer end
enum AdmitScript {
    static let body: StaticString = """
        local key, operation = KEYS[1], ARGV[1]
        local byte, sub, call = string.byte, string.sub, redis.call
        -- 24 hours and more than the 1,000 seconds during which a send verdict does not set the expiry again
        local ACTIVITY_LIFETIME, DEVICE_LIFETIME = 90000000, 7776000000
        local NOTHING_SENT = '00000000000000000000000'

        if operation == 'u' or operation == 'e' then
          local version, isEnd = ARGV[2], operation == 'e'
          local v, t, u = unpack(call('HMGET', key, 'v', 't', 'u'))
          v, t = v or '', t or ''
          local registers = ARGV[5] and sub(ARGV[5], 1, 13) >= sub(t, 1, 13)
          if registers then t, u = ARGV[5], ARGV[6] end

          local state = byte(v, 31) or 119
          local ended = state < 97
          if ended then state = state + 32 end
          local settled = state == 115 or state == 102
          local newer = v < version
          local same = not newer and sub(v, 1, 30) == version
          local reply
          if ended then
            if not isEnd then
              reply = 'ended'
            elseif same then
              if settled then reply = 'duplicate' end
            elseif not newer or state ~= 102 then
              reply = 'ended'
            end
          elseif isEnd then
            same = false
          elseif same then
            if settled or state == 98 then reply = 'duplicate' end
          elseif not newer then
            reply = 'superseded'
          end

          local letter, sent, drops
          local renews = true
          if not reply then
            local holds = state == 104 or state == 107
            drops = holds and not same
            if #v > 54 and not isEnd and sub(v, 55) == ARGV[3] then
              reply, letter, drops = 'unchanged', 's', holds
            elseif #t <= 13 then
              reply = 'noToken'
              if not same then letter = 'w' elseif holds then reply, letter = 'held', 'h' end
            else
              local time = call('TIME')
              local now = time[1] .. sub('000000' .. time[2], -6, -4)
              local lastSend = v == '' and 0 or sub(v, 42, 54)
              local since = now - lastSend
              local wait = ARGV[4] - since
              if wait > 0 and since >= 0 then
                reply = 'wait' .. wait
                if not same then letter = 'w' end
              else
                local last, timestamp = sub(v, 32, 41), sub(version, 1, 10)
                if same and (state == 97 or state == 107) then
                  timestamp = last
                elseif timestamp <= last or v == '' and timestamp == '0000000000' then
                  timestamp = string.format('%010.0f', math.min((tonumber(last) or 0) + 1, 9999999999))
                end
                letter, sent = same and holds and 'k' or 'a', timestamp .. now
                renews = now - now % 1000000 > lastSend + 0
                reply = 'send' .. timestamp .. t .. u
              end
            end
          end

          if letter then
            if isEnd then letter = string.upper(letter) end
            if not sent then sent = v == '' and NOTHING_SENT or sub(v, 32) end
            if not registers and not drops then
              call('HSET', key, 'v', version .. letter .. sent)
            elseif not drops then
              call('HSET', key, 'v', version .. letter .. sent, 't', t, 'u', u)
            elseif not registers then
              call('HSET', key, 'v', version .. letter .. sent, 'h', '')
            else
              call('HSET', key, 'v', version .. letter .. sent, 'h', '', 't', t, 'u', u)
            end
          elseif registers then
            call('HSET', key, 't', t, 'u', u)
          end
          if renews and letter or registers then call('PEXPIRE', key, ACTIVITY_LIFETIME) end
          return reply
        end

        local function write(changes, lifetime)
          call('HSET', key, unpack(changes))
          call('PEXPIRE', key, lifetime)
        end

        if operation == 's' then
          local version, claim = ARGV[2], ARGV[3]
          local v, b, t = unpack(call('HMGET', key, 'v', 'b', 't'))
          v, b, t = v or '', b or '', t or ''
          local state = byte(v, 31) or 119
          if sub(b, 1, 30) == version then
            if sub(b, 42) ~= claim then return byte(b, 31) == 115 and 'duplicate' or 'unknown' end
            -- In state `b` the start is the newest version itself, and a token is one of the life before.
            if state < 97 or state ~= 98 and #t > 13 then return 'superseded' end
            return 'send' .. sub(b, 32, 41)
          end
          if b > version then return 'superseded' end
          local timestamp, last = sub(version, 1, 10), sub(v == '' and NOTHING_SENT or sub(v, 32), 1, 10)
          local newest = version .. 'b'
          local changes = {'b', '', 'v', ''}
          if v > version then
            if sub(v, 1, 30) == version and (state == 115 or state == 102) then return 'duplicate' end
            if state < 97 or #t > 13 or last >= timestamp then return 'superseded' end
            newest = sub(v, 1, 31)
          else
            if #t > 13 then changes[5], changes[6], changes[7], changes[8] = 't', sub(t, 1, 13), 'u', '' end
            if state == 104 or state == 107 or state == 72 or state == 75 then
              changes[#changes + 1] = 'h'
              changes[#changes + 1] = ''
            end
          end
          if timestamp <= last then timestamp = string.format('%010.0f', math.min(last + 1, 9999999999)) end
          local time = call('TIME')
          changes[2] = version .. 'a' .. timestamp .. claim
          changes[4] = newest .. timestamp .. time[1] .. sub('000000' .. time[2], -6, -4)
          write(changes, ACTIVITY_LIFETIME)
          return 'send' .. timestamp
        end

        local suffix = ARGV[2]
        local lifetime = suffix == '' and ACTIVITY_LIFETIME or DEVICE_LIFETIME

        if operation == 'h' then
          local version = ARGV[3]
          if suffix == '' then
            local v, t = unpack(call('HMGET', key, 'v', 't'))
            if not v or sub(v, 1, 30) ~= version then return 'superseded' end
            local state = byte(v, 31)
            if state == 115 or state == 102 or state == 83 or state == 70 then return 'duplicate' end
            if t and #t > 13 then return 'retry' end
            write({'v', version .. (state < 97 and 'H' or 'h') .. sub(v, 32), 'h', ARGV[4]}, lifetime)
          else
            local t, hv = unpack(call('HMGET', key, 't' .. suffix, 'hv' .. suffix))
            if hv and hv > version then return 'superseded' end
            if t and #t > 13 then return 'retry' end
            write({'h' .. suffix, ARGV[4], 'hv' .. suffix, version}, lifetime)
          end
          return 'held'
        end

        if operation == 'r' then
          local t, h, v, hv = unpack(call('HMGET', key, 't' .. suffix, 'h' .. suffix, 'v', 'hv' .. suffix))
          if sub(ARGV[3], 1, 13) < sub(t or '', 1, 13) then return 'stale' end
          local changes = {'t' .. suffix, ARGV[3], 'u' .. suffix, ARGV[4]}
          if not h or h == '' then
            write(changes, lifetime)
            return 'registered'
          end
          if suffix == '' then hv = sub(v, 1, 30) end
          if hv > ARGV[5] then
            write(changes, lifetime)
            return 'registered' .. hv .. h
          end
          changes[5], changes[6] = 'h' .. suffix, ''
          if suffix == '' then
            local shown = {[104] = 's', [72] = 'S', [107] = 'a', [75] = 'A'}
            changes[7], changes[8] = 'v', hv .. shown[byte(v, 31)] .. sub(v, 32)
          else
            changes[7], changes[8] = 'hv' .. suffix, ''
          end
          write(changes, lifetime)
          return 'registered'
        end

        if operation == 'a' then
          local t, u = unpack(call('HMGET', key, 't' .. suffix, 'u' .. suffix))
          t = t or ''
          if ARGV[3] and sub(ARGV[3], 1, 13) >= sub(t, 1, 13) then
            t, u = ARGV[3], ARGV[4]
            write({'t' .. suffix, t, 'u' .. suffix, u}, lifetime)
          end
          if #t <= 13 then return 'noToken' end
          return 'address' .. t .. u
        end

        if operation == 'x' then
          local at, changes, known = ARGV[3], {}, {}
          if suffix == '*' then
            local all = call('HGETALL', key)
            for index = 1, #all, 2 do
              if sub(all[index], 1, 2) == 't:' then known[sub(all[index], 2)] = all[index + 1] end
            end
            if not next(known) then return 'unregistered' end
          else
            known[suffix] = call('HGET', key, 't' .. suffix) or ''
          end
          for each, t in pairs(known) do
            if at >= sub(t, 1, 13) then
              for field, value in pairs({t = at, u = ''}) do
                changes[#changes + 1] = field .. each
                changes[#changes + 1] = value
              end
            end
          end
          if not changes[1] then return 'stale' end
          write(changes, lifetime)
          return 'unregistered'
        end

        return redis.error_reply('ERR unknown operation')
        """
}
