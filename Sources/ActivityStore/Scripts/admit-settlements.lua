-- This file is a part of the script `admit` (admit.lua): settlements in a batch that do not take the short path
-- (admit-batches.lua). Model/ActivityState.swift decides the same in Swift.
--
-- A settlement says how a version ended, that APNs throttles the activity's token (429), or that a token must be retired
-- (R17). It changes only existing values and never creates an activity. Acceptance overrides the other outcomes, even if
-- it arrives first. The reason: one worker may have sent a start while another settles this start as unknown.

-- Makes the functions of this file, and returns the one that performs a settlement. The loop calls `makeSettle` only if
-- a batch needs it: making functions takes time in each run of the script (admit-batches.lua).
local function makeSettle(MALFORMED, isNewer, findParts, joinParts)
  local sub, call, read, pack = string.sub, redis.pcall, struct.unpack, struct.pack

  -- Returns the state of the newest version after a settlement of this version with this code.
  local function stateAfter(code, state)
    if code == @ACCEPTED@ then return @SETTLED@ end
    if state == @SETTLED@ or state == @NOT_SHOWN@ then return state end
    return code == @SETTLED_NOT_SHOWN@ and @NOT_SHOWN@ or @SETTLED@
  end

  -- Decides whether a 429 doubles the spacing. Returns the new part about the last 429; nil if the present part stays.
  --     throttle   the present part; empty if there is none
  --     sent       the time of the last send verdict
  --     pace       the pace's numbers
  --
  -- Each push doubles the spacing at most once, even if workers report its 429 several times. So the spacing is doubled
  -- only if a send verdict came after the last recorded 429, or if the clock was set back.
  local function throttleAfter(throttle, sent, pace, now)
    local spacing, longest, recovery = read('<I3', pace), read('<I3I3', pace, 21)
    local doublings, throttledAt = 0, 0
    if throttle ~= '' then
      doublings, throttledAt = read('<BI6', throttle)
      if sent <= throttledAt and now >= throttledAt then return nil end
    end
    doublings = now < throttledAt and 0 or math.max(doublings - math.floor((now - throttledAt) / recovery), 0)
    if spacing * 2 ^ doublings < longest then doublings = math.min(doublings + 1, @DOUBLINGS_MAX@) end
    return pack('<BI6', doublings, now)
  end

  -- Performs a settlement of an existing activity. Changes the digest and the state in place; if it changes another part,
  -- it writes the whole value. Returns the reply: an error; or 1 if the token was retired, else 0. If audiences may not
  -- know yet that the activity left them, the reply goes on with `=`, the time of the registration, and their digests. The
  -- reply to a 429 never has this part.
  --
  -- `value` has at least @RECORD_BYTES@ bytes. The loop in admit-batches.lua has read from the value:
  --     shown                  the digest of the shown state
  --     stateAndSent           the byte of the state + @SENT_FACTOR@ * the time of the last send verdict
  --     newest                 the timestamp of the newest version
  -- The settlement:
  --     version, digest        the version, and the digest of its state
  --     code                   what the settlement reports (SettlementCode)
  --     pace                   of a 429: the pace's numbers
  --     token, tokenAt, form   the token to retire, the time before which it must have been registered, its form; or nil
  --     alert                  the version of the command whose alert APNs accepted; or nil
  local function settle(key, value, shown, stateAndSent, newest, version, digest, code, pace, token, tokenAt, form, alert, now)
    local lifeEnd, tokenLength, flags = read('<I4I2B', value)
    local stateByte, last = stateAndSent % @SENT_FACTOR@, newest
    local state = stateByte % @HAS_DRAWN@
    if state < @OWN_TIMESTAMP@ then state, last = state + @OWN_TIMESTAMP@, read('<I5', value, @ASSIGNED@) end
    local ended = state < @SENDING@
    if ended then state = state + @UPPER_CASE@ end
    local alertAt, audiencesAt, throttleAt, startAt, heldAt, retired, audiences, formerAudiences =
      findParts(value, tokenLength, flags, state)
    if not alertAt then return MALFORMED end

    -- What the settlement changes. If `throttle` or `start` is nil, the part about the last 429 or about the start stays.
    local nextState, nextShown, throttle, start, frees = state, shown, nil, nil, false
    local same = state ~= @NO_VERSION@ and sub(value, @VERSION@, @FULL_AT@ - 1) == version
    if code == @THROTTLED@ then
      if lifeEnd > 0 then
        local sent = (stateAndSent - stateByte) / @SENT_FACTOR@
        throttle = throttleAfter(sub(value, throttleAt, startAt - 1), sent, pace, now)
      end
    elseif code < @THROTTLED@ then
      if same then
        nextState, frees = stateAfter(code, state), heldAt <= #value
        if code == @ACCEPTED@ then nextShown = digest end
      end
      -- If the settled version is a start that is not accepted yet, the part about the start has 27 bytes, because it
      -- still has a claim. An acceptance removes the claim. Any other settlement only writes `s` into this part.
      if heldAt - startAt == 27 and sub(value, startAt, startAt + 12) == version then
        start = code == @ACCEPTED@ and version or version .. 's' .. sub(value, startAt + 14, heldAt - 1)
      end
    end
    local retires = token and form == flags % @ALLOWS_FREQUENT@ and sub(value, @TOKEN@, alertAt - 1) == token
      and read('<I6', value, @REGISTERED_AT@) < tokenAt
    local rings = alert and code == @ACCEPTED@
      and (alertAt == audiencesAt or isNewer(alert, sub(value, alertAt, audiencesAt - 1)))
    -- Whether the activity leaves its audiences because its end was accepted.
    local leavesAtEnd = audiences and audiences ~= '' and code == @ACCEPTED@ and same and ended and not retires

    -- The bits of the state's byte beside the letter.
    local bits = stateByte >= @HAS_DRAWN@ and @HAS_DRAWN@ or 0
    if last ~= newest then bits = bits - @OWN_TIMESTAMP@ end
    if ended then bits = bits - @UPPER_CASE@ end
    if throttle or start or frees or rings or retires or leavesAtEnd then
      local tokenAfter, formAfter = sub(value, @TOKEN@, alertAt - 1), flags % @HAS_THROTTLE@
      local registeredAt = read('<I6', value, @REGISTERED_AT@)
      if retires then
        -- The value keeps the beginning of the token's SHA-1, so that a command with this token does not bring it back.
        tokenAfter, formAfter, retired = '', formAfter - form, sub(redis.sha1hex(token .. string.char(form)), 1, @RETIRED_BYTES@)
      end
      if retires or leavesAtEnd then
        -- The stored time of the registration grows by a millisecond. So if the same registration is delivered again,
        -- it is stale, and brings back neither the token nor the audiences.
        registeredAt = math.min(registeredAt + 1, @TIME_MAX@)
        if audiences then audiences, formerAudiences, nextShown = '', formerAudiences .. audiences, 0 end
      end
      value = joinParts(lifeEnd, formAfter,
        pack('<I6B', nextShown, nextState + bits) .. sub(value, @STATE@ + 1, @REGISTERED_AT@ - 1), registeredAt,
        tokenAfter, rings and alert or sub(value, alertAt, audiencesAt - 1), audiences or '', formerAudiences or '', retired,
        throttle or sub(value, throttleAt, startAt - 1), start or sub(value, startAt, heldAt - 1), frees and '' or sub(value, heldAt))
      local written = call('SET', key, value, 'PX', '@ACTIVITY_LIFETIME_MILLISECONDS@')
      if written.err then return written end
    elseif nextState ~= state or nextShown ~= shown then
      local written = call('SETRANGE', key, '7', pack('<I6B', nextShown, nextState + bits))
      if written ~= #value then return tonumber(written) and MALFORMED or written end
    end
    local reply = retires and 1 or 0
    if formerAudiences and formerAudiences ~= '' and code ~= @THROTTLED@ then
      reply = reply .. '=' .. sub(value, @REGISTERED_AT@, @TOKEN@ - 1) .. formerAudiences
    end
    return reply
  end

  return settle
end
