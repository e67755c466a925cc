-- This file is a part of the script `admit` (admit.lua): the loop over a batch of updates, ends and settlements.
-- Headings begin with `-- #`: variables; reading a call for the long path; in the loop: reading a call, short path, long
-- path; the reply.
--
-- The short path decides about the most frequent calls: a usual update, and the acceptance of one. Every other call takes
-- the long path (admit-updates.lua, admit-settlements.lua). The long path can decide about the frequent calls too. So a
-- decision about such a call is on both paths. Change both. Model/ActivityState+Admission.swift and its neighbours decide
-- the same in Swift. Read them first.
--
-- Batches. Calls come in batches, because calling a script costs nearly as much as an admission. KEYS are the keys, one
-- for each call. ARGV[1] is one string with all calls (CallBatch.swift). The paces follow. One MGET reads the values of all
-- keys: at most 64. A value has some hundred bytes, or up to 128 KiB more with a held command. Then the script decides and
-- writes each key separately, and each key fails alone: an error of Lua would fail the whole batch, so the script calls
-- Redis with `pcall`, and checks lengths before it reads a value.
--
-- The reply is an array. First it has the replies in the order of the keys. Then, in the same order, it has a value for each
-- update and end whose reply is a number: the activity's value as it was before the command, up to the end of the accepted
-- alert. If the command brought a new token, this value has the new token. Last comes the clock, if a reply may need it. If
-- the array would have only one element, the reply is this element alone. The replies of a batch have limited room for held
-- commands. If a held command does not fit, the reply to an update or end is `wait` (one millisecond), and the reply to a
-- registration is `full`.
--
-- Speed. In Redis' Lua these are slow: a call of Redis, a call of a library's function, a new string, a new table, a
-- conversion between number and text, and each number that is read from a string. So the short path is inline. It does not
-- look for the parts of a value, reads several fields as one number, and replies with the value that it has read. States are
-- numbers, not letters. The long path has parameters and local variables, because tables with the fields of a call and of an
-- activity would make it slower by half or more.
--
-- Redis makes the functions of a script again in each run, also those that are not called. So the functions of the long path
-- are inside two others, `makeAdmit` and `makeSettle`, which run only if a batch needs them. A function takes longer to make
-- if it uses variables from outside, so most functions at the top of the script use none.
--
-- Numbers with two parts. Each is left * factor + right, and has at most 52 bits:
--     number                left                                  factor              right
--     timestampAndRequest   the timestamp of the call's version   @TIMESTAMP_FACTOR@  requestAndPace
--     requestAndPace        byte 15 of the call (CallBits)        @REQUEST_FACTOR@    the number of the pace's argument
--     stateAndSent          the time of the last send verdict     @SENT_FACTOR@       the byte of the newest version's state
--     prefix                the token's form, with flags          @FORM_FACTOR@       lengthAndEnd
--     lengthAndEnd          the token's length, with flags        @LENGTH_FACTOR@     the last second that takes updates

if #ARGV[1] >= @CALL_BYTES@ then
  -- # Variables
  -- Formats of fields that are read or written together:
  --     CALL                 version, timestampAndRequest, digest
  --     RECORD               prefix, digest of the shown state, stateAndSent, timestamp of the newest version
  --     RECORD_AND_BUCKET    the same, the rest of the newest version, and when the bucket will be full
  --     SETTLED              digest of the shown state, byte of the state
  --     FULL                 when the bucket will be full
  -- A format without a byte order is faster, and uses the server's own order. Nearly every server is little-endian, as the
  -- values are.
  local CALL, RECORD, RECORD_AND_BUCKET, SETTLED, FULL = 'c13I7I6', 'I7I6I7I5', 'I7I6I7I5I8I6', 'I6B', 'I6'
  if pack('I2', 1) ~= '\1\0' then
    CALL, RECORD, RECORD_AND_BUCKET, SETTLED, FULL = '<' .. CALL, '<' .. RECORD, '<' .. RECORD_AND_BUCKET, '<' .. SETTLED, '<' .. FULL
  end
  local keys, calls, position = KEYS, ARGV[1], 1
  local count = #keys
  local values = call('MGET', unpack(keys))
  if values.err then return values end
  -- The array of keys becomes the array of replies: each reply replaces the key of its call, and the other elements of the
  -- reply follow. An array of its own would cost the short path 1 %.
  local replies, replyCount = keys, count
  -- The clock in milliseconds and in seconds. It is read once, when a call needs it. From it come the least `stateAndSent` of
  -- a send verdict in the present 1,000 seconds, and the digest, state and time of a send verdict now, without and with a draw
  -- on the budget.
  local now, seconds, sentMin, sentNow, drawnNow
  -- What the last call asked for. Most often the next call asks for the same.
  local lastRequestAndPace, paceNumber, isHigh, mayUseReserve
  local format = RECORD
  -- A value is usual if it ends with the token or with the accepted alert, and its activity still takes updates. These
  -- variables are from the last usual value. A value with the length `usualSize`, and with a `prefix` of at least `prefixMin`
  -- and below `prefixMax`, has the same length, form and flags. So it is usual too.
  local prefixMin, prefixMax, usualSize = math.huge, 0, -1
  -- For a usual value and the pace `usualPace`:
  --     sentMax             the spacing is over if `stateAndSent` is at most this
  --     fullMax             the push gets priority 10 if the bucket will be full at this time or earlier
  --     fullMaxOfReserve    the same for a command that may use the reserve
  --     nextFull            the bytes of the time at which a full bucket will be full again after a draw
  local usualPace, sentMax, fullMax, fullMaxOfReserve, nextFull
  -- The pace that was read last: the number of its argument, where its bucket begins, and its numbers.
  local lastPaceNumber, lastPaceBucket, leastSpacing, interval, pushes, reserved
  -- The functions of the long path; nil until a call needs them.
  local admit, settle

  -- # Reading a call for the long path
  -- Reads a whole call (CallBatch.swift). `position` is where it begins. Returns:
  --     its version
  --     byte 14: the number of the pace's argument, and three bits of CallBits
  --     byte 15: the other bits of CallBits
  --     the timestamp of the version
  --     the digest
  --     the token that the call registers or retires: a table with its bytes, its time (`at`) and its form; nil if none
  --     the version of the command whose alert the call carries or settles; nil if there is none
  --     where the next call begins
  local function readCall(position)
    local token, alert
    local version, paceByte, bits, timestamp, digest, following = read('<c13BBI5I6', calls, position)
    if bits % @IS_SETTLEMENT@ >= @TOKEN_FOLLOWS@ then
      local length, at, form, tokenAt = read('<I2I6B', calls, following)
      following = tokenAt + length
      token = {bytes = sub(calls, tokenAt, following - 1), at = at, form = form}
    end
    if bits % @KEY_REPEATS@ >= @ALERT_FOLLOWS@ then
      alert = sub(calls, following, following + @VERSION_BYTES@ - 1)
      following = following + @VERSION_BYTES@
    end
    return version, paceByte, bits, timestamp, digest, token, alert, following
  end

  for index = 1, count do
    -- # Reading a call
    local version, timestampAndRequest, digest, following = read(CALL, calls, position)
    position = following
    local requestAndPace = timestampAndRequest % @TIMESTAMP_FACTOR@
    if requestAndPace ~= lastRequestAndPace and requestAndPace ~= @IS_SETTLEMENT@ * @REQUEST_FACTOR@ then
      local paceByte = requestAndPace % @REQUEST_FACTOR@
      if paceByte >= @ENDS_NEWER_LIFE@ then
        -- Few calls have the bits in this byte, and the short path does not need them.
        local bits = paceByte - paceByte % @ENDS_NEWER_LIFE@
        timestampAndRequest, requestAndPace = timestampAndRequest - bits, requestAndPace - bits
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
        sentMin = (now - now % 1000000) * @SENT_FACTOR@
        sentNow = pack('<I6BI6', 0, @SENDING@, now)
        drawnNow = pack('<I6BI6', 0, @SENDING@ + @HAS_DRAWN@, now)
        prefixMin = math.huge
      end
    end
    local reply
    -- Each `break` ends the work on this call. Nothing is repeated.
    repeat
      -- # Short path
      local value = values[index] or UNKNOWN
      local size = #value
      if size ~= usualSize then
        if size < @RECORD_BYTES@ then value = UNKNOWN end
        prefixMin = math.huge
      end
      local prefix, shown, stateAndSent, newest, _, full = read(format, value)
      local presentState = stateAndSent % @HAS_DRAWN@
      if prefix < prefixMin or prefix >= prefixMax then
        -- The value is not like the last usual value. If it is usual, the next values are compared with it.
        local lengthAndForm = (prefix - prefix % @LENGTH_FACTOR@) / @LENGTH_FACTOR@
        local bytes = lengthAndForm % (@FORM_FACTOR@ / @LENGTH_FACTOR@)
        if bytes >= @ACCEPTED_ALERT@ then bytes = bytes - @ACCEPTED_ALERT@ + @VERSION_BYTES@ end
        if lengthAndForm < @HAS_THROTTLE@ * (@FORM_FACTOR@ / @LENGTH_FACTOR@) and size == @RECORD_BYTES@ + bytes then
          prefixMin, usualSize, usualPace = lengthAndForm * @LENGTH_FACTOR@ + (seconds or 0), size, nil
          prefixMax = (lengthAndForm + 1) * @LENGTH_FACTOR@
        end
        -- If it is not usual, the call takes the long path, because no state is 0.
        if prefix < prefixMin or prefix >= prefixMax then presentState = 0 end
      end
      -- In the first five states, the last assigned timestamp is the newest version's own (bit @OWN_TIMESTAMP@). Otherwise it
      -- is in bytes 40 to 44, and the call takes the long path, except for an update in the state `w` or `s`. These two are
      -- frequent: a version that was not sent got no timestamp.
      if presentState == @SENDING@ or presentState == @SETTLED@ or presentState == @WAITING@
        or presentState == @NOT_SHOWN@ or presentState == @START_SENDING@
        or (presentState == @WAITING@ - @OWN_TIMESTAMP@ or presentState == @SETTLED@ - @OWN_TIMESTAMP@)
          and requestAndPace < @IS_END@ * @REQUEST_FACTOR@ and read('<I5', value, @ASSIGNED@) <= newest
      then
        if requestAndPace < @IS_END@ * @REQUEST_FACTOR@ then
          -- An update that brings neither a token nor an alert of another command.
          local assigned = timestampAndRequest - requestAndPace
          if assigned > newest * @TIMESTAMP_FACTOR@ then
            if paceNumber ~= usualPace then
              local formAndFlags = (prefix - prefix % @FORM_FACTOR@) / @FORM_FACTOR@
              local bucket = formAndFlags >= @ALLOWS_FREQUENT@ and 11 or 1
              if paceNumber ~= lastPaceNumber or bucket ~= lastPaceBucket then
                lastPaceNumber, lastPaceBucket = paceNumber, bucket
                leastSpacing, interval, pushes, reserved = read('<I3I3I2I2', ARGV[paceNumber], bucket)
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
                  replies[replyCount] = value
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
          -- The acceptance of the newest version.
          local written = call('SETRANGE', keys[index], '7',
            pack(SETTLED, digest, stateAndSent % @SENT_FACTOR@ < @HAS_DRAWN@ and @SETTLED@ or @SETTLED@ + @HAS_DRAWN@))
          reply = written == size and 0 or tonumber(written) and MALFORMED or written
          break
        end
      end

      -- # Long path
      if requestAndPace % (@ALERT_FOLLOWS@ * @REQUEST_FACTOR@) >= @IS_SETTLEMENT@ * @REQUEST_FACTOR@ then
        settle = settle or makeSettle(readCall, isNewer, findParts, joinParts, MALFORMED)
        reply, position = settle(keys[index], values[index], value, position - @CALL_BYTES@, now)
      else
        admit = admit or makeAdmit(readCall, isNewer, findParts, MALFORMED)
        local formerValue
        reply, position, formerValue = admit(keys[index], values[index], value, position - @CALL_BYTES@, now)
        if formerValue then
          replyCount = replyCount + 1
          replies[replyCount] = formerValue
        end
      end
    until true
    replies[index] = reply
  end

  -- # The reply
  if sentMax then
    replyCount = replyCount + 1
    replies[replyCount] = now
  end
  if replyCount == 1 then return replies[1] end
  return replies
end
