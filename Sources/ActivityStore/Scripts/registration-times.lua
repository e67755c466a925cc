-- This file is a part of the scripts `admit` and `settle`, which both compare the times of registrations. The program
-- joins the parts of a script, because a script of Redis cannot load another one.

-- Whether a registration or an unregistration at `time` is older than the stored one, so that it changes nothing.
-- Former releases also stored the times of clocks that are days ahead. If a stored time is more than
-- @REGISTRATION_LEAD_MAX@ ms ahead of the server's clock, it counts as unknown: otherwise all registrations until then
-- would change nothing. Of two times that are both too far ahead, the earlier one is older, so that a repeated
-- registration still changes nothing. The clock is read only if `time` is earlier than the stored time.
-- RegistrationTime.swift decides the same in Swift.
local function isOlderRegistration(time, storedTime)
  if time >= storedTime then return false end
  local callRedis = redis.pcall
  local serverTime = callRedis('TIME')
  local latestTime = serverTime[1] * 1000 + math.floor(serverTime[2] / 1000) + @REGISTRATION_LEAD_MAX@
  return storedTime <= latestTime or time > latestTime
end
