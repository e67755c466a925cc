-- This file is a part of the script `admit` (admit.lua): functions that read and write the parts of an activity's
-- value. StoredActivity.swift lists the parts. The functions use no variables from outside (admit.lua: Speed).

-- Finds the parts of a value of at least @FIXED_BYTES@ bytes. `tokenLength` is the number in bytes 5 and 6 (the length
-- of the token, with flags), `flags` is byte 7, and `phase` is the letter of the newest version's phase. Returns nil if
-- the value's length is not the sum of its parts. Otherwise returns:
--     tokenEnd          the last byte of the token; the accepted alert follows
--     startAt           where the part about the start begins; the held command follows
--     heldAt            where the held command begins; behind the value if there is none
--     alert             the accepted alert
--     audiences         the digests of the activity's audiences; nil if the value has no part about audiences
--     formerAudiences   the digests of the audiences that may not know yet that the activity left them; nil if
--                       `audiences` is nil
--     retired           the beginning of the SHA-1 of the last token that was retired
--     throttle          the part about the last 429
-- A part that does not exist is ''.
local function findParts(value, tokenLength, flags, phase)
  local alert, audiences, formerAudiences, retired, throttle = '', nil, nil, '', ''
  local tokenEnd = @AT_TOKEN@ - 1 + tokenLength % @TOKEN_LENGTH_MODULUS@
  local partAt = tokenEnd + 1
  if tokenLength >= @HAS_ACCEPTED_ALERT@ then
    alert, partAt = value:sub(partAt, partAt + @VERSION_BYTES@ - 1), partAt + @VERSION_BYTES@
  end
  if tokenLength % @HAS_AUDIENCES_MODULUS@ >= @HAS_AUDIENCES@ then
    local count, formerCount = value:byte(partAt, partAt + 1)
    if not formerCount then return nil end
    local formerAt = partAt + 2 + @AUDIENCE_DIGEST_BYTES@ * count
    audiences = value:sub(partAt + 2, formerAt - 1)
    partAt = formerAt + @AUDIENCE_DIGEST_BYTES@ * formerCount
    formerAudiences = value:sub(formerAt, partAt - 1)
  end
  local startAt = partAt
  -- Whether any of the four flags from HAS_THROTTLE up is set. Each one is tested below.
  if flags >= @HAS_THROTTLE@ then
    if flags >= @HAS_RETIRED_TOKEN@ then
      retired, partAt = value:sub(partAt, partAt + @RETIRED_BYTES@ - 1), partAt + @RETIRED_BYTES@
    end
    if flags % @HAS_THROTTLE_MODULUS@ >= @HAS_THROTTLE@ then
      throttle, partAt = value:sub(partAt, partAt + (@THROTTLE_BYTES@ - 1)), partAt + @THROTTLE_BYTES@
    end
    local hasStart, hasClaim =
      flags % @HAS_START_MODULUS@ >= @HAS_START@, flags % @HAS_CLAIM_MODULUS@ >= @HAS_CLAIM@
    if hasClaim and not hasStart then return nil end
    startAt = partAt
    if hasStart then partAt = partAt + (hasClaim and @UNACCEPTED_START_BYTES@ or @VERSION_BYTES@) end
  end
  local heldLength = #value + 1 - partAt
  if phase >= @HELD@ and (phase <= @SENDING_HELD_ALERT@ or phase >= @WAITING_OLDER_ALERT@) then
    if heldLength <= @VERSION_TEXT_BYTES@ then return nil end
  elseif heldLength ~= 0 then
    return nil
  end
  return tokenEnd, startAt, partAt, alert, audiences, formerAudiences, retired, throttle
end

-- Returns a value that is made of these parts. An empty part adds no bytes, and its flag is not set.
--     form         the token's form, plus @ALLOWS_FREQUENT@ if the activity may have frequent updates
--     fixedPart    the bytes from the digest to the time of the registration, which every value has
--     parts        the other parts: token, alert, audiences, formerAudiences, retired, throttle, start, held
local function joinParts(lifeEnd, form, fixedPart, parts)
  local token, alert, audiences, formerAudiences = parts.token, parts.alert, parts.audiences, parts.formerAudiences
  local retired, throttle, start, lists = parts.retired, parts.throttle, parts.start, ''
  local tokenLength, flags = #token, form
  if alert ~= '' then tokenLength = tokenLength + @HAS_ACCEPTED_ALERT@ end
  if audiences ~= '' or formerAudiences ~= '' then
    tokenLength = tokenLength + @HAS_AUDIENCES@
    lists = string.char(#audiences / @AUDIENCE_DIGEST_BYTES@, #formerAudiences / @AUDIENCE_DIGEST_BYTES@)
      .. audiences .. formerAudiences
  end
  if throttle ~= '' then flags = flags + @HAS_THROTTLE@ end
  if start ~= '' then flags = flags + (#start > @VERSION_BYTES@ and @HAS_START@ + @HAS_CLAIM@ or @HAS_START@) end
  if retired ~= '' then flags = flags + @HAS_RETIRED_TOKEN@ end
  return struct.pack('<I4I2B', lifeEnd, tokenLength, flags) .. fixedPart
    .. token .. alert .. lists .. retired .. throttle .. start .. parts.held
end
