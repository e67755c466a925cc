/// The script `admit`: decides what becomes of a command, a held command, a registration or a look-up of an address, and writes down how
/// an activity's version ended.
///
/// Every operation first reads, decides, and then writes all that changes with one SET or SETRANGE (of a device one HSET, followed by at
/// most one PEXPIRE), so that a server out of memory refuses all of it or nothing. Time is the server's (`TIME`): one clock for all
/// workers. `KEYS[1]` is the key.
///
/// ``StoredRecord`` says how an activity stands in its value. The reply is one string: a word, and with some words what ``RedisConnection``
/// reads behind it; with `send` that is the priority, what is left of the bucket, the version and the timestamp that is sent, and the
/// value as it was read, without what stands behind the token.
///
/// Updates, ends and settlements come by many in one call, since a call costs nearly as much as an admission: then the reply is an array,
/// in the order of the keys. All values are read by one MGET; each is decided and written by itself, one after the other, and fails by
/// itself, for which reason errors of Redis are taken as replies there; only the clock is read once for all of them. `KEYS` are the keys,
/// `ARGV` is all calls in one (see ``AdmissionBatch``) and then the paces. A key that comes a second time says so, and is read again. A
/// call's replies can hold only so much of held commands: who would be told of one too many is told to `wait` a millisecond
/// instead. All other operations are one a call, and their first argument is a letter.
///
/// What changes an activity's length, its newest version or its token writes the whole value with a new expiry. A send verdict
/// overwrites the record's beginning, which keeps the expiry, but for once in a thousand seconds; so does a settlement that frees nothing.
///
/// What is slow in Lua here: a call of Redis, a call of a function, a string that did not exist (eight instructions a byte of it), text
/// made of a number or read as one. Hence the one long loop without functions of its own, numbers in place of letters (`a` is 97, `n`
/// 110, `s` 115, `x` 120; an upper-case letter is 32 less), and pieces of strings that are copied as they are.
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
    static var body: String { "\(beginning)\(settlements)\(admissions)\n\(operations)" }

    /// Takes the calls of a batch apart, one after the other.
    private static let beginning: StaticString = """
        local byte, char, sub, call = string.byte, string.char, string.sub, redis.pcall
        local read, pack = struct.unpack, struct.pack
        -- 24 hours and more than the 1,000 seconds during which a send verdict does not set the expiry again
        local ACTIVITY_LIFETIME = '90000000'
        local UPDATES_SECONDS = 28800
        -- The value of an activity of which nothing is known.
        local UNKNOWN = string.rep('\\0', 18) .. 'n' .. string.rep('\\0', 31)
        local MALFORMED = {err = 'ERR the value is not an activity of Causeway'}
        local operation = ARGV[1]

        if #operation > 1 then
          -- What all replies together may bring of held commands: one of any length, or several shorter ones.
          local HELD_BYTES = 131072
          local keys, calls, position, heldBytes = KEYS, operation, 1, 0
          local count = #keys
          local values = call('MGET', unpack(keys))
          if values.err then return values end
          -- Read once for all keys, and only if one needs it.
          local now, seconds, sinceThousand, sentNow, drawnNow
          -- What was read last of the paces: most often the next goes by it too.
          local paceNumber, pace, leastSpacing, paceBucket, interval, pushes, reserved, allLeft

          local function readClock()
            local time = call('TIME')
            seconds = time[1] + 0
            local microseconds = time[2] + 0
            now = seconds * 1000 + (microseconds - microseconds % 1000) / 1000
            sinceThousand = now % 1000000
            local sentAt = pack('>I6xxxxxx', now)
            sentNow, drawnNow = 'a' .. sentAt, '\\225' .. sentAt
          end

          for index = 1, count do
            local key, start = keys[index], position
            local value, reply, settles, token, tokenAt, form = values[index], nil, nil, nil, nil, nil
            local timestamp, request, numberOfPace, digest = read('>I5BBI6', calls, start + 13)
            position = start + 26
            if request >= 16 then
              if request >= 64 then
                -- A call before this one may have written it.
                request = request - 64
                value = call('GET', key)
              end
              if request >= 32 then request, settles = request - 32, true end
              if request >= 16 then
                request = request - 16
                local tokenLength
                tokenLength, tokenAt, form = read('>I2I6B', calls, position)
                token = sub(calls, position + 9, position + 8 + tokenLength)
                position = position + 9 + tokenLength
              end
            end
            repeat
              local isNew = not value
              if isNew then
                value = UNKNOWN
              elseif #value < 50 then
                reply = value.err and value or MALFORMED
                break
              end
              local newest, last, state, sent, shown, full, kind, lifeEnd, length = read('>I5I5BI6I6I6BI4I2', value, 9)
              local hasDrawn, ended = false, false
              if state >= 128 then hasDrawn, state = true, state - 128 end
              if state < 97 then ended, state = true, state + 32 end
              local limitAt, startAt, heldAt = 51 + length, nil, nil
              if kind >= 16 or #value ~= limitAt - 1 then
                startAt = kind % 32 >= 16 and limitAt + 7 or limitAt
                heldAt = startAt
                if kind >= 64 then heldAt = startAt + (kind % 64 >= 32 and 27 or 13) end
                local held = #value + 1 - heldAt
                local holds = state >= 104 and (state <= 108 or state >= 120)
                if kind >= 128 or kind % 64 >= 32 and kind < 64 or (holds and held <= 30) or (not holds and held ~= 0) then
                  reply = MALFORMED
                  break
                end
              elseif state >= 104 and (state <= 108 or state >= 120) then
                reply = MALFORMED
                break
              end
              local same = timestamp == newest and sub(value, 1, 8) == sub(calls, start, start + 7) and state ~= 110


        """

    /// Updates and ends; beneath the end of the loop stand all operations that come one a call.
    private static let admissions: StaticString = """
              local registers, whole, isEnd = false, isNew or state == 110, request >= 8
              if isEnd then request = request - 8 end
              if token and tokenAt >= read('>I6', value, 45) then
                registers, whole = true, true
                value = sub(value, 1, 37) .. char(kind - kind % 8 + form) .. sub(value, 39, 42)
                  .. pack('>I2I6', #token, tokenAt) .. token .. sub(value, limitAt)
                kind = kind - kind % 8 + form
                limitAt = limitAt + #token - length
                if heldAt then heldAt = heldAt + #token - length end
              end
              local isLimited, isFrequent = false, false
              if kind >= 16 then
                isLimited = kind % 32 >= 16
                kind = kind % 16
              end
              if kind >= 8 then isFrequent, kind = true, kind - 8 end
              local newer = timestamp > newest or state == 110
              if timestamp == newest and not newer and not same then
                local high, low = read('>I4I4', calls, start)
                local newestHigh, newestLow = read('>I4I4', value)
                newer = high > newestHigh or high == newestHigh and low > newestLow
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

              if not now then readClock() end
              if lifeEnd == 0 then
                lifeEnd = seconds + UPDATES_SECONDS
                value = sub(value, 1, 38) .. pack('>I4', lifeEnd) .. sub(value, 43)
              end
              local letter, drops, sends, record

              if not reply then
                local holds, holdsAlert = false, false
                if state >= 104 and state ~= 115 then
                  holds = state <= 108
                  holdsAlert = state == 105 or state == 108 or state >= 120
                end
                if not isEnd and seconds > lifeEnd then
                  reply = 'tooOld'
                elseif holdsAlert and request < 4 and (kind > 0 or not same or not holds) then
                  local h = sub(value, heldAt)
                  heldBytes = heldBytes + #h
                  reply = heldBytes > HELD_BYTES and heldBytes > #h and 'wait1' or 'alertHeld' .. h
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
                    if isLimited then
                      local doublings, limitedAt = read('>BI6', value, limitAt)
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
                      -- The last was not in the same thousand seconds.
                      if since > sinceThousand or since < sinceThousand - 999999 then whole = true end
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
                local head = sub(calls, start, start + 17)
                if same and (state == 97 or state == 107 or state == 108 or state == 121) then
                  if last ~= timestamp then head = sub(head, 1, 13) .. sub(value, 14, 18) end
                elseif timestamp <= last then
                  head = sub(head, 1, 13) .. pack('>I5', math.min(last + 1, 9999999999))
                end
                local left, leftBytes, priority, drawn = pushes, allLeft, 'sendf', nil
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
                    drawn = pack('>I6', (full > now and full or now) + interval)
                  else
                    priority = 'sendd'
                  end
                end
                if left ~= pushes then leftBytes = char((left - left % 256) / 256, left % 256) end
                local mark = hasDrawn and drawnNow or sentNow
                if letter ~= 97 then mark = char(hasDrawn and letter + 128 or letter) .. sub(mark, 2) end
                record = drawn and head .. mark .. drawn or head .. mark
                reply = priority .. leftBytes .. head .. (heldAt and sub(value, 1, limitAt - 1) or value)
              elseif letter then
                if hasDrawn then letter = letter + 128 end
                whole = true
                if same then
                  record = sub(value, 1, 18) .. char(letter)
                else
                  record = sub(calls, start, start + 12) .. sub(value, 14, 18) .. char(letter)
                end
              end

              if letter or registers then
                local written
                if whole or drops then
                  if record then value = record .. sub(value, #record + 1, drops and heldAt - 1 or -1) end
                  if isNew then
                    -- Of what is no string, too, MGET says that it is not there.
                    written = call('SET', key, value, 'PX', ACTIVITY_LIFETIME, 'NX')
                      or {err = 'WRONGTYPE the key holds what is not an activity of Causeway'}
                  else
                    written = call('SET', key, value, 'PX', ACTIVITY_LIFETIME)
                  end
                  if written.err then reply = written end
                else
                  written = call('SETRANGE', key, '0', record)
                  if written ~= #value then reply = written end
                end
              end
            until true
            keys[index] = reply
          end
          if count == 1 then return keys[1] end
          return keys
        end
        """
}
