-- This file is a part of the script `admit` (admit.lua): functions that read and write the parts of an activity's
-- value. StoredActivity.swift lists the parts. The functions use only their parameters and global libraries, because
-- Redis takes longer to make a function that uses the script's local variables (admit.lua: Speed).

-- Splits the byte of the phase into a letter and bits (admit.lua: Phases). Returns the phase of the newest version as a
-- lower-case letter, whether this version is an end, and `keptBits`. A new letter plus `keptBits` is the byte of the
-- new phase with the same bits.
local function splitPhase(phaseByte)
  local phase = phaseByte % @HAS_DRAWN@
  if phase < @OWN_TIMESTAMP@ then phase = phase + @OWN_TIMESTAMP@ end
  local newestIsEnd = phase < @SENDING@
  if newestIsEnd then phase = phase + @UPPER_CASE@ end
  return phase, newestIsEnd, phaseByte - phase
end

-- Finds the parts of a value of at least @FIXED_BYTES@ bytes. `tokenLengthAndFlags` is the number in bytes 5 and 6 (the
-- length of the token, with flags), `flags` is byte 7, and `phase` is the letter of the newest version's phase. Returns
-- nil if the value's length is not the sum of its parts. Otherwise returns:
--     tokenEnd          the last byte of the token; the accepted alert follows
--     startPosition     where the part about the start begins; the held command follows
--     heldPosition      where the held command begins; behind the value if there is none
--     alert             the accepted alert
--     audiences         the digests of the activity's audiences; nil if the value has no part about audiences
--     formerAudiences   the digests of the audiences that the activity left, until a worker confirms that each of
--                       them has an entry about this; nil if `audiences` is nil
--     retired           the beginning of the SHA-1 of the last token that was retired
--     throttle          the part about the last 429
-- A part that does not exist is ''.
local function findParts(value, tokenLengthAndFlags, flags, phase)
  local alert, audiences, formerAudiences, retired, throttle = '', nil, nil, '', ''
  local tokenEnd = @AT_TOKEN@ - 1 + tokenLengthAndFlags % @TOKEN_LENGTH_MODULUS@
  local partPosition = tokenEnd + 1
  if tokenLengthAndFlags >= @HAS_ACCEPTED_ALERT@ then
    alert, partPosition = value:sub(partPosition, partPosition + @VERSION_BYTES@ - 1), partPosition + @VERSION_BYTES@
  end
  if tokenLengthAndFlags % @HAS_AUDIENCES_MODULUS@ >= @HAS_AUDIENCES@ then
    local count, formerCount = value:byte(partPosition, partPosition + 1)
    if not formerCount then return nil end
    local formerPosition = partPosition + 2 + @AUDIENCE_DIGEST_BYTES@ * count
    audiences = value:sub(partPosition + 2, formerPosition - 1)
    partPosition = formerPosition + @AUDIENCE_DIGEST_BYTES@ * formerCount
    formerAudiences = value:sub(formerPosition, partPosition - 1)
  end
  local startPosition = partPosition
  -- Usually HAS_THROTTLE and the three higher flags are not set. Then the next parts do not exist.
  if flags >= @HAS_THROTTLE@ then
    if flags >= @HAS_RETIRED_TOKEN@ then
      retired, partPosition =
        value:sub(partPosition, partPosition + @RETIRED_BYTES@ - 1), partPosition + @RETIRED_BYTES@
    end
    if flags % @HAS_THROTTLE_MODULUS@ >= @HAS_THROTTLE@ then
      throttle, partPosition =
        value:sub(partPosition, partPosition + (@THROTTLE_BYTES@ - 1)), partPosition + @THROTTLE_BYTES@
    end
    local hasStart, hasClaim =
      flags % @HAS_START_MODULUS@ >= @HAS_START@, flags % @HAS_CLAIM_MODULUS@ >= @HAS_CLAIM@
    if hasClaim and not hasStart then return nil end
    startPosition = partPosition
    if hasStart then partPosition = partPosition + (hasClaim and @UNACCEPTED_START_BYTES@ or @VERSION_BYTES@) end
  end
  local heldLength = #value + 1 - partPosition
  if phase >= @HELD@ and (phase <= @SENDING_HELD_ALERT@ or phase >= @WAITING_OLDER_ALERT@) then
    if heldLength <= @VERSION_TEXT_BYTES@ then return nil end
  elseif heldLength ~= 0 then
    return nil
  end
  return tokenEnd, startPosition, partPosition, alert, audiences, formerAudiences, retired, throttle
end

-- Returns the last second in which updates are admitted; nil if the activity's life has not begun: neither a start nor
-- a token has come. `updatesUntilSeconds` is the number in bytes 1 to 4. Former releases also stored a number when a
-- command found no token. Such a number does not count. It can be recognized: the value has no start, no token and no
-- time of a registration.
-- The model decides the same: search for `decision: eight hours`.
local function readLastUpdateSecond(value, updatesUntilSeconds, form, hasStart)
  local hasLifeBegun =
    updatesUntilSeconds > 0 and (form > 0 or hasStart or struct.unpack('<I6', value, @AT_REGISTERED@) > 0)
  return hasLifeBegun and updatesUntilSeconds or nil
end

-- Returns the last second in which updates are admitted, for a life that begins with a token, or with a start that is
-- read again. If the record is read again (R25), the life began at `writtenAt`: when the token's record was written, or
-- at the start's timestamp. Otherwise (`writtenAt` nil or false), and also if that time is in the future or longer ago
-- than a value is stored, the life begins now.
-- The model decides the same: search for `decision: eight hours`.
local function computeLastUpdateSecond(now, writtenAt)
  local counts = writtenAt and writtenAt < now and writtenAt >= now - @ACTIVITY_EXPIRY_MILLISECONDS@
  local beganAt = counts and writtenAt or now
  return (beganAt - beganAt % 1000) / 1000 + @UPDATE_PERIOD_SECONDS@
end

-- Returns a value that is made of these parts. An empty part adds no bytes, and its flag is not set.
--     form         the token's form, plus @ALLOWS_FREQUENT@ if the activity may have frequent updates
--     fixedPart    the bytes from the digest to the time of the registration, which every value has
--     parts        the other parts: token, alert, audiences, formerAudiences, retired, throttle, start, held
local function joinParts(updatesUntilSeconds, form, fixedPart, parts)
  local token, alert, audiences, formerAudiences = parts.token, parts.alert, parts.audiences, parts.formerAudiences
  local retired, throttle, start, lists = parts.retired, parts.throttle, parts.start, ''
  local tokenLengthAndFlags, flags = #token, form
  if alert ~= '' then tokenLengthAndFlags = tokenLengthAndFlags + @HAS_ACCEPTED_ALERT@ end
  if audiences ~= '' or formerAudiences ~= '' then
    tokenLengthAndFlags = tokenLengthAndFlags + @HAS_AUDIENCES@
    lists = string.char(#audiences / @AUDIENCE_DIGEST_BYTES@, #formerAudiences / @AUDIENCE_DIGEST_BYTES@)
      .. audiences .. formerAudiences
  end
  if throttle ~= '' then flags = flags + @HAS_THROTTLE@ end
  if start ~= '' then flags = flags + (#start > @VERSION_BYTES@ and @HAS_START@ + @HAS_CLAIM@ or @HAS_START@) end
  if retired ~= '' then flags = flags + @HAS_RETIRED_TOKEN@ end
  return struct.pack('<I4I2B', updatesUntilSeconds, tokenLengthAndFlags, flags) .. fixedPart
    .. token .. alert .. lists .. retired .. throttle .. start .. parts.held
end
