-- This file is a part of the script `admit` (admit.lua): batches of updates, ends and settlements. Headings begin with
-- `-- #`:
--     short path
--     long path: reading the value; settlements; the token of an update or end; the order of versions; whether the
--       state may be sent now; timestamp, priority and budget; writing
-- A decision about a usual update, or about its acceptance, is in the short path and in the long path. Change both.
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
-- The reply to a batch is an array. First it has the replies in the order of the keys. Then, in the same order, it
-- has the values of those updates and ends whose reply is a number, up to the end of the accepted alert: as they
-- were read, or already with the new token that the command brought. Last comes the clock, if a reply may need it.
-- If the array would have only one element, the reply is this element alone. The replies of a batch have limited
-- room for held commands. If a held command does not fit any more, the reply to an update or end is `wait` (one
-- millisecond), and the reply to a registration is `full`.
--
-- Speed. These are slow in Redis' Lua: a call of Redis, a call of a function, a new string, a conversion between
-- number and text, and each number that is read from a string. A new string takes eight instructions for each of its
-- bytes, because Lua hashes it. Each of Lua's own instructions takes about fifty of the processor's. So updates, ends
-- and settlements have one long loop without functions of its own. States are numbers, not letters. Several
-- neighbouring fields are read as one number of at most 52 bits. The value as it was read serves as a reply. Usual
-- updates and settlements of activities without rare parts take a short path before everything else. The long path
-- would decide the same.
--
-- Budget. A bucket is one number, the time at which it will be full if nothing more is drawn (the generic cell
-- rate algorithm). A draw moves that time by one interval. The time may not be further ahead than the intervals of
-- a full bucket. A version draws once, however often it is repeated. A version that asked for priority 10 and got
-- 5 may draw when it is admitted again. The draw of an update or end is not refunded if the push fails, because
-- the phone may have counted the push. The draw of a start that was not sent is refunded (settle.lua).

if #ARGV[1] >= @CALL_BYTES@ then
  -- The maximum length of all held commands in the replies of a batch together. With more, the reply would exceed the
  -- memory that the worker has for one reply. A held command that is the first in its batch always fits.
  local HELD_BYTES = @REPLY_STRING_BYTES_MAX@
  -- The stored numbers are little-endian. A format without a byte order uses the server's own order and takes
  -- fewer instructions. Nearly every server is little-endian.
  local order = pack('I2', 1) == '\1\0' and '' or '<'
  local CALL, RECORD, RECORD_AND_BUCKET = order .. 'c13I7I6', order .. 'I7I6I7I5', order .. 'I7I6I7I5I8I6'
  local SETTLED, FULL = order .. 'I6B', order .. 'I6'
  local keys, calls, position, heldBytes = KEYS, ARGV[1], 1, 0
  local count = #keys
  local replyCount = count
  local values = call('MGET', unpack(keys))
  if values.err then return values end
  -- The clock. It is read once for all keys, and only if one of them needs it.
  local now, seconds, thousandBegan, sentMin, sentNow, drawnNow
  -- The index of the last call whose command is older than the longest time for which the system shows an activity. It
  -- is an index and not a flag, so that no other call has to reset it.
  local tooOldIndex
  -- The index of the last call whose command a worker read again because the server lost data.
  local rereadIndex
  -- The index of the last end that takes effect even if the newest start is newer than the end.
  local newerLifeIndex
  -- What the last call asked for. Most often the next call asks for the same, so the script computes these
  -- variables only if it asks for something else. The most frequent settlement (an acceptance without further
  -- parts) does not change them.
  local lastRequestAndPace, paceNumber, isHigh, mayUseReserve
  local format = RECORD
  -- `prefix` is a value's first seven bytes as one number:
  --     the last second in which the activity takes updates
  --     + @LENGTH_FACTOR@ * the length of its token, with two flags
  --     + @FORM_FACTOR@ * the token's form, with more flags
  -- If `prefix` is between `prefixMin` and `prefixMax`, the value is usual: it has the length, form and flags of the
  -- last usual value, and its activity still takes updates. If its pace and bucket are also those of the last usual
  -- value, two comparisons decide. The command may be sent at once if the last send verdict was not after `sentMax`,
  -- and gets priority 10 if the bucket will be full not after `fullMax`.
  local prefixMin, prefixMax, usualSize = math.huge, 0, -1
  local usualPace, sentMax, fullMax, fullMaxOfReserve, nextFull
  -- Which pace and bucket were read last, and their numbers.
  local lastPaceNumber, lastPaceBucket, pace, leastSpacing, interval, pushes, reserved

  for index = 1, count do
    -- A call's seven bytes after its version are one number, so that one `read` is enough:
    --     timestampAndRequest = timestamp * @TIMESTAMP_FACTOR@ + requestAndPace
    --     requestAndPace      = request * @REQUEST_FACTOR@ + flags of the pace's byte + paceNumber
    -- `request` has the bits of CallBits: 1 priority 10, 2 the reserve may be used, then those with names here.
    local version, timestampAndRequest, digest, following = read(CALL, calls, position)
    position = following
    local requestAndPace = timestampAndRequest % @TIMESTAMP_FACTOR@
    if requestAndPace ~= lastRequestAndPace and requestAndPace ~= @IS_SETTLEMENT@ * @REQUEST_FACTOR@ then
      if requestAndPace % @REQUEST_FACTOR@ >= @ENDS_NEWER_LIFE@ then
        if requestAndPace % @REQUEST_FACTOR@ >= @IS_TOO_OLD@ then
          tooOldIndex = index
          timestampAndRequest, requestAndPace = timestampAndRequest - @IS_TOO_OLD@, requestAndPace - @IS_TOO_OLD@
        end
        if requestAndPace % @REQUEST_FACTOR@ >= @IS_REREAD@ then
          rereadIndex = index
          timestampAndRequest, requestAndPace = timestampAndRequest - @IS_REREAD@, requestAndPace - @IS_REREAD@
        end
        if requestAndPace % @REQUEST_FACTOR@ >= @ENDS_NEWER_LIFE@ then
          newerLifeIndex = index
          timestampAndRequest, requestAndPace = timestampAndRequest - @ENDS_NEWER_LIFE@, requestAndPace - @ENDS_NEWER_LIFE@
        end
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
      if not now and (request % @ALERT_FOLLOWS@ < @IS_SETTLEMENT@ or request % @CARRIES_ALERT@ >= @THROTTLED@) then
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
      -- The most frequent case: an update or its acceptance, no end, of an activity without rare parts. A
      -- state below 64 says that the last assigned timestamp is in bytes 40 to 44. This is usual for `w`
      -- (stored as 55) and `s` (51) if their version was not sent: the last assigned timestamp is then that of
      -- an earlier version.
      local presentState = stateAndSent % @HAS_DRAWN@
      if prefix < prefixMin or prefix >= prefixMax then
        local lengthAndForm = (prefix - prefix % @LENGTH_FACTOR@) / @LENGTH_FACTOR@
        local bytes = lengthAndForm % (@FORM_FACTOR@ / @LENGTH_FACTOR@)
        if bytes >= @ACCEPTED_ALERT@ then bytes = bytes - @ACCEPTED_ALERT@ + @VERSION_BYTES@ end
        if lengthAndForm < @HAS_THROTTLE@ * (@FORM_FACTOR@ / @LENGTH_FACTOR@) and size == @RECORD_BYTES@ + bytes then
          prefixMin, usualSize, usualPace = lengthAndForm * @LENGTH_FACTOR@ + (seconds or 0), size, nil
          prefixMax = (lengthAndForm + 1) * @LENGTH_FACTOR@
        end
        -- A value that is not usual takes the long path: 0 is none of the states below.
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
          elseif requestAndPace < @CARRIES_ALERT@ * @REQUEST_FACTOR@ and newest * @TIMESTAMP_FACTOR@ > assigned then
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

      -- # Long path: reading the value
      local key, known, request = keys[index], values[index], (requestAndPace - requestAndPace % @REQUEST_FACTOR@) / @REQUEST_FACTOR@
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
      local lifeEnd, length, formAndFlags = read('<I4I2B', value)
      local state, last, isNew = stateAndSent % @SENT_FACTOR@, newest, not known
      local timestamp, sent = (timestampAndRequest - requestAndPace) / @TIMESTAMP_FACTOR@, (stateAndSent - state) / @SENT_FACTOR@
      local full, hasDrawn = read('<I6', value, @FULL_AT@), state >= @HAS_DRAWN@
      state = state % @HAS_DRAWN@
      if state < @OWN_TIMESTAMP@ then
        state, last = state + @OWN_TIMESTAMP@, read('<I5', value, @ASSIGNED@)
      end
      local ended = state < @SENDING@
      if ended then state = state + @UPPER_CASE@ end
      local nextState
      local acceptedLength, retired, audiences, leftAudiences = 0, ''
      if length >= @AUDIENCES@ then
        if length >= @ACCEPTED_ALERT@ then length, acceptedLength = length - @ACCEPTED_ALERT@, @VERSION_BYTES@ end
        if length >= @AUDIENCES@ then length, audiences = length - @AUDIENCES@, 0 end
      end
      local acceptedAt = @TOKEN@ + length
      local acceptedEnd = acceptedAt + acceptedLength
      local throttleAt, startAt, heldAt, startBytes = acceptedEnd, nil, nil, 0
      if audiences then
        audiences, leftAudiences = byte(value, acceptedEnd, acceptedEnd + 1)
        if not leftAudiences then
          reply = MALFORMED
          break
        end
        throttleAt = acceptedEnd + 2 + 8 * (audiences + leftAudiences)
        audiences, leftAudiences =
          sub(value, acceptedEnd + 2, acceptedEnd + 1 + 8 * audiences), sub(value, throttleAt - 8 * leftAudiences, throttleAt - 1)
      end
      if formAndFlags >= @HAS_RETIRED_TOKEN@ then
        retired = sub(value, throttleAt, throttleAt + @RETIRED_BYTES@ - 1)
        formAndFlags, throttleAt = formAndFlags - @HAS_RETIRED_TOKEN@, throttleAt + @RETIRED_BYTES@
      end
      if formAndFlags >= @HAS_THROTTLE@ or size ~= @RECORD_BYTES@ + length + acceptedLength or size < throttleAt - 1 then
        startAt = formAndFlags % @HAS_CLAIM@ >= @HAS_THROTTLE@ and throttleAt + 7 or throttleAt
        heldAt = startAt
        if formAndFlags >= @HAS_START@ then
          startBytes = formAndFlags % @HAS_START@ >= @HAS_CLAIM@ and 27 or 13
          heldAt = startAt + startBytes
        end
        local held = size + 1 - heldAt
        local holds = state >= @HELD@ and (state <= @SENDING_HELD_ALERT@ or state >= @WAITING_OLDER_ALERT@)
        if formAndFlags % @HAS_START@ >= @HAS_CLAIM@ and formAndFlags < @HAS_START@ or (holds and held <= 30) or (not holds and held ~= 0)
        then
          reply = MALFORMED
          break
        end
      elseif state >= @HELD@ and (state <= @SENDING_HELD_ALERT@ or state >= @WAITING_OLDER_ALERT@) then
        reply = MALFORMED
        break
      end
      if audiences and not settles then
        if leftAudiences ~= '' then
          reply = 'departures=' .. sub(value, @REGISTERED_AT@, @TOKEN@ - 1) .. leftAudiences
          break
        end
        digest = -1
      end
      -- Whether APNs has already accepted this alert or a newer one.
      local isAlertAccepted = false
      if alert and acceptedLength > 0 then
        local time, low, high = read('<I5I4I4', alert)
        local acceptedTime, acceptedLow, acceptedHigh = read('<I5I4I4', value, acceptedAt)
        isAlertAccepted = acceptedTime > time
          or acceptedTime == time and (acceptedHigh > high or acceptedHigh == high and acceptedLow >= low)
      end
      local same = sub(value, @VERSION@, @FULL_AT@ - 1) == version and state ~= @NO_VERSION@
      -- # Long path: settlements
      -- A settlement says how a version ended, that APNs throttles the activity's token (429), or that a token
      -- must be retired (R17). It changes only existing values and never creates an activity. The reply is 1
      -- if the token was retired, else 0. Acceptance overrides the other outcomes, even if it arrives first.
      -- The reason: one worker may have sent a start while another settles this start as unknown.
      -- Each push doubles the spacing at most once, even if workers report its 429 several times. So the
      -- spacing is doubled only if a send verdict came after the last recorded 429, or if the clock was set
      -- back.
      -- The script raises the registration time of a retired token by a millisecond, so that a repeated
      -- delivery of its registration is stale. It keeps the token's fingerprint, so that a command with this
      -- token does not bring it back.
      if settles then
        reply = 0
        if isNew then break end
        local digestBefore, frees = shown, false
        nextState = state
        -- The new contents of the parts about a 429 and about a start; nil: the part does not change.
        local throttle, begun
        if request == @THROTTLED@ then
          if lifeEnd > 0 then
            local numbers = ARGV[requestAndPace % @REQUEST_FACTOR@]
            local spacing, longest, recovery = read('<I3', numbers), read('<I3I3', numbers, 21)
            local isThrottled, doublings, throttledAt = formAndFlags % @HAS_CLAIM@ >= @HAS_THROTTLE@, 0, 0
            if isThrottled then doublings, throttledAt = read('<BI6', value, throttleAt) end
            if not isThrottled or sent > throttledAt or now < throttledAt then
              doublings = now < throttledAt and 0 or math.max(doublings - math.floor((now - throttledAt) / recovery), 0)
              if spacing * 2 ^ doublings < longest then doublings = math.min(doublings + 1, @DOUBLINGS_MAX@) end
              throttle = pack('<BI6', doublings, now)
            end
          end
        elseif request < @THROTTLED@ then
          if same then
            frees = state >= @HELD@ and (state <= @SENDING_HELD_ALERT@ or state >= @WAITING_OLDER_ALERT@)
            if request == @ACCEPTED@ then
              nextState, shown = @SETTLED@, digest
            elseif state ~= @SETTLED@ and state ~= @NOT_SHOWN@ then
              nextState = request == @SETTLED_NOT_SHOWN@ and @NOT_SHOWN@ or @SETTLED@
            end
          end
          if formAndFlags % @HAS_START@ >= @HAS_CLAIM@ then
            if sub(value, startAt, startAt + 12) == version then
              begun = request == @ACCEPTED@ and version or version .. 's' .. sub(value, startAt + 14, startAt + 26)
            end
          end
        end
        local registeredAt
        if token and form == formAndFlags % @ALLOWS_FREQUENT@ and sub(value, @TOKEN@, acceptedAt - 1) == token then
          registeredAt = read('<I6', value, @REGISTERED_AT@)
          if registeredAt < tokenAt then reply = 1 end
        end
        local rings = alert and not isAlertAccepted and request == @ACCEPTED@
        local written
        -- Whether the activity leaves its audiences because its end was accepted. Then the script raises the
        -- registration's time by a millisecond. So if the registration is read again, it is stale, and does not bring
        -- the activity back into the audiences.
        local leavesAtEnd = audiences and audiences ~= '' and request == @ACCEPTED@ and same and ended and reply == 0
        if throttle or begun or frees or rings or reply == 1 or leavesAtEnd then
          registeredAt = registeredAt or read('<I6', value, @REGISTERED_AT@)
          if reply == 1 then
            retired = sub(redis.sha1hex(token .. char(form)), 1, @RETIRED_BYTES@)
            token, registeredAt, formAndFlags = '', math.min(registeredAt + 1, @TIME_MAX@), formAndFlags - formAndFlags % @ALLOWS_FREQUENT@
          else
            token = sub(value, @TOKEN@, acceptedAt - 1)
            if leavesAtEnd then registeredAt = math.min(registeredAt + 1, @TIME_MAX@) end
          end
          local acceptedAlert = rings and alert or sub(value, acceptedAt, acceptedEnd - 1)
          local follow = acceptedAlert ~= '' and @ACCEPTED_ALERT@ or 0
          if audiences then
            if reply == 1 or leavesAtEnd then audiences, leftAudiences, shown = '', leftAudiences .. audiences, 0 end
            follow, acceptedAlert = follow + @AUDIENCES@,
              acceptedAlert .. char(#audiences / 8, #leftAudiences / 8) .. audiences .. leftAudiences
          end
          if retired ~= '' then formAndFlags = formAndFlags + @HAS_RETIRED_TOKEN@ end
          if throttle and formAndFlags % @HAS_CLAIM@ < @HAS_THROTTLE@ then formAndFlags = formAndFlags + @HAS_THROTTLE@ end
          if begun and #begun == 13 then formAndFlags = formAndFlags - @HAS_CLAIM@ end
          if not startAt then startAt, heldAt = throttleAt, throttleAt end
          throttle = throttle or sub(value, throttleAt, startAt - 1)
          begun = begun or sub(value, startAt, heldAt - 1)
          if ended then nextState = nextState - @UPPER_CASE@ end
          if last ~= newest then nextState = nextState - @OWN_TIMESTAMP@ end
          if hasDrawn then nextState = nextState + @HAS_DRAWN@ end
          value = pack('<I4I2BI6BI6', lifeEnd, #token + follow, formAndFlags, shown, nextState, sent)
            .. sub(value, @VERSION@, @REGISTERED_AT@ - 1) .. pack('<I6', registeredAt)
            .. token .. acceptedAlert .. retired .. throttle .. begun .. (frees and '' or sub(value, heldAt))
          written = call('SET', key, value, 'PX', ACTIVITY_LIFETIME)
          if written.err then reply = written end
        elseif nextState ~= state or shown ~= digestBefore then
          if ended then nextState = nextState - @UPPER_CASE@ end
          if last ~= newest then nextState = nextState - @OWN_TIMESTAMP@ end
          if hasDrawn then nextState = nextState + @HAS_DRAWN@ end
          written = call('SETRANGE', key, '7', pack('<I6B', shown, nextState))
          if written ~= #value then reply = tonumber(written) and MALFORMED or written end
        end
        if leftAudiences and leftAudiences ~= '' and request ~= @THROTTLED@ and (reply == 0 or reply == 1) then
          reply = reply .. '=' .. sub(value, @REGISTERED_AT@, @TOKEN@ - 1) .. leftAudiences
        end
        break
      end

      -- # Long path: the token of an update or end
      -- From here on the call is an update or an end. If the command brings the token that Redis already has,
      -- the token keeps its registration time.
      local registers, whole, isEnd = false, isNew or state == @NO_VERSION@, request >= @IS_END@
      if isEnd then request = request - @IS_END@ end
      if token and tokenAt >= read('<I6', value, @REGISTERED_AT@)
        and (form ~= formAndFlags % @ALLOWS_FREQUENT@ or sub(value, @TOKEN@, acceptedAt - 1) ~= token)
        and (retired == '' or sub(redis.sha1hex(token .. char(form)), 1, @RETIRED_BYTES@) ~= retired)
      then
        registers, whole = true, true
        if rereadIndex == index and formAndFlags % @ALLOWS_FREQUENT@ == 0 and seconds > last then
          -- This command is read again after a loss of data. The next timestamp must be above the present second,
          -- because earlier pushes may have had timestamps above those of their commands.
          local storedState = stateAndSent % @SENT_FACTOR@
          if storedState % @HAS_DRAWN@ >= @OWN_TIMESTAMP@ then storedState = storedState - @OWN_TIMESTAMP@ end
          value = sub(value, 1, @STATE@ - 1) .. char(storedState) .. sub(value, @STATE@ + 1, @ASSIGNED@ - 1) .. pack('<I5', seconds)
            .. sub(value, @REGISTERED_AT@)
          last = seconds
        end
        formAndFlags = formAndFlags - formAndFlags % @ALLOWS_FREQUENT@ + form
        value = sub(value, 1, 4)
          .. pack('<I2B', #token + (acceptedLength > 0 and @ACCEPTED_ALERT@ or 0) + (audiences and @AUDIENCES@ or 0),
            retired ~= '' and formAndFlags + @HAS_RETIRED_TOKEN@ or formAndFlags)
          .. sub(value, @DIGEST@, @REGISTERED_AT@ - 1) .. pack('<I6', tokenAt) .. token .. sub(value, acceptedAt)
        local grown = #token - length
        acceptedEnd, throttleAt = acceptedEnd + grown, throttleAt + grown
        if heldAt then heldAt = heldAt + grown end
      end
      local isThrottled, isFrequent = false, false
      if formAndFlags >= @HAS_THROTTLE@ then
        isThrottled = formAndFlags % @HAS_CLAIM@ >= @HAS_THROTTLE@
        formAndFlags = formAndFlags % @HAS_THROTTLE@
      end
      if formAndFlags >= @ALLOWS_FREQUENT@ then isFrequent, formAndFlags = true, formAndFlags - @ALLOWS_FREQUENT@ end
      -- # Long path: the order of versions
      local newer = timestamp > newest or state == @NO_VERSION@
      if timestamp == newest and not newer and not same then
        local low, high = read('<I4I4', version, 6)
        local newestLow, newestHigh = read('<I4I4', value, @VERSION@ + 5)
        newer = high > newestHigh or high == newestHigh and low > newestLow
      end
      if ended or isEnd or not newer then
        local settled = state == @SETTLED@ or state == @NOT_SHOWN@
        if ended then
          if not isEnd then
            reply = 'ended'
          elseif same then
            if settled then reply = state == @NOT_SHOWN@ and 'duplicate-' or 'duplicate' end
          elseif not newer or state ~= @NOT_SHOWN@ then
            reply = 'ended'
          end
        elseif isEnd then
          same = false
          -- An end that is older than the newest start belongs to an earlier life. It was deferred, or is replayed.
          if startBytes > 0 and not newer and newerLifeIndex ~= index then
            local startTime, startLow, startHigh = read('<I5I4I4', value, heldAt - startBytes)
            local low, high = read('<I4I4', version, 6)
            if timestamp < startTime
              or timestamp == startTime and (high < startHigh or high == startHigh and low < startLow)
            then
              reply = 'superseded'
            end
          end
        elseif same then
          if settled or state == @START_SENDING@ then reply = 'duplicate' end
        elseif not newer then
          reply = 'superseded'
        end
        if request >= @CARRIES_ALERT@ and reply and not newer and not same and not isEnd and not settled and state ~= @START_SENDING@ then
          reply = 'alertAwaitsCarrier'
        end
        if reply and not registers then break end
      end

      if lifeEnd == 0 then
        lifeEnd = seconds + UPDATES_SECONDS
        value = pack('<I4', lifeEnd) .. sub(value, 5)
      end
      -- # Long path: whether the state may be sent now
      local drops, sends, record, formerValue, drawn

      if not reply then
        local holds, holdsAlert = false, false
        if state >= @HELD@ and state ~= @SETTLED@ then
          holds = state <= @SENDING_HELD_ALERT@
          holdsAlert = state == @HELD_ALERT@ or state == @SENDING_HELD_ALERT@ or state >= @WAITING_OLDER_ALERT@
        end
        if tooOldIndex == index and state == @NO_VERSION@ then
          reply = 'expired'
        elseif not isEnd and seconds > lifeEnd then
          reply = 'activityOver'
        elseif isAlertAccepted then
          reply = 'alertAlreadyAccepted'
        elseif holdsAlert and request < @CARRIES_ALERT@ and (formAndFlags > 0 or not same or not holds) then
          local h = sub(value, heldAt)
          heldBytes = heldBytes + #h
          reply = heldBytes > HELD_BYTES and heldBytes > #h and 'wait1' or 'alertHeld' .. h
        elseif shown == digest and not isEnd then
          reply, nextState, drops = 'unchanged', @SETTLED@, holds or holdsAlert
        else
          drops = holds and not same and not holdsAlert
          if formAndFlags == 0 then
            reply = 'noToken'
            if not same then
              nextState = holdsAlert and @WAITING_OLDER_ALERT@ or @WAITING@
            elseif holds then
              reply, nextState = 'held', holdsAlert and @HELD_ALERT@ or @HELD@
            end
          else
            local bucket = isFrequent and 11 or 1
            if paceNumber ~= lastPaceNumber or bucket ~= lastPaceBucket then
              lastPaceNumber, lastPaceBucket, pace, usualPace = paceNumber, bucket, ARGV[paceNumber], nil
              leastSpacing, interval, pushes, reserved = read('<I3I3I2I2', pace, bucket)
            end
            local since, spacing = now - sent, leastSpacing
            if isThrottled then
              local doublings, throttledAt = read('<BI6', value, throttleAt)
              local longest, recovery = read('<I3I3', pace, 21)
              local sinceThrottle = now - throttledAt
              doublings = sinceThrottle < 0 and 0 or doublings - math.floor(sinceThrottle / recovery)
              if doublings > 0 then spacing = math.max(spacing, math.min(spacing * 2 ^ doublings, longest)) end
            end
            if since >= 0 and since < spacing then
              reply = 'wait' .. string.format('%.0f', spacing - since)
              if not same then nextState = holdsAlert and @WAITING_OLDER_ALERT@ or @WAITING@ end
            else
              nextState, sends = @SENDING@, true
              -- The first send verdict in these 1,000 seconds (of UNIX time) renews the expiry.
              if sent < thousandBegan or sent >= thousandBegan + 1000000 then whole = true end
              if holdsAlert then
                nextState = same and holds and @SENDING_HELD_ALERT@ or @SENDING_OLDER_ALERT@
              elseif holds and same then
                nextState = @SENDING_HELD@
              end
            end
          end
        end
      end

      if nextState then
        if isEnd then nextState = nextState - @UPPER_CASE@ end
        if not same then hasDrawn = false end
      end
      -- # Long path: timestamp, priority and budget
      if sends then
        local assigned = timestamp
        if same and (state == @SENDING@ or state == @SENDING_HELD@ or state == @SENDING_HELD_ALERT@ or state == @SENDING_OLDER_ALERT@) then
          assigned = last
        elseif timestamp <= last then
          assigned = math.min(last + 1, @TIMESTAMP_MAX@)
        end
        local left, priority = pushes, @PRIORITY_FIVE@
        if full > now then
          local missing = full - now - 1
          left = pushes - (missing - missing % interval) / interval - 1
          if left < 0 then left = 0 end
        end
        if request % 2 == 1 then
          if hasDrawn then
            priority = @PRIORITY_TEN@
          elseif left > (request % 4 >= 2 and 0 or reserved) then
            priority, hasDrawn, left = @PRIORITY_TEN@, true, left - 1
            drawn = pack('<I6', (full > now and full or now) + interval)
          else
            priority = @PRIORITY_DEMOTED@
          end
        end
        reply = assigned * @TIMESTAMP_FACTOR@ + priority * @PRIORITY_FACTOR@ + left
        formerValue = heldAt and sub(value, 1, acceptedEnd - 1) or value
        last = assigned
      elseif nextState then
        whole = true
      end
      if nextState then
        if last ~= timestamp then
          drawn = (drawn or sub(value, @FULL_AT@, @ASSIGNED@ - 1)) .. pack('<I5', last)
          nextState = nextState - @OWN_TIMESTAMP@
        end
        if hasDrawn then nextState = nextState + @HAS_DRAWN@ end
        record = (sends and sub(sentNow, 1, 6) or sub(value, @DIGEST@, @STATE@ - 1)) .. char(nextState)
          .. (sends and sub(sentNow, 8) or sub(value, @STATE@ + 1, @VERSION@ - 1)) .. version .. (drawn or '')
      end

      -- # Long path: writing
      if nextState or registers then
        local written
        if whole or drops then
          if record then value = sub(value, 1, @DIGEST@ - 1) .. record .. sub(value, @DIGEST@ + #record, drops and heldAt - 1 or -1) end
          if isNew then
            -- MGET also reports a key as absent if its value is not a string. With NX the script does not
            -- overwrite such a value.
            written = call('SET', key, value, 'PX', ACTIVITY_LIFETIME, 'NX')
              or {err = 'WRONGTYPE the key holds what is not an activity of Causeway'}
          else
            written = call('SET', key, value, 'PX', ACTIVITY_LIFETIME)
          end
          if written.err then reply, formerValue = written, nil end
        else
          written = call('SETRANGE', key, '7', record)
          if written ~= #value then reply, formerValue = tonumber(written) and MALFORMED or written, nil end
        end
        if formerValue then
          replyCount = replyCount + 1
          keys[replyCount] = formerValue
        end
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
