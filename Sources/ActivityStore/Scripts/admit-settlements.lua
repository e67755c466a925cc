-- This file is a part of the script `admit` (admit.lua): settlements in a batch that do not take the short path
-- (admit-batches.lua). Model/ActivityState.swift decides the same in Swift. Read it first.
--
-- A settlement reports one of three things: how a version ended; that APNs throttles the activity's token (429); or
-- that a token must be retired (R17). A settlement changes only existing values. An acceptance counts more than any
-- other outcome, even if the other outcome arrives first: one worker may have sent a start while another worker settles
-- this start as `unknown`.

-- Makes the functions of this file, and returns the last one, `settle`. The loop runs `makeSettle` only if a batch
-- needs it (admit.lua: Speed).
local function makeSettle(readCall, isNewer, isOlderRegistration, splitPhase, findParts, joinParts, MALFORMED)
  local callRedis, sub, read, pack = redis.pcall, string.sub, struct.unpack, struct.pack

  -- # Parts after a settlement
  -- Returns the phase of the newest version after a settlement of this version. `phase` is the phase before.
  -- The model decides the same: search for `decision: acceptance`.
  local function phaseAfter(code, phase)
    if code == @ACCEPTED@ then return @SETTLED@ end
    if phase == @SETTLED@ or phase == @NOT_SHOWN@ then return phase end
    if code == @SETTLED_NOT_SHOWN@ then return @NOT_SHOWN@ end
    return @SETTLED@
  end

  -- Returns the new part about the start, after a settlement of the start's version. 14 bytes follow the version: an
  -- acceptance removes them, and any other settlement writes `s` into the first one.
  local function startAfter(code, version, start)
    if code == @ACCEPTED@ then return version end
    return version .. 's' .. sub(start, 15)
  end

  -- Returns the part about the last 429 after a further 429; nil if the present part, `throttle`, stays. Workers may
  -- report the 429 of one push several times, but it must double the spacing only once. So it counts only if a push was
  -- allowed (`lastSendAt`) after the last recorded 429, or if the clock was set back.
  local function throttleAfter(throttle, lastSendAt, pace, now)
    local spacing, longestSpacing, recovery = read('<I3', pace), read('<I3I3', pace, @AT_LONGEST_SPACING@)
    local doublings, throttledAt = 0, 0
    if throttle ~= '' then
      doublings, throttledAt = read('<BI6', throttle)
      if lastSendAt <= throttledAt and now >= throttledAt then return nil end
    end
    doublings = now < throttledAt and 0 or math.max(doublings - math.floor((now - throttledAt) / recovery), 0)
    if spacing * 2 ^ doublings < longestSpacing then doublings = math.min(doublings + 1, @DOUBLINGS_MAX@) end
    return pack('<BI6', doublings, now)
  end

  -- # All steps
  -- Performs a settlement. `stored` is what Redis has for the key, and `value` is the value to read; both are from the
  -- loop. `position` is where the call begins. Returns the reply, and where the next call begins.
  --
  -- The reply is 1 if the token was retired, otherwise 0; or an error. If the activity has departures that no worker
  -- has confirmed, then `=`, the time of the registration and the digests of the audiences that it left follow the
  -- number. The reply to a 429 is only the number.
  local function settle(key, stored, value, position, now)
    local version, paceByte, requestByte, timestamp, digest, token, alertVersion, nextPosition = readCall(position)
    if not stored then return 0, nextPosition end
    if #stored < @FIXED_BYTES@ then return stored.err and stored or MALFORMED, nextPosition end
    local updatesUntilSeconds, tokenLengthAndFlags, flags, shownDigest, phaseByte, lastSendAt, newestTimestamp =
      read('<I4I2BI6BI6I5', value)
    local phase, newestIsEnd = splitPhase(phaseByte)
    local lastAssignedTimestamp = newestTimestamp
    if phaseByte % @OWN_TIMESTAMP_MODULUS@ < @OWN_TIMESTAMP@ then
      lastAssignedTimestamp = read('<I5', value, @AT_ASSIGNED@)
    end
    local tokenEnd, startPosition, heldPosition, acceptedAlertVersion, audiences, formerAudiences, retired, throttle =
      findParts(value, tokenLengthAndFlags, flags, phase)
    if not tokenEnd then return MALFORMED, nextPosition end

    -- Find out what the settlement changes. `changesParts`: a part after the fixed part. `start`: the new part about
    -- the start; nil if this part does not change.
    local code, form, changesParts = requestByte % @SETTLEMENT_CODE_MODULUS@, flags % @FORM_MODULUS@, false
    local nextPhase, nextShownDigest, start, removesHeld = phase, shownDigest, nil, false
    local isAccepted = code == @ACCEPTED@
    local isNewest = timestamp == newestTimestamp and phase ~= @NO_VERSION@
      and sub(value, @AT_VERSION@, @AT_BUCKET@ - 1) == version
    if code == @THROTTLED@ and updatesUntilSeconds > 0 then
      local newThrottle = throttleAfter(throttle, lastSendAt, ARGV[paceByte], now)
      if newThrottle then throttle, changesParts = newThrottle, true end
    elseif code < @THROTTLED@ then
      if isNewest then
        nextPhase, removesHeld = phaseAfter(code, phase), heldPosition <= #value
        if isAccepted then nextShownDigest = digest end
      end
      if heldPosition - startPosition == @UNACCEPTED_START_BYTES@
        and sub(value, startPosition, startPosition + (@VERSION_BYTES@ - 1)) == version
      then
        start, changesParts = startAfter(code, version, sub(value, startPosition, heldPosition - 1)), true
      end
      if alertVersion and isAccepted
        and (acceptedAlertVersion == '' or isNewer(alertVersion, acceptedAlertVersion))
      then
        acceptedAlertVersion, changesParts = alertVersion, true
      end
    end
    -- Here `token.registeredAt` says since when the token is dead. A token that was registered at this time or later
    -- stays.
    local registeredAt = read('<I6', value, @AT_REGISTERED@)
    local losesToken = token and token.form == form and token.bytes == sub(value, @AT_TOKEN@, tokenEnd)
      and token.registeredAt ~= registeredAt and not isOlderRegistration(token.registeredAt, registeredAt)
    local leavesAudiences = losesToken or audiences and audiences ~= '' and isAccepted and isNewest and newestIsEnd

    -- Write the changes.
    local nextPhaseByte = nextPhase
    if phaseByte >= @HAS_DRAWN@ then nextPhaseByte = nextPhaseByte + @HAS_DRAWN@ end
    if lastAssignedTimestamp ~= newestTimestamp then nextPhaseByte = nextPhaseByte - @OWN_TIMESTAMP@ end
    if newestIsEnd then nextPhaseByte = nextPhaseByte - @UPPER_CASE@ end
    if changesParts or removesHeld or leavesAudiences then
      if leavesAudiences then
        -- The stored time of the registration becomes a millisecond later, so that the same registration is stale if it
        -- is read again, and brings back neither the token nor the audiences.
        registeredAt = math.min(registeredAt + 1, @TIME_MAX@)
        if audiences then audiences, formerAudiences, nextShownDigest = '', formerAudiences .. audiences, 0 end
      end
      if losesToken then
        -- The value keeps the beginning of the token's SHA-1, by which the scripts refuse this token if a command
        -- brings it.
        retired = sub(redis.sha1hex(token.bytes .. string.char(form)), 1, @RETIRED_BYTES@)
      end
      local fixedPart = pack('<I6B', nextShownDigest, nextPhaseByte) .. sub(value, @AT_PHASE@ + 1, @AT_REGISTERED@ - 1)
        .. pack('<I6', registeredAt)
      -- The token's form and the flag ALLOWS_FREQUENT; `joinParts` sets the higher flags. Without a token, the form is
      -- 0.
      local nextForm = flags % @ALLOWS_FREQUENT_MODULUS@ - (losesToken and form or 0)
      value = joinParts(updatesUntilSeconds, nextForm, fixedPart, {
        token = losesToken and '' or sub(value, @AT_TOKEN@, tokenEnd), alert = acceptedAlertVersion,
        audiences = audiences or '', formerAudiences = formerAudiences or '', retired = retired, throttle = throttle,
        start = start or startPosition < heldPosition and sub(value, startPosition, heldPosition - 1) or '',
        held = heldPosition <= #value and not removesHeld and sub(value, heldPosition) or '',
      })
      local written = callRedis('SET', key, value, 'PX', '@ACTIVITY_EXPIRY_MILLISECONDS@')
      if written.err then return written, nextPosition end
    elseif nextPhase ~= phase or nextShownDigest ~= shownDigest then
      local written = callRedis('SETRANGE', key, '@DIGEST_BYTE_OFFSET@', pack('<I6B', nextShownDigest, nextPhaseByte))
      if written ~= #value then return tonumber(written) and MALFORMED or written, nextPosition end
    end
    local reply = losesToken and 1 or 0
    if formerAudiences and formerAudiences ~= '' and code ~= @THROTTLED@ then
      reply = reply .. '=' .. sub(value, @AT_REGISTERED@, @AT_TOKEN@ - 1) .. formerAudiences
    end
    return reply, nextPosition
  end

  return settle
end
