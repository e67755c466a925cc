/// The script `admit`: decides what becomes of a command, a held command, a registration or a look-up of an address.
///
/// Every operation first reads, decides, and then writes all that changes with one HSET, followed by at most one PEXPIRE, so
/// that a server out of memory refuses all of it or nothing. Time is the server's (`TIME`): one clock for all workers. An
/// absent field and an empty one mean the same. `KEYS[1]` is the hash.
///
/// A script's time goes into reading and writing fields and into turning numbers into text and back. So the fields are few,
/// numbers stand in them with all their leading zeros, to be compared and copied as text, and what changes with every
/// push is one field; what only pushes of priority 10 and 429s change is another. No value but `h` is above 64 bytes, which
/// would cost the hash its compact encoding. The reply is one string as well: a word, and with some words what
/// ``RedisConnection`` reads behind it.
///
/// Updates and ends come by many in one call, since a call costs as much as a third of an admission: then the reply is an array, in
/// the order of the keys. Each is decided and written by itself, one after the other, and fails by itself; only the clock is read
/// once for all of them. `KEYS` are the hashes, `ARGV` has an argument for each (see ``AdmissionBatch``) and then the paces. A call's
/// replies can hold only so much of held commands: who would be told of one too many is told to `wait` a millisecond instead. All
/// other operations are one a call.
///
/// | field of an activity | bytes | meaning |
/// | --- | --- | --- |
/// | `v` | 1–30 | the newest admitted version |
/// | | 31 | its state, see below |
/// | | 32–41 | the last assigned timestamp, seconds |
/// | | 42–54 | the time of the last send verdict, server milliseconds |
/// | | 55 | `t` if the newest version has drawn on the bucket, else `-` |
/// | | 56–63 | digest of what is shown; missing while that is not known |
/// | `p` | 1–13 | the end of the eight hours after the activity's birth, server milliseconds |
/// | | 14 | `1` if the last registration allowed frequent updates, else `0` |
/// | | 15–27 | when the bucket of priority 10 will be full, server milliseconds; missing before the first draw |
/// | | 28–29 | how often the spacing was doubled when APNs last limited the token; missing if it never has |
/// | | 30–42 | when that was, server milliseconds |
/// | `t` | 1–13 | when the token was registered, unregistered or retired, milliseconds |
/// | | 14–64 | the token's beginning; missing if there is no token |
/// | `u` | | the token's rest |
/// | `h` | 1–30 | version of the held command |
/// | | 31– | the held command |
/// | `b` | 1–30 | version of the newest start that was given a send verdict; once that was accepted, nothing more |
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
/// The bucket is one number, the time at which it will be full if nothing more is drawn (the generic cell rate algorithm): a
/// draw moves it on by an interval, and it may not come to lie more than a full bucket's intervals ahead. A version
/// draws once, whatever is repeated; one that was demoted may draw when it is admitted again.
///
/// A device's hash holds `t u h`, each followed by `:` and the attributes type, and for all of them `s`: when the bucket of
/// starts will be full.
///
/// States of the newest version. An upper-case letter says that the version is an end: then only a start opens the
/// activity again. A newer version begins at `w`, `a`, `b` or `s`, and drops what is held; or, if that carries an alert, at
/// `x` or `y`, and keeps it until the alert is known to have been sent: the newest carries it, but its worker may
/// die and the newest come again without it.
///
/// - `w` waits for its pace or a token: to `a` by a send verdict, `h` or `i` by a hold, `s` when unchanged, `s` `f` by settling
/// - `a` a send verdict was given, the answer is not known: to `h` or `i` by a hold (the token was retired), `s` `f` by settling
/// - `b` the same for a start: to `s` `f` by settling
/// - `h` held: to `k` by a send verdict, `s` by a registration whose app shows it already, `s` `f` by settling
/// - `k` as `a`, and still held: to `h` when its token was retired, `a` by a registration whose app shows it, `s` `f` by settling
/// - `i` `l` as `h` `k`, and the held command carries an alert
/// - `x` `y` as `w` `a`, and an older command with an alert is still held: `x` to `y` by a send verdict
/// - `s` settled; `f` settled without having been shown: an end in this state may be followed by a newer end
enum AdmitScript {
    static let body: StaticString = """
        local byte, sub, format, call = string.byte, string.sub, string.format, redis.call
        -- 24 hours and more than the 1,000 seconds during which a send verdict does not set the expiry again
        local ACTIVITY_LIFETIME = 90000000

        -- Read once for all keys, and only if one needs it.
        local now, milliseconds
        local function serverTime()
          local time = call('TIME')
          now = time[1] .. sub('000000' .. time[2], -6, -4)
          milliseconds = now + 0
          return now
        end

        local operation = ARGV[1]
        if byte(operation) == 117 or byte(operation) == 101 then
          -- What all replies together may bring of held commands: one of any length, or several shorter ones.
          local HELD_BYTES = 131072
          local count, heldBytes = #KEYS, 0
          -- What was read last of the paces: most often the next goes by it too.
          local pace, paceLetter, leastSpacing, paceBucket, interval, pushes, reserved

          local function admit(key, argument)
            local event, request, letterOfPace = byte(argument, 1, 3)
            local version = sub(argument, 4, 33)
            if letterOfPace ~= paceLetter then
              paceLetter, pace, paceBucket = letterOfPace, ARGV[count + letterOfPace - 64], nil
              leastSpacing = sub(pace, 1, 7) + 0
            end
            local fields = call('HMGET', key, 'v', 't', 'u', 'p')
            local v, t, u, p = fields[1] or '', fields[2] or '', fields[3], fields[4]
            local isEnd = event == 101
            local registers = #argument > 41
            if registers then
              registers = sub(argument, 42, 54) >= sub(t, 1, 13)
              if registers then t, u = sub(argument, 42, 105), sub(argument, 106) end
            end

            local state = byte(v, 31) or 119
            local ended = state < 97
            if ended then state = state + 32 end
            local newer = v < version
            local same = not newer and sub(v, 1, 30) == version
            local reply
            if ended or isEnd or not newer then
              local settled = state == 115 or state == 102
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
              if request >= 52 and reply and not newer and not same and not isEnd and not settled and state ~= 98 then
                reply = 'overtaken'
              end
              if reply and not registers then return reply end
            end

            local now = now or serverTime()
            local changesPace = not p
            if changesPace then p = format('%013.0f0', now + 28800000) end
            local letter, drops, sends
            local expires = registers or v == ''

            if not reply then
              local holds = state >= 104 and state <= 108
              local holdsAlert = state == 105 or state == 108 or state >= 120
              if not isEnd and now > p then
                reply = 'tooOld'
              elseif holdsAlert and request < 52 and (#t > 13 or not same or not holds) then
                local h = call('HGET', key, 'h')
                heldBytes = heldBytes + #h
                reply = heldBytes > HELD_BYTES and heldBytes > #h and 'wait1' or 'alertHeld' .. h
              elseif #v > 55 and not isEnd and sub(v, 56) == sub(argument, 34, 41) then
                reply, letter, drops = 'unchanged', 's', holds or holdsAlert
              else
                drops = holds and not same and not holdsAlert
                if #t <= 13 then
                  reply = 'noToken'
                  if not same then
                    letter = holdsAlert and 'x' or 'w'
                  elseif holds then
                    reply, letter = 'held', holdsAlert and 'i' or 'h'
                  end
                else
                  local wait = 0
                  if v ~= '' then
                    local since, spacing = milliseconds - sub(v, 42, 54), leastSpacing
                    local within = milliseconds % 1000000 - since
                    expires = expires or within < 0 or within >= 1000000
                    if #p > 27 then
                      local limited = now - sub(p, 30)
                      local doublings = limited < 0 and 0 or sub(p, 28, 29) - math.floor(limited / sub(pace, 15, 21))
                      if doublings > 0 then
                        spacing = math.max(spacing, math.min(spacing * 2 ^ doublings, sub(pace, 8, 14)))
                      end
                    end
                    if since >= 0 then wait = spacing - since end
                  end
                  if wait > 0 then
                    reply = 'wait' .. format('%.0f', wait)
                    if not same then letter = holdsAlert and 'x' or 'w' end
                  else
                    letter, sends = 'a', true
                    if holdsAlert then
                      letter = same and holds and 'l' or 'y'
                    elseif holds and same then
                      letter = 'k'
                    end
                  end
                end
              end
            end

            if sends then
              local last, timestamp = sub(v, 32, 41), sub(version, 1, 10)
              if same and (state == 97 or state == 107 or state == 108 or state == 121) then
                timestamp = last
              elseif timestamp <= last or v == '' and timestamp == '0000000000' then
                timestamp = format('%010.0f', math.min((tonumber(last) or 0) + 1, 9999999999))
              end
              local bucket = byte(p, 14) == 49 and 39 or 22
              if bucket ~= paceBucket then
                paceBucket, interval = bucket, sub(pace, bucket, bucket + 6) + 0
                pushes, reserved = sub(pace, bucket + 7, bucket + 11), sub(pace, bucket + 12, bucket + 16) + 0
              end
              local left, priority, drawn = pushes, 'f', same and sub(v, 55, 55) or '-'
              local full = #p > 14 and sub(p, 15, 27) or ''
              local missing = full > now and full - milliseconds or 0
              if missing > 0 then left = math.max(pushes - math.ceil(missing / interval), 0) end
              if request % 2 == 1 then
                if drawn == 't' then
                  priority = 't'
                elseif left + 0 > (request % 4 >= 2 and 0 or reserved) then
                  priority, drawn, left, changesPace = 't', 't', left - 1, true
                  p = sub(p, 1, 14) .. format('%013.0f', milliseconds + missing + interval) .. sub(p, 28)
                else
                  priority = 'd'
                end
              end
              if isEnd then letter = string.upper(letter) end
              v = version .. letter .. timestamp .. now .. drawn
              if left ~= pushes then left = format('%05d', left) end
              reply = 'send' .. timestamp .. priority .. left .. t .. u
            elseif letter then
              expires = true
              if isEnd then letter = string.upper(letter) end
              if v == '' then
                v = version .. letter .. '00000000000000000000000-'
              elseif same then
                v = version .. letter .. sub(v, 32)
              else
                v = version .. letter .. sub(v, 32, 54) .. '-' .. sub(v, 56)
              end
            end

            if registers or drops and letter then
              local changes = {}
              if letter then changes[1], changes[2] = 'v', v end
              if letter and drops then changes[3], changes[4] = 'h', '' end
              if registers then
                local count = #changes
                changes[count + 1], changes[count + 2], changes[count + 3], changes[count + 4] = 't', t, 'u', u
              end
              if changesPace then
                local count = #changes
                changes[count + 1], changes[count + 2] = 'p', p
              end
              call('HSET', key, unpack(changes))
            elseif letter and changesPace then
              call('HSET', key, 'v', v, 'p', p)
            elseif letter then
              call('HSET', key, 'v', v)
            end
            if expires and (letter or registers) then call('PEXPIRE', key, ACTIVITY_LIFETIME) end
            return reply
          end

          local replies, index = {}, 0
          local function admitRest()
            while index < count do
              index = index + 1
              replies[index] = admit(KEYS[index], ARGV[index])
            end
          end
          -- What is wrong with one key's hash is that key's error alone.
          repeat
            local isDone, failure = pcall(admitRest)
            if not isDone then
              local text = type(failure) == 'table' and failure.err
              replies[index] = {err = text or string.match(failure, '%-(%u+ .*)') or 'ERR ' .. failure}
            end
          until isDone
          if count == 1 then return replies[1] end
          return replies
        end

        local key = KEYS[1]
        local DEVICE_LIFETIME = 7776000000
        local NOTHING_SENT = '00000000000000000000000-'

        local function digits(milliseconds)
          return string.format('%013.0f', math.min(math.max(milliseconds, 0), 9999999999999))
        end

        local function newborn(now)
          return digits(now + 28800000) .. '0'
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
            if sub(b, 42) ~= claim then return byte(b, 31) == 97 and 'unknown' or 'duplicate' end
            -- In state `b` the start is the newest version itself, and a token is one of the life before.
            if state < 97 or state ~= 98 and #t > 13 then return 'superseded' end
            return 'send' .. sub(b, 32, 41)
          end
          if b > version then return 'superseded' end
          local timestamp, last = sub(version, 1, 10), sub(v == '' and NOTHING_SENT or sub(v, 32), 1, 10)
          local newest = version .. 'b'
          local changes = {'b', '', 'v', '', 'p', ''}
          if v > version then
            if sub(v, 1, 30) == version and (state == 115 or state == 102) then return 'duplicate' end
            if state < 97 or #t > 13 or last >= timestamp then return 'superseded' end
            newest = sub(v, 1, 31)
          else
            if #t > 13 then changes[7], changes[8], changes[9], changes[10] = 't', sub(t, 1, 13), 'u', '' end
            local lower = state < 97 and state + 32 or state
            if lower >= 104 and lower <= 108 or lower >= 120 then
              changes[#changes + 1] = 'h'
              changes[#changes + 1] = ''
            end
          end
          if timestamp <= last then timestamp = string.format('%010.0f', math.min(last + 1, 9999999999)) end
          local now = serverTime()
          changes[2] = version .. 'a' .. timestamp .. claim
          changes[4] = newest .. timestamp .. now .. '-'
          changes[6] = newborn(now)
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
            local letter = ARGV[5] == '1' and 'i' or 'h'
            if state < 97 then letter = string.upper(letter) end
            write({'v', version .. letter .. sub(v, 32), 'h', version .. ARGV[4]}, lifetime)
          else
            local t, h = unpack(call('HMGET', key, 't' .. suffix, 'h' .. suffix))
            if h and sub(h, 1, 30) > version then return 'superseded' end
            if t and #t > 13 then return 'retry' end
            write({'h' .. suffix, version .. ARGV[4]}, lifetime)
          end
          return 'held'
        end

        if operation == 'r' then
          local t, h, v, p = unpack(call('HMGET', key, 't' .. suffix, 'h' .. suffix, 'v', 'p'))
          if sub(ARGV[3], 1, 13) < sub(t or '', 1, 13) then return 'stale' end
          local changes = {'t' .. suffix, ARGV[3], 'u' .. suffix, ARGV[4]}
          if suffix == '' then
            p = p or newborn(serverTime())
            changes[5], changes[6] = 'p', sub(p, 1, 13) .. ARGV[6] .. sub(p, 15)
            local state = v and string.lower(sub(v, 31, 31)) or 'w'
            if not h or state < 'h' or state > 'l' then h = '' end
          end
          local reply = 'registered'
          if h and h ~= '' then
            if sub(h, 1, 30) > ARGV[5] then
              reply = reply .. h
            else
              local count = #changes
              changes[count + 1], changes[count + 2] = 'h' .. suffix, ''
              if suffix == '' then
                local shown = {h = 's', i = 's', k = 'a', l = 'a', H = 'S', I = 'S', K = 'A', L = 'A'}
                changes[count + 3], changes[count + 4] = 'v', sub(v, 1, 30) .. shown[sub(v, 31, 31)] .. sub(v, 32)
              end
            end
          end
          write(changes, lifetime)
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
            local now, interval = serverTime(), sub(ARGV[3], 1, 7)
            local full = s > now and s or now
            local wait = full - now - (sub(ARGV[3], 8, 12) - 1) * interval
            if wait > 0 then
              reply = 'wait' .. string.format('%.0f', wait)
            else
              reply = 'address' .. t .. u
              changes[#changes + 1] = 's'
              changes[#changes + 1] = digits(full + interval)
            end
          end
          if changes[1] then write(changes, lifetime) end
          return reply
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
