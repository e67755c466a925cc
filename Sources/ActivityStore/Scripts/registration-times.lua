-- This file is a part of the scripts `admit` and `settle`, which both compare the times of registrations. The program
-- joins the parts of a script, because a script of Redis cannot load another one.

-- Whether a registration or an unregistration at `time` is older than the stored one, so that it changes nothing.
-- Former releases also stored times of clocks that are days ahead. A stored time more than @REGISTRATION_LEAD_MAX@ ms
-- ahead of the server's clock counts as unknown, or no registration would change anything until then. Of two times that
-- are both too far ahead, the earlier one is older, so that a repeated registration still changes nothing.
-- RegistrationTime.swift decides the same in Swift.
local function isOlderRegistration(time, storedTime)
  if time >= storedTime then return false end
  local callRedis = redis.pcall
  local serverTime = callRedis('TIME')
  local latestTime = serverTime[1] * 1000 + math.floor(serverTime[2] / 1000) + @REGISTRATION_LEAD_MAX@
  return storedTime <= latestTime or time > latestTime
end
