-- This file is a part of the script `admit` (admit.lua): the loop over a batch of updates, ends and settlements. Headings
-- begin with `-- #`:
--     short path
--     long path: reading the call; a settlement; reading the value; the token; the order of versions; whether the
--       state may be sent now; timestamp, priority and budget; writing
-- The long path decides with the functions of admit-values.lua, admit-settlements.lua and admit-updates.lua. A decision
-- about a usual update, or about its acceptance, is in the short path and in the long path. Change both.
-- Model/ActivityState+Admission.swift and its neighbours decide the same in Swift. Read them first.
--
-- Batches. Updates, ends and settlements come in batches, because calling a script costs nearly as much as an
-- admission. KEYS are the keys. ARGV[1] is one string with all calls (CallBatch.swift); the paces follow. One
-- MGET reads the values of all keys: at most 64 values. A value has some hundred bytes, or up to 128 KiB more
-- with a held command. Then the script decides and writes each key separately, and each key fails alone. The
-- script calls Redis with `pcall`, and checks lengths before it reads a value, because an error of Lua would
-- fail the whole batch. The clock is read once for all keys. If an earlier call may have the same key, a
-- bit of the later call says so, and the script reads the value again.
--
-- The reply to a batch is an array. First it has the replies in the order of the keys. Then, in the same order, it has
-- a value for each update and end whose reply is a number: the activity's value as it was before the command, up to the
-- end of the accepted alert. If the command brought a new token, this value has the new token instead. Last comes the
-- clock, if a reply may need it. If the array would have only one element, the reply is this element alone. The replies
-- of a batch have limited room for held commands. If a held command does not fit any more, the reply to an update or
-- end is `wait` (one millisecond), and the reply to a registration is `full`.
--
-- Speed. These are slow in Redis' Lua: a call of Redis, a call of a library's function, a new string, a conversion
-- between number and text, and each number that is read from a string. A new string takes eight instructions for each
-- of its bytes, because Lua hashes it. Each of Lua's own instructions takes about fifty of the processor's. A call of a
-- function of the script takes five of Lua's, and one more for each parameter and result. So usual updates and
-- settlements of activities without rare parts take a short path before everything else. It is inline in the loop, and
-- does not look for the parts of the value. The long path would decide the same in up to twice the time. States are
-- numbers, not letters. Several neighbouring fields are read as one number of at most 52 bits. The value as it was read
-- serves as a reply.
--
-- Redis makes the functions of a script again each time it runs the script, also those that are not called. So the
-- functions of the long path are inside two others, `makeSettle` and `makeUpdateFunctions`. The loop calls these when the
-- first call of a batch needs them. A function takes longer to make if it uses variables from outside, so most use none.

if #ARGV[1] >= @CALL_BYTES@ then
  -- The stored numbers are little-endian. A format without a byte order uses the server's own order and takes
  -- fewer instructions. Nearly every server is little-endian.
  local order = pack('I2', 1) == '\1\0' and '' or '<'
  local CALL, RECORD, RECORD_AND_BUCKET = order .. 'c13I7I6', order .. 'I7I6I7I5', order .. 'I7I6I7I5I8I6'
  local SETTLED, FULL = order .. 'I6B', order .. 'I6'
  -- `keys` becomes the array of replies: each call's reply replaces its key.
  local keys, calls, position = KEYS, ARGV[1], 1
  local count = #keys
  local replyCount = count
  local values = call('MGET', unpack(keys))
  if values.err then return values end
  -- The clock. It is read once for all keys, and only if one of them needs it.
  local now, seconds, thousandBegan, sentMin, sentNow, drawnNow
  -- Byte 14 of a call has the number of the pace's argument, and three bits that few calls set: `isTooOld`, `isReread`
  -- and `endsNewerLife` (CallBits). `rareBits` are these bits in the last call that sets any of them, and `rareIndex`
  -- is the index of this call. Any other call has another index, so no call has to reset the two variables.
  local rareIndex, rareBits
  -- What the last call asked for. Most often the next call asks for the same, so the script computes these
  -- variables only if it asks for something else. The most frequent settlement (an acceptance without further
  -- parts) does not change them.
  local lastRequestAndPace, paceNumber, isHigh, mayUseReserve
  local format = RECORD
  -- `prefix` is a value's first seven bytes as one number:
  --     the last second in which the activity takes updates
  --     + @LENGTH_FACTOR@ * the length of its token, with two flags
  --     + @FORM_FACTOR@ * the token's form (TokenForm), with more flags
  -- A value is usual if it ends with the token or with the accepted alert, and its activity still takes updates. Other
  -- values take the long path. If `prefix` is at least `prefixMin` and below `prefixMax`, the value is usual: it has
  -- the length, form and flags of the last usual value. If the call also has the pace `usualPace`, these numbers of the
  -- last usual value decide. `stateAndSent` is the state's byte + @SENT_FACTOR@ * the time of the last send verdict.
  --     sentMax             the spacing is over if `stateAndSent` is at most this
  --     fullMax             the push gets priority 10 if the bucket will be full at this time or earlier
  --     fullMaxOfReserve    the same as `fullMax`, for a command that may use the reserve
  --     nextFull            the bytes of the time at which a full bucket will be full again after a draw
  local prefixMin, prefixMax, usualSize = math.huge, 0, -1
  local usualPace, sentMax, fullMax, fullMaxOfReserve, nextFull
  -- The pace that was read last, because most often the next call has the same: the number of its argument, where its
  -- bucket begins, its bytes, and the numbers in them.
  local lastPaceNumber, lastPaceBucket, pace, leastSpacing, interval, pushes, reserved
  -- The functions of the long path; nil until a call of this batch needs them.
  local settle, takeToken, findRefusal, findSpacing, decide, assign, makeRecord, store

  for index = 1, count do
    -- A call's seven bytes after its version are one number, so that one `read` is enough:
    --     timestampAndRequest = timestamp * @TIMESTAMP_FACTOR@ + requestAndPace
    --     requestAndPace      = request * @REQUEST_FACTOR@ + the bits in `rareBits` + paceNumber
    -- `request` is byte 15 of the call (CallBits): the lowest bit asks for priority 10, the next one permits the use of
    -- the reserve. The script tests the other bits by their names, such as @MAY_REPLACE_HELD_ALERT@.
    local version, timestampAndRequest, digest, following = read(CALL, calls, position)
    position = following
    local requestAndPace = timestampAndRequest % @TIMESTAMP_FACTOR@
    if requestAndPace ~= lastRequestAndPace and requestAndPace ~= @IS_SETTLEMENT@ * @REQUEST_FACTOR@ then
      if requestAndPace % @REQUEST_FACTOR@ >= @ENDS_NEWER_LIFE@ then
        rareIndex, rareBits = index, requestAndPace % @REQUEST_FACTOR@ - requestAndPace % @ENDS_NEWER_LIFE@
        timestampAndRequest, requestAndPace = timestampAndRequest - rareBits, requestAndPace - rareBits
      end
      if requestAndPace >= @KEY_REPEATS@ * @REQUEST_FACTOR@ then
        -- An earlier call of this batch may have written the value, so it is read again.
        values[index] = call('GET', keys[index])
        timestampAndRequest = timestampAndRequest - @KEY_REPEATS@ * @REQUEST_FACTOR@
        requestAndPace = requestAndPace - @KEY_REPEATS@ * @REQUEST_FACTOR@
      end
      lastRequestAndPace, paceNumber = requestAndPace, requestAndPace % @REQUEST_FACTOR@
      local request = (requestAndPace - paceNumber) / @REQUEST_FACTOR@
      isHigh, mayUseReserve = request % 2 == 1, request % 4 >= 2
      format = isHigh and RECORD_AND_BUCKET or RECORD
      -- An update, an end and a 429 need the clock.
      if not now and (request % @ALERT_FOLLOWS@ < @IS_SETTLEMENT@ or request % @MAY_REPLACE_HELD_ALERT@ >= @THROTTLED@) then
        local time = call('TIME')
        seconds = time[1] + 0
        local microseconds = time[2] + 0
        now = seconds * 1000 + (microseconds - microseconds % 1000) / 1000
        thousandBegan = now - now % 1000000
        sentMin = thousandBegan * @SENT_FACTOR@
        sentNow = pack('<I6BI6', 0, @SENDING@, now)
        drawnNow = pack('<I6BI6', 0, @SENDING@ + @HAS_DRAWN@, now)
        prefixMin = math.huge
      end
    end
    local reply
    repeat
      local value = values[index] or UNKNOWN
      local size = #value
      if size ~= usualSize then
        if size < @RECORD_BYTES@ then value = UNKNOWN end
        prefixMin = math.huge
      end
      local prefix, shown, stateAndSent, newest, _, full = read(format, value)
      -- # Short path
      -- For the most frequent calls, an update or the settlement of an accepted update, if the value is usual (see
      -- `prefix`). If the stored state is below 64, the last assigned timestamp is not the newest version's own, but in
      -- bytes 40 to 44. Such a value takes the long path, except for an update in the state `w` (stored as 55) or `s`
      -- (51). These two are frequent: a version that was not sent got no timestamp, so bytes 40 to 44 keep that of an
      -- earlier version.
      local presentState = stateAndSent % @HAS_DRAWN@
      if prefix < prefixMin or prefix >= prefixMax then
        local lengthAndForm = (prefix - prefix % @LENGTH_FACTOR@) / @LENGTH_FACTOR@
        local bytes = lengthAndForm % (@FORM_FACTOR@ / @LENGTH_FACTOR@)
        if bytes >= @ACCEPTED_ALERT@ then bytes = bytes - @ACCEPTED_ALERT@ + @VERSION_BYTES@ end
        if lengthAndForm < @HAS_THROTTLE@ * (@FORM_FACTOR@ / @LENGTH_FACTOR@) and size == @RECORD_BYTES@ + bytes then
          prefixMin, usualSize, usualPace = lengthAndForm * @LENGTH_FACTOR@ + (seconds or 0), size, nil
          prefixMax = (lengthAndForm + 1) * @LENGTH_FACTOR@
        end
        -- If the value is not usual, the call takes the long path: no state is 0, so none of the tests below holds.
        if prefix < prefixMin or prefix >= prefixMax then presentState = 0 end
      end
      if presentState == @SENDING@ or presentState == @SETTLED@ or presentState == @WAITING@
        or presentState == @NOT_SHOWN@ or presentState == @START_SENDING@
        or (presentState == @WAITING@ - @OWN_TIMESTAMP@ or presentState == @SETTLED@ - @OWN_TIMESTAMP@)
          and requestAndPace < @IS_END@ * @REQUEST_FACTOR@ and read('<I5', value, @ASSIGNED@) <= newest
      then
        if requestAndPace < @IS_END@ * @REQUEST_FACTOR@ then
          local assigned = timestampAndRequest - requestAndPace
          if assigned > newest * @TIMESTAMP_FACTOR@ then
            if paceNumber ~= usualPace then
              local formAndFlags = (prefix - prefix % @FORM_FACTOR@) / @FORM_FACTOR@
              local bucket = formAndFlags >= @ALLOWS_FREQUENT@ and 11 or 1
              if paceNumber ~= lastPaceNumber or bucket ~= lastPaceBucket then
                lastPaceNumber, lastPaceBucket, pace = paceNumber, bucket, ARGV[paceNumber]
                leastSpacing, interval, pushes, reserved = read('<I3I3I2I2', pace, bucket)
              end
              usualPace = paceNumber
              sentMax = formAndFlags % @ALLOWS_FREQUENT@ > 0 and (now - leastSpacing) * @SENT_FACTOR@ + (@SENT_FACTOR@ - 1) or -1
              fullMax = pushes > reserved and now + (pushes - 1 - reserved) * interval or -1
              fullMaxOfReserve = now + (pushes - 1) * interval
              nextFull = pack(FULL, now + interval)
            end
            if stateAndSent <= sentMax and stateAndSent >= sentMin and shown ~= digest then
              if not isHigh then
                reply = call('SETRANGE', keys[index], '7', sentNow .. version)
              elseif full <= (mayUseReserve and fullMaxOfReserve or fullMax) then
                reply = call('SETRANGE', keys[index], '7',
                  drawnNow .. version .. (full > now and pack(FULL, full + interval) or nextFull))
              else
                reply = call('SETRANGE', keys[index], '7', sentNow .. version)
                if reply == size then
                  local left = full > now and pushes - (full - now) / interval or pushes
                  reply = assigned + @PRIORITY_DEMOTED@ * @PRIORITY_FACTOR@ + (left > 0 and left - left % 1 or 0)
                  replyCount = replyCount + 1
                  keys[replyCount] = value
                  break
                end
              end
              if reply == size then reply = value else reply = tonumber(reply) and MALFORMED or reply end
              break
            end
          elseif requestAndPace < @MAY_REPLACE_HELD_ALERT@ * @REQUEST_FACTOR@ and newest * @TIMESTAMP_FACTOR@ > assigned then
            reply = 'superseded'
            break
          end
        elseif requestAndPace == @IS_SETTLEMENT@ * @REQUEST_FACTOR@ and sub(value, @VERSION@, @FULL_AT@ - 1) == version then
          local written = call('SETRANGE', keys[index], '7',
            pack(SETTLED, digest, stateAndSent % @SENT_FACTOR@ < @HAS_DRAWN@ and @SETTLED@ or @SETTLED@ + @HAS_DRAWN@))
          reply = written == size and 0 or tonumber(written) and MALFORMED or written
          break
        end
      end

      -- # Long path: reading the call
      local key, known = keys[index], values[index]
      local request = (requestAndPace - requestAndPace % @REQUEST_FACTOR@) / @REQUEST_FACTOR@
      local rare = rareIndex == index and rareBits or 0
      local token, tokenAt, form, alert
      if request >= @ALERT_FOLLOWS@ then request, alert = request - @ALERT_FOLLOWS@, '' end
      local settles = request >= @IS_SETTLEMENT@
      if settles then request = request - @IS_SETTLEMENT@ end
      if request >= @TOKEN_FOLLOWS@ then
        request = request - @TOKEN_FOLLOWS@
        local tokenLength
        tokenLength, tokenAt, form = read('<I2I6B', calls, position)
        position = position + 9 + tokenLength
        token = sub(calls, position - tokenLength, position - 1)
      end
      if alert then
        alert = sub(calls, position, position + @VERSION_BYTES@ - 1)
        position = position + @VERSION_BYTES@
      end
      if size < @RECORD_BYTES@ then
        reply = known.err and known or MALFORMED
        break
      end

      -- # Long path: a settlement
      if settles then
        reply = 0
        if known then
          settle = settle or makeSettle(MALFORMED, isNewer, findParts, joinParts)
          reply = settle(key, value, shown, stateAndSent, newest, version, digest, request, ARGV[requestAndPace % @REQUEST_FACTOR@],
            token, tokenAt, form, alert, now)
        end
        break
      end

      -- # Long path: reading the value
      -- From here on the call is an update or an end.
      if not decide then
        takeToken, findRefusal, findSpacing, decide, assign, makeRecord, store = makeUpdateFunctions(isNewer)
      end
      local lifeEnd, tokenLength, flags = read('<I4I2B', value)
      local stateByte, last = stateAndSent % @SENT_FACTOR@, newest
      local state, sent = stateByte % @HAS_DRAWN@, (stateAndSent - stateByte) / @SENT_FACTOR@
      if state < @OWN_TIMESTAMP@ then state, last = state + @OWN_TIMESTAMP@, read('<I5', value, @ASSIGNED@) end
      local ended = state < @SENDING@
      if ended then state = state + @UPPER_CASE@ end
      local alertAt, audiencesAt, throttleAt, startAt, heldAt, retired, audiences, formerAudiences =
        findParts(value, tokenLength, flags, state)
      if not alertAt then
        reply = MALFORMED
        break
      end
      if audiences then
        if formerAudiences ~= '' then
          reply = 'departures=' .. sub(value, @REGISTERED_AT@, @TOKEN@ - 1) .. formerAudiences
          break
        end
        -- A push to an audience may have replaced the shown state, so no digest may equal it.
        shown = -1
      end

      -- # Long path: the token
      -- A token that the value already has keeps its registration time.
      local registers, hasToken = false, flags % @ALLOWS_FREQUENT@ > 0
      if token and (form ~= flags % @ALLOWS_FREQUENT@ or sub(value, @TOKEN@, alertAt - 1) ~= token) then
        local changed, raised = takeToken(value, last, tokenLength, flags, alertAt, retired, token, tokenAt, form,
          rare % @IS_TOO_OLD@ >= @IS_REREAD@ and seconds)
        if changed then
          local grown = #changed - size
          value, last, registers, hasToken = changed, raised, true, true
          alertAt, audiencesAt = alertAt + grown, audiencesAt + grown
          throttleAt, startAt, heldAt = throttleAt + grown, startAt + grown, heldAt + grown
        end
      end

      -- # Long path: the order of versions
      local timestamp, newestVersion = (timestampAndRequest - requestAndPace) / @TIMESTAMP_FACTOR@, sub(value, @VERSION@, @FULL_AT@ - 1)
      local isEnd, mayReplaceHeldAlert = request >= @IS_END@, request % @IS_END@ >= @MAY_REPLACE_HELD_ALERT@
      local same = version == newestVersion and state ~= @NO_VERSION@
      local newer = timestamp > newest or state == @NO_VERSION@ or timestamp == newest and not same and isNewer(version, newestVersion)
      if ended or not newer then
        reply = findRefusal(version, isEnd, mayReplaceHeldAlert, same, newer, state, ended, sub(value, startAt, heldAt - 1),
          rare % @IS_REREAD@ >= @ENDS_NEWER_LIFE@)
        if reply and not registers then break end
        -- An update and an end are two commands, even if they have the same version.
        same = same and isEnd == ended
      end
      if lifeEnd == 0 then
        lifeEnd = seconds + UPDATES_SECONDS
        value = pack('<I4', lifeEnd) .. sub(value, 5)
      end

      -- # Long path: whether the state may be sent now
      local nextState, drops, wait
      if not reply then
        if hasToken then
          local bucket = flags % @HAS_THROTTLE@ >= @ALLOWS_FREQUENT@ and 11 or 1
          if paceNumber ~= lastPaceNumber or bucket ~= lastPaceBucket then
            lastPaceNumber, lastPaceBucket, pace, usualPace = paceNumber, bucket, ARGV[paceNumber], nil
            leastSpacing, interval, pushes, reserved = read('<I3I3I2I2', pace, bucket)
          end
          local since, spacing = now - sent, leastSpacing
          if throttleAt < startAt then spacing = findSpacing(spacing, pace, sub(value, throttleAt, startAt - 1), now) end
          wait = since >= 0 and since < spacing and spacing - since or 0
        end
        local isAlertAccepted = alert and alertAt < audiencesAt and not isNewer(alert, sub(value, alertAt, audiencesAt - 1))
        reply, nextState, drops = decide(value, heldAt, state, same, mayReplaceHeldAlert, rare >= @IS_TOO_OLD@,
          not isEnd and seconds > lifeEnd, isAlertAccepted, not isEnd and shown == digest, wait)
      end

      -- # Long path: timestamp, priority and budget
      local sends, hasDrawn = nextState and not reply, same and stateByte >= @HAS_DRAWN@
      local record, fullAfter, formerValue
      if sends then
        reply, last, hasDrawn, fullAfter = assign(timestamp, last, state, same, request, read('<I6', value, @FULL_AT@), hasDrawn,
          interval, pushes, reserved, now)
        formerValue = audiencesAt <= #value and sub(value, 1, audiencesAt - 1) or value
      end

      -- # Long path: writing
      local failure
      if nextState then
        record = makeRecord(value, version, timestamp, last, nextState, isEnd, hasDrawn, fullAfter, sends and now)
      end
      if sends and not registers and not drops and state ~= @NO_VERSION@ and sent >= thousandBegan and sent < thousandBegan + 1000000 then
        local written = call('SETRANGE', key, '7', record)
        if written ~= size then failure = tonumber(written) and MALFORMED or written end
      elseif nextState or registers then
        -- Writes the whole value with a new expiry. The first send verdict in each 1,000 seconds (from `thousandBegan`
        -- on) does so too, although the SETRANGE above is faster: SETRANGE keeps the old expiry. The expiry has an hour
        -- in addition, so renewing it at this interval is enough.
        failure = store(key, value, not known, record, drops and heldAt)
      end
      if failure then
        reply = failure
      elseif sends then
        replyCount = replyCount + 1
        keys[replyCount] = formerValue
      end
    until true
    keys[index] = reply
  end
  if sentMax then
    replyCount = replyCount + 1
    keys[replyCount] = now
  end
  if replyCount == 1 then return keys[1] end
  return keys
end
