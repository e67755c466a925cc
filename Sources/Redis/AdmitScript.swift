/// The script `admit`: decides what becomes of a command, a held command, a registration or a look-up of an address.
///
/// Every operation first reads, decides, and then writes all that changes with one HSET, followed by at most one PEXPIRE, so
/// that a server out of memory refuses all of it or nothing. Time is the server's (`TIME`): one clock for all workers. `KEYS[1]` is
/// the hash.
///
/// ``StoredRecord`` says how an activity stands in its hash. The reply is one string: a word, and with some words what ``RedisConnection``
/// reads behind it; with `send` that is the priority, what is left of the bucket, and the record and the token as they stand.
///
/// Updates and ends come by many in one call, since a call costs nearly as much as an admission: then the reply is an array, in
/// the order of the keys. Each is decided and written by itself, one after the other, and fails by itself, for which reason errors
/// of Redis are taken as replies there; only the clock is read once for all of them. `KEYS` are the hashes, `ARGV` is all admissions in
/// one (see ``AdmissionBatch``) and then the paces. A call's replies can hold only so much of held commands: who would be told of one
/// too many is told to `wait` a millisecond instead. All other operations are one a call, and their first argument is a letter.
///
/// What is slow in Lua here: a call of Redis, a call of a function, a string that did not exist, text made of a number or read as
/// one. Hence the one long loop without functions of its own, numbers in place of letters (`a` is 97, `n` 110, `s` 115, `x` 120; an
/// upper-case letter is 32 less), and pieces of strings that are copied as they are.
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
/// - `n` there is none yet
/// - `w` waits for its pace or a token: to `a` by a send verdict, `h` or `i` by a hold, `s` when unchanged, `s` `f` by settling
/// - `a` a send verdict was given, the answer is not known: to `h` or `i` by a hold (the token was retired), `s` `f` by settling
/// - `b` the same for a start: to `s` `f` by settling
/// - `h` held: to `k` by a send verdict, `s` by a registration whose app shows it already, `s` `f` by settling
/// - `k` as `a`, and still held: to `h` when its token was retired, `a` by a registration whose app shows it, `s` `f` by settling
/// - `i` `l` as `h` `k`, and the held command carries an alert
/// - `x` `y` as `w` `a`, and an older command with an alert is still held: `x` to `y` by a send verdict
/// - `s` settled; `f` settled without having been shown: an end in this state may be followed by a newer end
enum AdmitScript {
    static var body: String { "\(admissions)\n\(operations)" }

    /// Updates and ends; beneath its end stand all other operations.
    private static let admissions: StaticString = """
        local byte, char, sub, call = string.byte, string.char, string.sub, redis.pcall
        local read, pack = struct.unpack, struct.pack
        -- 24 hours and more than the 1,000 seconds during which a send verdict does not set the expiry again
        local ACTIVITY_LIFETIME = 90000000
        local UPDATES_SECONDS = 28800
        local operation = ARGV[1]

        if #operation > 1 then
          -- What all replies together may bring of held commands: one of any length, or several shorter ones.
          local HELD_BYTES = 131072
          local keys, admissions, position, heldBytes = KEYS, operation, 1, 0
          local count = #keys
          -- Read once for all keys, and only if one needs it.
          local now, seconds, sinceThousand, sentNow, drawnNow
          -- What was read last of the paces: most often the next goes by it too.
          local paceNumber, pace, leastSpacing, paceBucket, interval, pushes, reserved, allLeft

          for index = 1, count do
            local key, start = keys[index], position
            local timestamp, request, numberOfPace, digest = read('>I5BBI6', admissions, start + 13)
            position = start + 26
            local r, reply = call('HGET', key, 'r'), nil
            repeat
              if not r then
                r = string.rep('\\0', 18) .. 'n' .. string.rep('\\0', 29)
              elseif #r < 48 then
                -- An error is a table without elements. What is wrong with one key is that key's error alone.
                reply = r.err and r or {err = 'ERR the field r is too short'}
                if request >= 16 then position = start + 35 + read('>I2', admissions, start + 26) end
                break
              end
              local newest, last, state, sent, shown, full, kind, lifeEnd = read('>I5I5BI6I6I6BI4', r, 9)
              local isEnd, registers, t, u = false, false, nil, nil
              if request >= 8 then
                if request >= 16 then
                  local length, registeredAt, form = read('>I2I6B', admissions, start + 26)
                  position = start + 35 + length
                  request = request - 16
                  registers = registeredAt >= read('>I6', r, 43)
                  if registers then
                    local token = sub(admissions, start + 35, position - 1)
                    t, u = sub(token, 17, 80), sub(token, 81)
                    if u == '' and kind % 128 < 64 then u = nil end
                    kind = kind - kind % 8 - (kind % 128 >= 64 and 64 or 0) + form + (#token > 80 and 64 or 0)
                    r = sub(r, 1, 37) .. char(kind) .. sub(r, 39, 42) .. sub(admissions, start + 28, start + 33)
                      .. sub(token, 1, 16)
                  end
                end
                isEnd = request >= 8
                if isEnd then request = request - 8 end
              end

              local isLimited, isLong, isFrequent = false, false, false
              if kind >= 16 then
                isLong = kind >= 64
                kind = kind % 32
                isLimited = kind >= 16
                if isLimited then kind = kind - 16 end
              end
              if kind >= 8 then isFrequent, kind = true, kind - 8 end
              local hasDrawn, ended = false, false
              if state >= 128 then hasDrawn, state = true, state - 128 end
              if state < 97 then ended, state = true, state + 32 end
              local newer, same = timestamp > newest or state == 110, false
              if timestamp == newest and not newer then
                same = sub(r, 1, 8) == sub(admissions, start, start + 7)
                if not same then
                  local high, low = read('>I4I4', admissions, start)
                  local newestHigh, newestLow = read('>I4I4', r)
                  newer = high > newestHigh or high == newestHigh and low > newestLow
                end
              end
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
                if request >= 4 and reply and not newer and not same and not isEnd and not settled and state ~= 98 then
                  reply = 'overtaken'
                end
                if reply and not registers then break end
              end

              if not now then
                local time = call('TIME')
                seconds = time[1] + 0
                local microseconds = time[2] + 0
                now = seconds * 1000 + (microseconds - microseconds % 1000) / 1000
                sinceThousand = now % 1000000
                local sentAt = pack('>I6xxxxxx', now)
                sentNow, drawnNow = 'a' .. sentAt, '\\225' .. sentAt
              end
              if lifeEnd == 0 then
                lifeEnd = seconds + UPDATES_SECONDS
                r = sub(r, 1, 38) .. pack('>I4', lifeEnd) .. sub(r, 43)
              end
              local letter, drops, sends
              local expires = registers or state == 110

              if not reply then
                local holds, holdsAlert = false, false
                if state >= 104 and state ~= 115 then
                  holds = state <= 108
                  holdsAlert = state == 105 or state == 108 or state >= 120
                end
                if not isEnd and seconds > lifeEnd then
                  reply = 'tooOld'
                elseif holdsAlert and request < 4 and (kind > 0 or not same or not holds) then
                  local h = call('HGET', key, 'h') or ''
                  heldBytes = heldBytes + #h
                  if #h <= 30 then
                    reply = {err = 'ERR the field h is too short'}
                  else
                    reply = heldBytes > HELD_BYTES and heldBytes > #h and 'wait1' or 'alertHeld' .. h
                  end
                elseif shown == digest and not isEnd then
                  reply, letter, drops = 'unchanged', 115, holds or holdsAlert
                else
                  drops = holds and not same and not holdsAlert
                  if kind == 0 then
                    reply = 'noToken'
                    if not same then
                      letter = holdsAlert and 120 or 119
                    elseif holds then
                      reply, letter = 'held', holdsAlert and 105 or 104
                    end
                  else
                    local bucket = isFrequent and 11 or 1
                    if numberOfPace ~= paceNumber or bucket ~= paceBucket then
                      paceNumber, paceBucket, pace = numberOfPace, bucket, ARGV[numberOfPace]
                      leastSpacing, interval, pushes, reserved = read('>I3I3I2I2', pace, bucket)
                      allLeft = sub(pace, bucket + 6, bucket + 7)
                    end
                    local since, spacing = now - sent, leastSpacing
                    -- The last was not in the same thousand seconds.
                    if since > sinceThousand or since < sinceThousand - 999999 then expires = true end
                    if isLimited then
                      local doublings, limitedAt = read('>BI6', call('HGET', key, 'l'))
                      local longest, recovery = read('>I3I3', pace, 21)
                      local limited = now - limitedAt
                      doublings = limited < 0 and 0 or doublings - math.floor(limited / recovery)
                      if doublings > 0 then spacing = math.max(spacing, math.min(spacing * 2 ^ doublings, longest)) end
                    end
                    if since >= 0 and since < spacing then
                      reply = 'wait' .. string.format('%.0f', spacing - since)
                      if not same then letter = holdsAlert and 120 or 119 end
                    else
                      letter, sends = 97, true
                      if holdsAlert then
                        letter = same and holds and 108 or 121
                      elseif holds and same then
                        letter = 107
                      end
                    end
                  end
                end
              end

              if letter then
                if isEnd then letter = letter - 32 end
                if not same then hasDrawn = false end
              end
              if sends then
                local head = sub(admissions, start, start + 17)
                if same and (state == 97 or state == 107 or state == 108 or state == 121) then
                  if last ~= timestamp then head = sub(head, 1, 13) .. sub(r, 14, 18) end
                elseif timestamp <= last then
                  head = sub(head, 1, 13) .. pack('>I5', math.min(last + 1, 9999999999))
                end
                local left, leftBytes, priority, rest = pushes, allLeft, 'sendf', nil
                if full > now then
                  local missing = full - now - 1
                  left = pushes - (missing - missing % interval) / interval - 1
                  if left < 0 then left = 0 end
                end
                if request % 2 == 1 then
                  if hasDrawn then
                    priority = 'sendt'
                  elseif left > (request % 4 >= 2 and 0 or reserved) then
                    priority, hasDrawn, left = 'sendt', true, left - 1
                    rest = pack('>I6', (full > now and full or now) + interval) .. sub(r, 38)
                  else
                    priority = 'sendd'
                  end
                end
                if left ~= pushes then leftBytes = char((left - left % 256) / 256, left % 256) end
                if not registers then
                  t = #r >= 64 and call('HGET', key, 't') or ''
                  if isLong then u = call('HGET', key, 'u') end
                end
                local mark = hasDrawn and drawnNow or sentNow
                if letter ~= 97 then mark = char(hasDrawn and letter + 128 or letter) .. sub(mark, 2) end
                r = head .. mark .. (rest or sub(r, 32))
                reply = u and priority .. leftBytes .. r .. t .. u or priority .. leftBytes .. r .. t
              elseif letter then
                expires = true
                if hasDrawn then letter = letter + 128 end
                if same then
                  r = sub(r, 1, 18) .. char(letter) .. sub(r, 20)
                else
                  r = sub(admissions, start, start + 12) .. sub(r, 14, 18) .. char(letter) .. sub(r, 20)
                end
              end

              local written
              if registers then
                local changes = {'r', r, 't', t}
                if u then changes[5], changes[6] = 'u', u end
                if letter and drops then changes[#changes + 1], changes[#changes + 2] = 'h', '' end
                written = call('HSET', key, unpack(changes))
              elseif letter and drops then
                written = call('HSET', key, 'r', r, 'h', '')
              elseif letter then
                written = call('HSET', key, 'r', r)
              end
              if written and written ~= 0 and type(written) == 'table' then
                reply = written
              elseif expires and written then
                call('PEXPIRE', key, ACTIVITY_LIFETIME)
              end
            until true
            keys[index] = reply
          end
          if count == 1 then return keys[1] end
          return keys
        end
        """
}
