-- The script `settle`, for devices. It has two tasks. It removes a finished start if Redis holds it, and may also
-- retire the start's token (R17). Or it refunds the draw of a start that was not sent. Settlements of activities come
-- with admissions (admit-settlements.lua). The variables `s`, `w`, `t`, `u` and `l` have the names of the device's
-- fields (admit-devices.lua).
--
-- Arguments. A refund has one: the letter `g`, the bucket's numbers and the draw. Any other settlement has three: the
-- letter of the outcome and the version; the suffix of the fields (`:` and the attributes type); and the start's
-- activity. If a token must be retired, three more follow: the token's two parts, and a time. The token is retired only
-- if it was registered before this time; if the time is empty, it is retired in any case. The reply is 1 if the token
-- was retired, otherwise 0.
--
-- Expiry. The script never creates a hash. It only changes hashes that `admit` has written, and leaves their expiry.
--
-- Refunds. A refund gives back only the part of a draw that has not been refilled yet. So the bucket is never fuller
-- than without the draw. The field `s` has the time at which the bucket will be full, and then the sum of all refunds.
-- Each refund lowers the time and raises the sum by the same amount, so only a draw changes time + sum. Therefore the
-- name of a draw is the value of time + sum after the draw. The name minus the present sum is the time at which the
-- draw will be refilled. An example with two draws of 3,000 ms each from a bucket that is full at 1,000: the first draw
-- has the name 4,000, the second 7,000. A refund of the first lowers the time from 7,000 to 4,000 and raises the sum to
-- 3,000. So the second draw will be refilled at 7,000 - 3,000 = 4,000. Without the sum, the result would be 7,000, and
-- a refund of the second draw could give back too much.
--
-- Tokens. The script raises the registration time of a retired token by a millisecond. So if its registration is
-- delivered again, this registration is stale. The field `d` keeps the token, so that no start brings the token back.
-- The device leaves the audiences that only the registration of this attributes type names. The time of this departure
-- is a millisecond above the latest registration time of all types: another type, whose token is dead too, may have
-- named the audiences later, and an audience ignores a departure that is older than the member's last entry.
--
-- If the call names a token, and the device has departures that no worker has confirmed, the reply has a `=` and the
-- field `l` after the 1 or 0.

local key, firstArgument = KEYS[1], ARGV[1]
local byte, sub, callRedis = string.byte, string.sub, redis.call
local outcome, suffix, activity = byte(firstArgument), ARGV[2], ARGV[3]
local beginningOfToken, restOfToken, invalidAt = ARGV[4], ARGV[5], ARGV[6]

if outcome == @REFUND@ then
  local s = callRedis('HGET', key, 's')
  if s and s ~= '' then
    local time, fullAt, refundedSum = callRedis('TIME'), sub(s, 1, @TIME_DIGITS@), sub(s, @TIME_DIGITS@ + 1)
    refundedSum = refundedSum == '' and 0 or refundedSum + 0
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local refund = math.min(struct.unpack('<I3', firstArgument, 2), sub(firstArgument, 9) - refundedSum - now)
    if refund > 0 then
      callRedis('HSET', key, 's', string.format('%0@TIME_DIGITS@.0f%0@TIME_DIGITS@.0f', math.max(fullAt - refund, 0),
        math.min(refundedSum + refund, @TIME_MAX@)))
    end
  end
  return 0
end

local changes, changeCount, retiredCount = {}, 0, 0
local w = callRedis('HGET', key, 'w' .. suffix)
local t, u
if beginningOfToken then t, u = unpack(callRedis('HMGET', key, 't' .. suffix, 'u' .. suffix)) end
local keptStarts, position = {}, 1
while w and position <= #w do
  local heldVersion, heldActivity, _, nextPosition = readHeldStart(w, position)
  if heldVersion == sub(firstArgument, 2) and heldActivity == activity then
    changes, changeCount = {'w' .. suffix}, 2
  else
    keptStarts[#keptStarts + 1] = sub(w, position, nextPosition - 1)
  end
  position = nextPosition
end
if changeCount > 0 then changes[2] = table.concat(keptStarts) end
if t and sub(t, @TIME_DIGITS@ + 1) == beginningOfToken and u == restOfToken then
  local registeredAt = sub(t, 1, @TIME_DIGITS@)
  if invalidAt == '' or invalidAt ~= registeredAt and not isOlderRegistration(invalidAt + 0, registeredAt + 0) then
    for field, value in pairs({
      t = string.format('%0@TIME_DIGITS@.0f', math.min(registeredAt + 1, @TIME_MAX@)), u = '',
      d = beginningOfToken .. restOfToken,
    }) do
      changes[changeCount + 1], changes[changeCount + 2], changeCount = field .. suffix, value, changeCount + 2
    end
    retiredCount = 1
  end
end
local l = beginningOfToken and callRedis('HGET', key, 'l') or ''
local formerAudiences = retiredCount == 1 and callRedis('HGET', key, 'm' .. suffix) or ''
local latestRegistrationAt = 0
if formerAudiences ~= '' then
  changes[changeCount + 1], changes[changeCount + 2], changeCount = 'm' .. suffix, '', changeCount + 2
  local fields = callRedis('HGETALL', key)
  fields[#fields + 1], fields[#fields + 2] = 'm:', sub(l, @TIME_BYTES@ + 1)
  for index = 1, #fields, 2 do
    local fieldKind = sub(fields[index], 1, 2)
    if fieldKind == 'm:' and fields[index] ~= 'm' .. suffix then
      formerAudiences = without(formerAudiences, fields[index + 1])
    elseif fieldKind == 't:' then
      latestRegistrationAt = math.max(latestRegistrationAt, sub(fields[index + 1], 1, @TIME_DIGITS@) + 0)
    end
  end
end
if formerAudiences ~= '' then
  local leftAtBefore = #l > @TIME_BYTES@ and struct.unpack('<I6', l) or 0
  local leftAt = math.max(math.min(latestRegistrationAt + 1, @TIME_MAX@), leftAtBefore + 1)
  l = struct.pack('<I6', leftAt) .. sub(l, @TIME_BYTES@ + 1) .. formerAudiences
  changes[changeCount + 1], changes[changeCount + 2] = 'l', l
end
if changes[1] then callRedis('HSET', key, unpack(changes)) end
return #l > @TIME_BYTES@ and retiredCount .. '=' .. l or retiredCount
