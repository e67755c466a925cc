/// The script `admit`: decides what becomes of a command, a held command, a registration or a look-up of an address, and writes down how
/// an activity's version ended.
///
/// Every operation first reads, decides, and then writes all that changes with one SET or SETRANGE (of a device one HSET, followed by at
/// most one PEXPIRE), so that a server out of memory refuses all of it or nothing. Time is the server's (`TIME`): one clock for all
/// workers. `KEYS[1]` is the key.
///
/// ``StoredRecord`` says how an activity stands in its value. The reply is one string: a word, and with some words what ``RedisConnection``
/// reads behind it; a start's `send` has its timestamp there. An update or an end that is sent with its own timestamp and the priority
/// that it asked for is answered with its value as it was read, from which follows, with the clock, what is left of the bucket. To one
/// that is sent otherwise the reply is a number: the timestamp times 65,536, the priority (1: 5, 2: 10, 3: 10 was asked for and is not
/// left) times 16,384, and what is left; so it is to some that are sent as they asked, too.
///
/// Updates, ends and settlements come by many in one call, since a call costs nearly as much as an admission: then the reply is an array,
/// in the order of the keys; behind all replies stand, in the same order, the values of those that are answered with a number, as they
/// were read and without what stands behind the token, and last the clock. (The clock is left out if no value among the replies needs it,
/// and one key is then answered without an array, unless with a number.) All values are read by one
/// MGET; each is decided and written by itself, one after the other, and fails by itself, for which reason errors of Redis are taken as
/// replies there; only the clock is read once for all of them. `KEYS` are the keys, `ARGV` is all calls in one (see ``AdmissionBatch``)
/// and then the paces. A key that comes a second time says so, and is read again. A call's replies can hold only so much of held
/// commands: who would be told of one too many is told to `wait` a millisecond instead. All other operations are one a call, and their
/// first argument is a letter.
///
/// What changes an activity's length, its newest version or its token writes the whole value with a new expiry. A send verdict
/// overwrites a piece of the record, which keeps the expiry, but for once in a thousand seconds; so does a settlement that frees nothing.
///
/// What is slow in Lua here: a call of Redis, a call of a function, a string that did not exist (eight instructions a byte of it), text
/// made of a number or read as one, each number taken out of a string, and each of Lua's own instructions (some fifty of the
/// processor's). Hence the one long loop without functions of its own; numbers in place of letters (`a` is 97, `n` 110, `s` 115, `x`
/// 120; an upper-case letter is 32 less); several neighbours read as one number of at most 52 bits; the value as it was read for an
/// answer; and, ahead of all that is rare, a way of their own for the updates and settlements of activities of which nothing rare is
/// kept. What that way decides, the long one would decide as well.
///
/// A start may be sent once, and a record whose reply was lost asks again: the claim tells it from other records of the same
/// start. A record asks only while APNs has processed nothing of it, so its own verdict is repeated, with its timestamp and without a
/// change; every other record hears `unknown` or, once settled, `duplicate`, and changes nothing either. `unknown` is
/// written down by `settle`, which leaves the claim: the record that holds it may still be on its way to send. The repetition
/// is refused only for what has come since: an end, or a newer state of an activity that has a token and so lives without it.
///
/// The bucket is one number, the time at which it will be full if nothing more is drawn (the generic cell rate algorithm): a
/// draw moves it on by an interval, and it may not come to lie more than a full bucket's intervals ahead. A version
/// draws once, whatever is repeated; one that was demoted may draw when it is admitted again.
///
/// A device's hash holds `t u w`, each followed by `:` and the attributes type, and for all of them `s`: when the bucket of
/// starts will be full, and behind it, once something was, how many milliseconds were ever given back into it.
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

    /// Takes the calls of a batch apart, one after the other, and decides the usual ones. In `asks` stand the bits of a call and its pace,
    /// in `shape` the value's first seven bytes.
    private static let beginning: StaticString = """
        local byte, char, sub, call = string.byte, string.char, string.sub, redis.pcall
        local read, pack = struct.unpack, struct.pack
        -- 24 hours and more than the 1,000 seconds during which a send verdict does not set the expiry again
        local ACTIVITY_LIFETIME = '90000000'
        local UPDATES_SECONDS = 28800
        -- The value of an activity of which nothing is known.
        local UNKNOWN = '\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0n\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0'
        local MALFORMED = {err = 'ERR the value is not an activity of Causeway'}
        local operation = ARGV[1]

        if #operation > 1 then
          -- What all replies together may bring of held commands: one of any length, or several shorter ones.
          local HELD_BYTES = 131072
          -- A format that names no order of bytes means the server's own, nearly always this one, and takes fewer instructions.
          local order = pack('I2', 1) == '\\1\\0' and '' or '<'
          local CALL, RECORD, RECORD_AND_BUCKET = order .. 'c13I7I6', order .. 'I7I6I7I5', order .. 'I7I6I7I5I8I6'
          local SETTLED, FULL = order .. 'I6B', order .. 'I6'
          local keys, calls, position, heldBytes = KEYS, operation, 1, 0
          local count = #keys
          local answers = count
          local values = call('MGET', unpack(keys))
          if values.err then return values end
          -- Read once for all keys, and only if one needs it.
          local now, seconds, thousandBegan, sentMin, sentNow, drawnNow
          -- What the last update or end asked: most often the next asks the same.
          local asked, numberOfPace, isHigh, mayUseReserve
          local format = RECORD
          -- Between these lie the shapes of values of the last usual one's kind and length, if they live; and by its pace and its bucket
          -- those are sent at once that were sent by then, at priority 10 if the bucket is full by then.
          local shapeMin, shapeMax, usualSize = math.huge, 0, -1
          local usualPace, sentMax, fullMax, fullMaxOfReserve, nextFull
          -- The pace and the bucket that were read last.
          local paceNumber, paceBucket, pace, leastSpacing, interval, pushes, reserved

          for index = 1, count do
            local head, assignedAndAsks, digest, following = read(CALL, calls, position)
            position = following
            local asks = assignedAndAsks % 65536
            if asks ~= asked and asks ~= 8192 then
              if asks >= 16384 then
                -- A call before this one may have written it.
                assignedAndAsks, asks, values[index] = assignedAndAsks - 16384, asks - 16384, call('GET', keys[index])
              end
              asked, numberOfPace = asks, asks % 256
              local request = (asks - numberOfPace) / 256
              isHigh, mayUseReserve = request % 2 == 1, request % 4 >= 2
              format = isHigh and RECORD_AND_BUCKET or RECORD
              if not now and (asks < 8192 or asks % 1024 >= 768) then
                local time = call('TIME')
                seconds = time[1] + 0
                local microseconds = time[2] + 0
                now = seconds * 1000 + (microseconds - microseconds % 1000) / 1000
                thousandBegan = now - now % 1000000
                sentMin = thousandBegan * 256
                sentNow = pack('<I6BI6', 0, 97, now)
                drawnNow = pack('<I6BI6', 0, 225, now)
                shapeMin = math.huge
              end
            end
            local reply
            repeat
              local value = values[index] or UNKNOWN
              local size = #value
              if size ~= usualSize then
                if size < 50 then value = UNKNOWN end
                shapeMin = math.huge
              end
              local shape, shown, stateAndSent, newest, _, full = read(format, value)
              -- What comes most often: an update, or that it was accepted, of an activity of which nothing rare is kept, and no end.
              -- Letters less 64 have their last timestamp by itself: `w` (55) and `s` (51), which were not sent, mostly an earlier one.
              local letter = stateAndSent % 128
              if shape < shapeMin or shape >= shapeMax then
                local kindAndLength = (shape - shape % 4294967296) / 4294967296
                if kindAndLength < 1048576 and size == 50 + kindAndLength % 65536 then
                  shapeMin, usualSize, usualPace = kindAndLength * 4294967296 + (seconds or 0), size, nil
                  shapeMax = (kindAndLength + 1) * 4294967296
                end
                if shape < shapeMin or shape >= shapeMax then letter = 0 end
              end
              if letter == 97 or letter == 115 or letter == 119 or letter == 102 or letter == 98
                or (letter == 55 or letter == 51) and asks < 2048 and read('<I5', value, 40) <= newest
              then
                if asks < 2048 then
                  local assigned = assignedAndAsks - asks
                  if assigned > newest * 65536 then
                    if numberOfPace ~= usualPace then
                      local kind = (shape - shape % 281474976710656) / 281474976710656
                      local bucket = kind >= 8 and 11 or 1
                      if numberOfPace ~= paceNumber or bucket ~= paceBucket then
                        paceNumber, paceBucket, pace = numberOfPace, bucket, ARGV[numberOfPace]
                        leastSpacing, interval, pushes, reserved = read('<I3I3I2I2', pace, bucket)
                      end
                      usualPace = numberOfPace
                      sentMax = kind % 8 > 0 and (now - leastSpacing) * 256 + 255 or -1
                      fullMax = pushes > reserved and now + (pushes - 1 - reserved) * interval or -1
                      fullMaxOfReserve = now + (pushes - 1) * interval
                      nextFull = pack(FULL, now + interval)
                    end
                    if stateAndSent <= sentMax and stateAndSent >= sentMin and shown ~= digest then
                      if not isHigh then
                        reply = call('SETRANGE', keys[index], '7', sentNow .. head)
                      elseif full <= (mayUseReserve and fullMaxOfReserve or fullMax) then
                        reply = call('SETRANGE', keys[index], '7',
                          drawnNow .. head .. (full > now and pack(FULL, full + interval) or nextFull))
                      else
                        reply = call('SETRANGE', keys[index], '7', sentNow .. head)
                        if reply == size then
                          local left = full > now and pushes - (full - now) / interval or pushes
                          reply = assigned + 49152 + (left > 0 and left - left % 1 or 0)
                          answers = answers + 1
                          keys[answers] = value
                          break
                        end
                      end
                      if reply == size then reply = value else reply = tonumber(reply) and MALFORMED or reply end
                      break
                    end
                  elseif asks < 1024 and newest * 65536 > assigned then
                    reply = 'superseded'
                    break
                  end
                elseif asks == 8192 and sub(value, 21, 33) == head then
                  local written = call('SETRANGE', keys[index], '7', pack(SETTLED, digest, stateAndSent % 256 < 128 and 115 or 243))
                  reply = written == size and 0 or tonumber(written) and MALFORMED or written
                  break
                end
              end

              local key, known, request, settles = keys[index], values[index], (asks - asks % 256) / 256, asks >= 8192
              local token, tokenAt, form
              if settles then request = request - 32 end
              if request >= 16 then
                request = request - 16
                local tokenLength
                tokenLength, tokenAt, form = read('<I2I6B', calls, position)
                position = position + 9 + tokenLength
                token = sub(calls, position - tokenLength, position - 1)
              end
              if size < 50 then
                reply = known.err and known or MALFORMED
                break
              end
              local lifeEnd, length, kind = read('<I4I2B', value)
              local state, last, isNew = stateAndSent % 256, newest, not known
              local timestamp, sent = (assignedAndAsks - asks) / 65536, (stateAndSent - state) / 256
              local full, hasDrawn = read('<I6', value, 34), state >= 128
              state = state % 128
              if state < 64 then
                state, last = state + 64, read('<I5', value, 40)
              end
              local ended = state < 97
              if ended then state = state + 32 end
              letter = nil
              local limitAt, startAt, heldAt = 51 + length, nil, nil
              if kind >= 16 or size ~= 50 + length then
                startAt = kind % 32 >= 16 and limitAt + 7 or limitAt
                heldAt = startAt
                if kind >= 64 then heldAt = startAt + (kind % 64 >= 32 and 27 or 13) end
                local held = size + 1 - heldAt
                local holds = state >= 104 and (state <= 108 or state >= 120)
                if kind >= 128 or kind % 64 >= 32 and kind < 64 or (holds and held <= 30) or (not holds and held ~= 0) then
                  reply = MALFORMED
                  break
                end
              elseif state >= 104 and (state <= 108 or state >= 120) then
                reply = MALFORMED
                break
              end
              local same = sub(value, 21, 33) == head and state ~= 110

        """
}
