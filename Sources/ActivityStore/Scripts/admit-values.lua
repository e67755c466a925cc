-- This file is a part of the script `admit` (admit.lua): functions that read and write the parts of an activity's value.
-- StoredActivity.swift lists the parts. The functions use no variables from outside (admit-batches.lua: Speed).

-- Finds the parts of a value of at least @RECORD_BYTES@ bytes. `tokenLength` is the number in bytes 5 and 6, `flags` is
-- byte 7, and `state` is the letter of the state. Returns nil if the value's length is not the sum of its parts. Otherwise
-- returns:
--     where the accepted alert begins, which is the end of the token
--     where the part about audiences begins
--     where the part about the last 429 begins
--     where the part about the start begins
--     where the held command begins
--     the beginning of the SHA-1 of the last token that was retired; empty if there is none
--     the digests of the activity's audiences; nil if the value has no part about audiences
--     the digests of the audiences that may not know yet that the activity left them; nil in the same case
-- The part about audiences and the part about the last retired token are between the accepted alert and the part about
-- the last 429. If a part does not exist, the next one begins at the same place.
local function findParts(value, tokenLength, flags, state)
  local alertLength, retired, audiences, formerAudiences = 0, '', nil, nil
  if tokenLength >= @AUDIENCES@ then
    if tokenLength >= @ACCEPTED_ALERT@ then tokenLength, alertLength = tokenLength - @ACCEPTED_ALERT@, @VERSION_BYTES@ end
    if tokenLength >= @AUDIENCES@ then tokenLength, audiences = tokenLength - @AUDIENCES@, '' end
  end
  local alertAt = @TOKEN@ + tokenLength
  local audiencesAt = alertAt + alertLength
  local throttleAt = audiencesAt
  if audiences then
    local count, leftCount = value:byte(audiencesAt, audiencesAt + 1)
    if not leftCount then return nil end
    throttleAt = audiencesAt + 2 + 8 * (count + leftCount)
    audiences = value:sub(audiencesAt + 2, audiencesAt + 1 + 8 * count)
    formerAudiences = value:sub(throttleAt - 8 * leftCount, throttleAt - 1)
  end
  if flags >= @HAS_RETIRED_TOKEN@ then
    retired = value:sub(throttleAt, throttleAt + @RETIRED_BYTES@ - 1)
    flags, throttleAt = flags - @HAS_RETIRED_TOKEN@, throttleAt + @RETIRED_BYTES@
  end
  local startAt, heldAt = throttleAt, throttleAt
  if flags >= @HAS_THROTTLE@ then
    local hasClaim = flags % @HAS_START@ >= @HAS_CLAIM@
    if hasClaim and flags < @HAS_START@ then return nil end
    if flags % @HAS_CLAIM@ >= @HAS_THROTTLE@ then startAt = throttleAt + 7 end
    heldAt = flags >= @HAS_START@ and startAt + (hasClaim and 27 or 13) or startAt
  end
  local heldLength = #value + 1 - heldAt
  if state >= @HELD@ and (state <= @SENDING_HELD_ALERT@ or state >= @WAITING_OLDER_ALERT@) then
    if heldLength <= 30 then return nil end
  elseif heldLength ~= 0 then
    return nil
  end
  return alertAt, audiencesAt, throttleAt, startAt, heldAt, retired, audiences, formerAudiences
end

-- Returns the value that has these parts. An empty part adds no bytes, and its flag is not set.
--     form      the token's form, plus @ALLOWS_FREQUENT@ if the activity may have frequent updates
--     middle    the bytes from the digest to the last assigned timestamp
local function joinParts(lifeEnd, form, middle, registeredAt, token, alert, audiences, formerAudiences, retired, throttle, start, held)
  local flags, tokenLength, lists = form, #token, ''
  if alert ~= '' then tokenLength = tokenLength + @ACCEPTED_ALERT@ end
  if audiences ~= '' or formerAudiences ~= '' then
    tokenLength = tokenLength + @AUDIENCES@
    lists = string.char(#audiences / 8, #formerAudiences / 8) .. audiences .. formerAudiences
  end
  if throttle ~= '' then flags = flags + @HAS_THROTTLE@ end
  if start ~= '' then flags = flags + (#start > 13 and @HAS_START@ + @HAS_CLAIM@ or @HAS_START@) end
  if retired ~= '' then flags = flags + @HAS_RETIRED_TOKEN@ end
  return struct.pack('<I4I2B', lifeEnd, tokenLength, flags) .. middle .. struct.pack('<I6', registeredAt)
    .. token .. alert .. lists .. retired .. throttle .. start .. held
end
