-- This file is a part of the script `admit` (admit.lua): the loop over a batch of updates, ends and settlements.
--
-- The short path decides about most calls: an update of an activity with a plain value, and the acceptance of such an
-- update. It asks these questions in this order; the code has the same numbers:
--     1. Is the value plain? See `plainSize`.
--     2. Is the phase common, and is the last assigned timestamp not above the newest version's?
--     3. A settlement: is it the acceptance of the newest version? Then the acceptance is written.
--     4. An update: is its timestamp higher than the newest version's? If it is lower, the reply is `superseded`. The
--        exception: an update that has an alert, or may replace a held alert, takes the long path.
--     5. What does the pace allow now? The answer serves all plain values with the same form, length and flags.
--     6. May the update be sent now: there is a token, the spacing is over, the phone shows another state, and the
--        value's expiry need not be renewed?
--     7. Which priority does the update get? Then the update is written, and the reply is the value or a number.
-- Every other answer leads to the long path (admit-updates.lua, admit-settlements.lua), which begins again with the
-- same call. The long path can decide about every call. So each decision of the short path is also in the long path,
-- and in the model in Swift: Model/ActivityState+Admission.swift and its neighbours. Read the model first. A comment
-- `decision: NAME` marks each place. Find all places of one name with `git grep 'decision: NAME'`, and change all of
-- them.
--
-- Headings begin with `-- #`: packed numbers; variables; reading a call for the long path; computed for several calls;
-- in the loop: reading a call, short path, long path; the reply. These names come from other files: `read`, `pack`,
-- `sub`, `callRedis`, UNKNOWN and MALFORMED (admit.lua); `isNewer` (versions.lua); `isOlderRegistration`
-- (registration-times.lua); `splitPhase`, `findParts`, `readLastUpdateSecond`, `computeLastUpdateSecond` and
-- `joinParts` (admit-values.lua); `makeSettle` and `makeAdmit`, which make the functions of the long path.
--
-- The batch. KEYS are the keys, one for each call. ARGV[1] is one string with all calls (CommandCallBatch.swift). The
-- paces follow (StoredPace.swift). One MGET reads the values of all keys: at most 64. A value has a few hundred bytes;
-- a held command adds up to 128 KiB. Then the script decides about each key and writes it separately, so that each key
-- fails alone. An error of Lua would fail the whole batch. So the script runs Redis commands with `pcall`, and checks
-- the length of a value before it reads the value.
--
-- The reply is an array of three parts; if there is only one element, the reply is this element without an array.
-- 1. The replies to the calls, in the order of the keys.
-- 2. For each update or end that got a number, in the same order: the activity's value before the admission, up to the
--    last byte of the accepted alert. If the update or end brought a new token, this value has it.
-- 3. The clock, if a reply may need it.
-- The replies of a batch have limited room for held commands. If a held command does not fit, the reply to an update or
-- end is `wait` (one millisecond), and the reply to a registration is `full`.

if #ARGV[1] >= @CALL_BYTES@ then
  -- # Packed numbers
  -- A packed number has two parts, left * factor + right. A number of a call or of a plain value has at most 52 bits;
  -- Lua is exact up to 53.
  --     number               left                                  factor                    right
  --     timestampAndRequest  the timestamp of the call's version   @TIMESTAMP_FACTOR@        requestAndPace
  --     requestAndPace       byte 15 of a call (CallRequestBits)    @REQUEST_FACTOR@          the pace's number in ARGV
  --     sentAndPhase         the time of the last send verdict     @SENT_AT_FACTOR@          the byte of the phase
  --     prefix               the token's form, with flags          @FLAGS_FACTOR@            lengthAndEnd
  --     lengthAndEnd         the token's length, with flags        @LENGTH_FACTOR@           last second for updates
  --     formAndLength        the token's form, with flags          @FORM_AND_LENGTH_FACTOR@  token's length, with flags
  -- So `formAndLength` is a prefix without its last second. Values with the same form, length and flags have prefixes
  -- from formAndLength * @LENGTH_FACTOR@ to below (formAndLength + 1) * @LENGTH_FACTOR@. If such a prefix is lower than
  -- formAndLength * @LENGTH_FACTOR@ + `seconds`, its last second has passed.
  --
  -- A constant with _IN_REQUEST is a bit of byte 15 in `requestAndPace`: the bit times REQUEST_FACTOR (admit.lua). The
  -- short path tests several bits at once: `requestAndPace < IS_END_IN_REQUEST` says that none of IS_END,
  -- TOKEN_FOLLOWS, IS_SETTLEMENT and ALERT_FOLLOWS is set. The loop has removed MAY_REPEAT_KEY, the only higher bit.
  -- ACCEPTANCE_REQUEST is the whole `requestAndPace` of an acceptance without a token and without an alert. In the same
  -- way, HAS_THROTTLE_IN_FORM_AND_LENGTH is the bit HAS_THROTTLE in `formAndLength`.
  --
  -- An example: an update with the timestamp 1790000000 asks for priority 10 and may use the reserve (bits 1 + 2), and
  -- its pace is ARGV[2]. Bytes 14 to 20 of its call are 02 03 80 3b b1 6a 00: the pace's number, the bits, and the
  -- timestamp. Read as one little-endian number they are
  --     timestampAndRequest = 1790000000 * 65536 + requestAndPace = 117309440000770
  --     requestAndPace      = 3 * 256 + 2 = 770
  -- The last send verdict of its activity was at 1790000000.123, and the phase is `a` (97). Bytes 14 to 20 of the value
  -- are 61 7b 6c 50 c4 a0 01:
  --     sentAndPhase        = 1790000000123 * 256 + 97 = 458240000031585
  -- The token has 80 bytes and form 1, and updates are taken until second 1790028200. Bytes 1 to 7 of the value are
  -- a8 a9 b1 6a 50 00 01:
  --     prefix              = 1 * 2 ^ 48 + 80 * 2 ^ 32 + 1790028200 = 281820364122536
  -- One comparison of two such numbers compares their left parts first. So `sentAndPhase <= sentAndPhaseMax` compares
  -- two times, and `assigned > newestTimestamp * 65536` two timestamps, without a division.

  -- # Variables
  -- Formats of fields that are read or written together. Numbers such as `sentAndPhase` are packed (# Packed numbers).
  --     CALL_FORMAT                 version, timestampAndRequest, digest
  --     FIXED_FORMAT                prefix, digest of the shown state, sentAndPhase, timestamp of the newest version
  --     FIXED_AND_BUCKET_FORMAT     the same, the rest of the newest version, and when the bucket will be full
  --     SHOWN_AND_PHASE_FORMAT      digest of the shown state, byte of the phase
  --     FULL_FORMAT                 when the bucket will be full
  -- A format without a byte order is faster, and uses the server's own order. Nearly every server is little-endian, as
  -- the values are.
  local CALL_FORMAT, FIXED_FORMAT, FIXED_AND_BUCKET_FORMAT, SHOWN_AND_PHASE_FORMAT, FULL_FORMAT =
    'c13I7I6', 'I7I6I7I5', 'I7I6I7I5I8I6', 'I6B', 'I6'
  if pack('I2', 1) ~= '\1\0' then
    CALL_FORMAT, FIXED_FORMAT, FIXED_AND_BUCKET_FORMAT, SHOWN_AND_PHASE_FORMAT, FULL_FORMAT =
      '<' .. CALL_FORMAT, '<' .. FIXED_FORMAT, '<' .. FIXED_AND_BUCKET_FORMAT, '<' .. SHOWN_AND_PHASE_FORMAT,
      '<' .. FULL_FORMAT
  end
  local keys, calls, position = KEYS, ARGV[1], 1
  local count = #keys
  local values = callRedis('MGET', unpack(keys))
  if values.err then return values end
  -- The array of keys becomes the array that the script returns: each reply replaces the key of its call, and the
  -- values and the clock follow. A second array would make the short path 1 % slower.
  local replies, replyCount = keys, count

  -- The variables from here on keep what the loop has computed, because the next call often needs the same:
  --     they describe              they are computed again
  --     the clock                  never in this batch
  --     the last request           if a call asks for something else (an acceptance leaves them as they are)
  --     the last plain value       if a value has another length, form or flags; when the clock is read
  --     the pace of such a value   if a call has another pace; if the last plain value is computed again
  --
  -- The clock, read once, when a call needs it: `now` in milliseconds, and `seconds`. Computed from it:
  --     sentAndPhaseMin     the lowest `sentAndPhase` of a send verdict in the same 1,000 seconds as `now`
  --     sendBytes           the bytes that a send verdict writes now: digest 0, phase `a`, the time
  --     sendBytesWithDraw   the same, with the bit HAS_DRAWN: the version draws on the budget
  local now, seconds, sentAndPhaseMin, sendBytes, sendBytesWithDraw
  -- What the last call asked for (an acceptance is left out): priority 10 if `isHigh`, the reserve if `mayUseReserve`.
  -- `format` is the format in which the values of this call and of calls with an equal request are read.
  local lastRequestAndPace, paceNumber, isHigh, mayUseReserve
  local format = FIXED_FORMAT
  -- A value is plain if it ends with the token or with the accepted alert, and its activity still accepts updates.
  -- These variables describe the last plain value. The next value is plain too if its length is `plainSize`, and its
  -- `prefix` (# Packed numbers) is at least `prefixMin` and below `prefixMax`. At first and to forget the last plain
  -- value, `prefixMin` is infinite, so that no prefix is in the range.
  local prefixMin, prefixMax, plainSize = math.huge, 0, -1
  -- Computed for a value like the last plain one, and for the pace with the number `computedPaceNumber`:
  --     sentAndPhaseMax       the spacing is over if `sentAndPhase` is at most this number
  --     fullAtMax             the push gets priority 10 if the bucket will be full by this time
  --     fullAtMaxWithReserve  the same for a command that may use the reserve
  --     nextFullAtBytes       the bytes of the time at which a full bucket will be full again after a draw
  --     interval, pushes      of the bucket: the time for one push, and how many pushes a full bucket has
  --     longestFill           the longest time in which this bucket, or that of another policy, fills
  local computedPaceNumber, sentAndPhaseMax, fullAtMax, fullAtMaxWithReserve, nextFullAtBytes, interval, pushes,
    longestFill
  -- The functions of the long path, each nil until a call needs it.
  local admit, settle

  -- # Reading a call for the long path
  -- Reads a whole call (CommandCallBatch.swift). `position` is where it begins. Returns:
  --     its version
  --     `paceByte`, byte 14: the number of the pace's argument, and four bits (PaceByteFlags)
  --     `requestByte`, byte 15: eight bits (CallRequestBits)
  --     the timestamp of the version
  --     the digest
  --     the token that the call registers or retires: a table with its bytes, its registration time and its form; nil
  --     if there is none
  --     the version of the command whose alert the call carries or settles; nil if there is none
  --     where the next call begins
  local function readCall(position)
    local token, alertVersion
    local version, paceByte, requestByte, timestamp, digest, nextPosition = read('<c13BBI5I6', calls, position)
    if requestByte % @TOKEN_FOLLOWS_MODULUS@ >= @TOKEN_FOLLOWS@ then
      local length, registeredAt, form, tokenPosition = read('<I2I6B', calls, nextPosition)
      nextPosition = tokenPosition + length
      token = {bytes = sub(calls, tokenPosition, nextPosition - 1), registeredAt = registeredAt, form = form}
    end
    if requestByte % @ALERT_FOLLOWS_MODULUS@ >= @ALERT_FOLLOWS@ then
      alertVersion = sub(calls, nextPosition, nextPosition + @VERSION_BYTES@ - 1)
      nextPosition = nextPosition + @VERSION_BYTES@
    end
    return version, paceByte, requestByte, timestamp, digest, token, alertVersion, nextPosition
  end

  -- # Computed for several calls
  -- The loop calls these functions only if it cannot use their last results again. They use no variables from outside,
  -- because Redis then makes them faster (admit.lua: Speed).

  -- Reads the clock. Returns the variables that depend only on it: `now`, `seconds`, `sentAndPhaseMin`, `sendBytes` and
  -- `sendBytesWithDraw` (# Variables).
  local function readClock()
    local callRedis, pack = redis.pcall, struct.pack
    local time = callRedis('TIME')
    local seconds, microseconds = time[1] + 0, time[2] + 0
    local now = seconds * 1000 + (microseconds - microseconds % 1000) / 1000
    return now, seconds, (now - now % 1000000) * @SENT_AT_FACTOR@, pack('<I6BI6', 0, @SENDING@, now),
      pack('<I6BI6', 0, @SENDING@ + @HAS_DRAWN@, now)
  end

  -- Returns `prefixMin` and `prefixMax`: the range of the prefixes of plain values that have the same form, length and
  -- flags as this value. Returns nil if this value does not end with the token or the accepted alert.
  local function findPlainPrefixes(prefix, size, seconds)
    local formAndLength = (prefix - prefix % @LENGTH_FACTOR@) / @LENGTH_FACTOR@
    local variableByteCount = formAndLength % @FORM_AND_LENGTH_FACTOR@
    if variableByteCount >= @HAS_ACCEPTED_ALERT@ then
      variableByteCount = variableByteCount - @HAS_ACCEPTED_ALERT@ + @VERSION_BYTES@
    end
    -- With HAS_THROTTLE or a higher flag of byte 7, a part follows the token and the alert.
    local hasFurtherPart = formAndLength >= @HAS_THROTTLE_IN_FORM_AND_LENGTH@
    if hasFurtherPart or size ~= @FIXED_BYTES@ + variableByteCount then return nil end
    return formAndLength * @LENGTH_FACTOR@ + seconds, (formAndLength + 1) * @LENGTH_FACTOR@
  end

  -- Returns `sentAndPhaseMax`, `fullAtMax`, `fullAtMaxWithReserve`, `nextFullAtBytes`, `interval`, `pushes` and
  -- `longestFill` for plain values that are like this one.
  local function computePace(prefix, paceBytes, now)
    local formAndFlags = (prefix - prefix % @FLAGS_FACTOR@) / @FLAGS_FACTOR@
    -- A plain value has no flag above ALLOWS_FREQUENT, so one comparison tests this flag.
    local pacePosition = formAndFlags >= @ALLOWS_FREQUENT@ and @AT_FREQUENT_BUDGET_PART@ or @AT_BUDGET_PART@
    local spacing, interval, pushes, reserved = struct.unpack('<I3I3I2I2', paceBytes, pacePosition)
    -- Without a token (form 0), `sentAndPhaseMax` is -1, so that the spacing is never over.
    return formAndFlags % @FORM_MODULUS@ > 0 and (now - spacing) * @SENT_AT_FACTOR@ + (@SENT_AT_FACTOR@ - 1) or -1,
      pushes > reserved and now + (pushes - 1 - reserved) * interval or -1,
      now + (pushes - 1) * interval, struct.pack('<I6', now + interval), interval, pushes,
      math.max(pushes * interval, 1000 * struct.unpack('<I4', paceBytes, @AT_LONGEST_FILL@))
  end

  for index = 1, count do
    -- # Reading a call
    local version, timestampAndRequest, digest, nextPosition = read(CALL_FORMAT, calls, position)
    position = nextPosition
    local requestAndPace = timestampAndRequest % @TIMESTAMP_FACTOR@
    -- Read `requestAndPace`, unless the last call had the same number or the call is an acceptance, which needs no
    -- result of this block. `lastRequestAndPace` has none of the flags that this block removes, so a call with one of
    -- them is always read.
    if requestAndPace ~= lastRequestAndPace and requestAndPace ~= @ACCEPTANCE_REQUEST@ then
      local paceByte = requestAndPace % @REQUEST_FACTOR@
      paceNumber = paceByte % @PACE_NUMBER_MODULUS@
      -- Remove the four flags of byte 14, and MAY_REPEAT_KEY. Few calls have any of them, and the short path needs
      -- none.
      local removedFlags = paceByte - paceNumber
      if requestAndPace >= @MAY_REPEAT_KEY_IN_REQUEST@ then
        -- An earlier call of this batch may have written the value, so it is read again.
        values[index], removedFlags = callRedis('GET', keys[index]), removedFlags + @MAY_REPEAT_KEY_IN_REQUEST@
      end
      timestampAndRequest, requestAndPace = timestampAndRequest - removedFlags, requestAndPace - removedFlags
      lastRequestAndPace = requestAndPace
      local request = (requestAndPace - paceNumber) / @REQUEST_FACTOR@
      isHigh, mayUseReserve =
        request % @REQUESTS_HIGH_PRIORITY_MODULUS@ == @REQUESTS_HIGH_PRIORITY@,
        request % @MAY_USE_RESERVE_MODULUS@ >= @MAY_USE_RESERVE@
      format = isHigh and FIXED_AND_BUCKET_FORMAT or FIXED_FORMAT
      -- Updates, ends and 429s need the clock. Of the settlements' codes, only that of a 429 (THROTTLED, 3) has both of
      -- the lowest bits.
      if not now
        and (request % @IS_SETTLEMENT_MODULUS@ < @IS_SETTLEMENT@ or request % (@THROTTLED@ + 1) >= @THROTTLED@)
      then
        now, seconds, sentAndPhaseMin, sendBytes, sendBytesWithDraw = readClock()
        -- Forget the last plain value: its `prefixMin` was computed without the clock, so an activity whose updates
        -- have ended would count as plain.
        prefixMin = math.huge
      end
    end

    -- # Short path
    -- Questions 1 to 7 (see the top of this file). The block runs once. `break` ends the short path. A call that has no
    -- reply then takes the long path.
    local value, reply = values[index] or UNKNOWN, nil
    repeat
      local size = #value
      if size ~= plainSize then
        if size < @FIXED_BYTES@ then value = UNKNOWN end
        -- Forget the last plain value: the range of prefixes is only for values of its length.
        prefixMin = math.huge
      end
      -- `fullAt` is when the bucket will be full; nil unless the call asks for priority 10 (`isHigh`), because only
      -- FIXED_AND_BUCKET_FORMAT reads it.
      local prefix, shownDigest, sentAndPhase, newestTimestamp, unused, fullAt = read(format, value)

      -- 1. Is the value plain?
      -- The model decides the same: search for `decision: eight hours`.
      if prefix < prefixMin or prefix >= prefixMax then
        -- The value is not like the last plain one. If it is plain itself, the next values are compared with it.
        local newPrefixMin, newPrefixMax = findPlainPrefixes(prefix, size, seconds or 0)
        if not newPrefixMin then break end
        prefixMin, prefixMax, plainSize, computedPaceNumber = newPrefixMin, newPrefixMax, size, nil
        -- The lowest part of `prefix` is the last second for updates. If it has passed, the value is not plain.
        if prefix < prefixMin then break end
      end

      -- 2. Is the phase common, and is the last assigned timestamp not above the newest version's?
      -- - In the first five phases, with the bit @OWN_TIMESTAMP@, both are the same.
      -- - In `w` and `s` without this bit, the newest version waits or was `unchanged`, so it got no timestamp. The
      --   last assigned one (bytes 40 to 44) is compared only for an update; any other call takes the long path.
      local phase = sentAndPhase % @HAS_DRAWN@
      if phase ~= @SENDING@ and phase ~= @SETTLED@ and phase ~= @WAITING@
        and phase ~= @NOT_SHOWN@ and phase ~= @START_SENDING@
      then
        if phase ~= @WAITING@ - @OWN_TIMESTAMP@ and phase ~= @SETTLED@ - @OWN_TIMESTAMP@
          or requestAndPace >= @IS_END_IN_REQUEST@
          or read('<I5', value, @AT_ASSIGNED@) > newestTimestamp
        then
          break
        end
      end

      -- 3. A settlement: is it the acceptance of the newest version? Ends, and calls with a token or an older alert,
      --    take the long path. The model decides the same: search for `decision: acceptance`.
      --
      -- IS_END is the lowest of these bits, before TOKEN_FOLLOWS, IS_SETTLEMENT and ALERT_FOLLOWS: `>=` finds them all.
      if requestAndPace >= @IS_END_IN_REQUEST@ then
        if requestAndPace == @ACCEPTANCE_REQUEST@ and sub(value, @AT_VERSION@, @AT_BUCKET@ - 1) == version then
          local written = callRedis('SETRANGE', keys[index], '@DIGEST_BYTE_OFFSET@', pack(SHOWN_AND_PHASE_FORMAT,
            digest, sentAndPhase % @SENT_AT_FACTOR@ < @HAS_DRAWN@ and @SETTLED@ or @SETTLED@ + @HAS_DRAWN@))
          reply = written == size and 0 or tonumber(written) and MALFORMED or written
        end
        break
      end

      -- 4. An update: is its timestamp higher than the newest version's? Then the update keeps its own timestamp:
      --    `assigned`, which is multiplied by TIMESTAMP_FACTOR. If it is lower, the update is superseded. `break`
      --    leaves to the long path an equal timestamp, and an older update that may replace a held alert.
      -- The model decides the same: search for `decision: order of versions` and `decision: timestamp`.
      local assigned, newest = timestampAndRequest - requestAndPace, newestTimestamp * @TIMESTAMP_FACTOR@
      if assigned <= newest then
        if assigned < newest and requestAndPace < @MAY_REPLACE_HELD_ALERT_IN_REQUEST@ then reply = 'superseded' end
        break
      end

      -- 5. What does the pace allow now?
      -- The model decides the same: search for `decision: no token`, `decision: spacing` and `decision: budget`.
      if paceNumber ~= computedPaceNumber then
        computedPaceNumber = paceNumber
        sentAndPhaseMax, fullAtMax, fullAtMaxWithReserve, nextFullAtBytes, interval, pushes, longestFill =
          computePace(prefix, ARGV[paceNumber], now)
      end

      -- 6. May the update be sent now? The first send verdict in each 1,000 seconds takes the long path, to renew the
      --    expiry.
      -- The model decides the same: search for `decision: spacing`, `decision: expiry` and `decision: unchanged`.
      if sentAndPhase > sentAndPhaseMax or sentAndPhase < sentAndPhaseMin or shownDigest == digest then break end

      -- 7. Which priority does the update get?
      -- The model decides the same: search for `decision: budget`.
      local newBytes, isDemoted
      if isHigh and fullAt <= (mayUseReserve and fullAtMaxWithReserve or fullAtMax) then
        newBytes = sendBytesWithDraw .. version
          .. (fullAt > now and pack(FULL_FORMAT, fullAt + interval) or nextFullAtBytes)
      else
        -- The push gets priority 5. If the command asked for priority 10, it is demoted.
        newBytes, isDemoted = sendBytes .. version, isHigh
        -- `fullAt` is later than any empty bucket needs, for example after the clock was set back. Cut it.
        if isHigh and fullAt - now > longestFill then
          newBytes = newBytes .. pack(FULL_FORMAT, now + longestFill)
        end
      end
      local written = callRedis('SETRANGE', keys[index], '@DIGEST_BYTE_OFFSET@', newBytes)
      -- SETRANGE replies with the value's length. Any other length shows that the key does not have an activity's
      -- value.
      if written ~= size then
        reply = tonumber(written) and MALFORMED or written
      elseif isDemoted then
        -- The pushes left are pushes - d / interval, rounded down, where d = fullAt - now. For example, if pushes = 4,
        -- interval = 600 s and d = 900 s, then 4 - 1.5 = 2.5, so 2 are left. `draw` (admit-updates.lua) computes the
        -- same in another way.
        -- The model decides the same: search for `decision: pushes left`.
        local pushesLeft = fullAt > now and pushes - (fullAt - now) / interval or pushes
        reply = assigned + @PRIORITY_DEMOTED@ * @PRIORITY_FACTOR@
          + (pushesLeft > 0 and pushesLeft - pushesLeft % 1 or 0)
        replyCount = replyCount + 1
        replies[replyCount] = value
      else
        reply = value
      end
    until true

    -- # Long path
    if not reply then
      if requestAndPace % @IS_SETTLEMENT_IN_REQUEST_MODULUS@ >= @IS_SETTLEMENT_IN_REQUEST@ then
        settle = settle
          or makeSettle(readCall, isNewer, isOlderRegistration, splitPhase, findParts, joinParts, MALFORMED)
        reply, position = settle(keys[index], values[index], value, position - @CALL_BYTES@, now)
      else
        admit = admit
          or makeAdmit(readCall, isNewer, isOlderRegistration, splitPhase, findParts, readLastUpdateSecond,
            computeLastUpdateSecond, MALFORMED)
        local formerValue
        reply, position, formerValue = admit(keys[index], values[index], value, position - @CALL_BYTES@, now)
        if formerValue then
          replyCount = replyCount + 1
          replies[replyCount] = formerValue
        end
      end
    end
    replies[index] = reply
  end

  -- # The reply
  -- The worker needs the clock only if a reply is the activity's value, from which it then computes the pushes left.
  -- Such a reply comes only from question 7 of the short path, after question 5 has set `sentAndPhaseMax`.
  if sentAndPhaseMax then
    replyCount = replyCount + 1
    replies[replyCount] = now
  end
  if replyCount == 1 then return replies[1] end
  return replies
end
