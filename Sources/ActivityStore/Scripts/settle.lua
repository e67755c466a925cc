-- The script `settle`, for devices: removes a finished start if Redis holds it, and at the same time may retire the
-- start's token (R17); or refunds the draw of a start that was not sent. Settlements of activities come with
-- admissions, see admit-settlements.lua. The variables `s`, `w`, `t`, `u` and `l` have the names of the device's fields
-- (admit-devices.lua).
--
-- The script never creates a hash. It only changes hashes that `admit` has written, so it leaves the expiry as
-- `admit` set it. The arguments are: the event; the suffix of the fields (`:` and the attributes type); the
-- start's activity; and, if a token must be retired, the token's two parts and the time before which it must
-- have been registered (empty: any time). The event is an outcome's letter and the version. A refund has no argument
-- but the event, which is then `g`, the bucket's numbers and the draw. The reply is 1 if the token was retired, else 0.
--
-- A refund gives back only the part of a draw that time has not refilled yet. So the bucket is never fuller than
-- without the draw. The field `s` has the time at which the bucket will be full, and after it the sum of all refunds.
-- Each refund lowers the time and raises the sum by the same amount, so only a draw changes time + sum. Therefore a
-- call names its draw by the value of time + sum after the draw. This value minus the present sum is when time will
-- have refilled the draw. Without the sum of the refunds in the name, a start could be sent some milliseconds too
-- early, if one draw was refunded while another was made.
--
-- The script raises the registration time of a retired token by a millisecond, so that a repeated delivery of
-- its registration is stale. It keeps the token in the field `d`, so that a start with the same token does not
-- bring the token back. The device leaves the audiences that only the registration of this attributes type
-- names. If the call names a token, and some audiences may not know yet that the device left them, the reply has
-- a `=` and the field `l` after the 1 or 0.

local key, event = KEYS[1], ARGV[1]
local byte, sub, callRedis = string.byte, string.sub, redis.call
local outcome, suffix = byte(event), ARGV[2]

if outcome == @REFUND@ then
  local s = callRedis('HGET', key, 's')
  if s and s ~= '' then
    local time, fullAt, refundedSum = callRedis('TIME'), sub(s, 1, 13), sub(s, 14)
    refundedSum = refundedSum == '' and 0 or refundedSum + 0
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local refund = math.min(struct.unpack('<I3', event, 2), sub(event, 9) - refundedSum - now)
    if refund > 0 then
      callRedis('HSET', key, 's', string.format('%013.0f%013.0f', math.max(fullAt - refund, 0),
        math.min(refundedSum + refund, @TIME_MAX@)))
    end
  end
  return 0
end

local changes, changeCount, retiredCount = {}, 0, 0
local w = callRedis('HGET', key, 'w' .. suffix)
local t, u
if ARGV[4] then t, u = unpack(callRedis('HMGET', key, 't' .. suffix, 'u' .. suffix)) end
local keptStarts, position = {}, 1
while w and position <= #w do
  local start, activityLength, commandLength = position, struct.unpack('<I2I4', w, position)
  position = start + 36 + activityLength + commandLength
  local isOver = sub(w, start + 6, start + 35) == sub(event, 2)
    and sub(w, start + 36, start + 35 + activityLength) == ARGV[3]
  if isOver then
    changes, changeCount = {'w' .. suffix}, 2
  else
    keptStarts[#keptStarts + 1] = sub(w, start, position - 1)
  end
end
if changeCount > 0 then changes[2] = table.concat(keptStarts) end
if t and sub(t, 14) == ARGV[4] and u == ARGV[5] then
  local registeredAt = sub(t, 1, 13)
  if ARGV[6] == '' or registeredAt < ARGV[6] then
    for field, value in pairs({
      t = string.format('%013.0f', math.min(registeredAt + 1, @TIME_MAX@)), u = '', d = ARGV[4] .. ARGV[5],
    }) do
      changes[changeCount + 1], changes[changeCount + 2], changeCount = field .. suffix, value, changeCount + 2
    end
    retiredCount = 1
  end
end
local l = ARGV[4] and callRedis('HGET', key, 'l') or ''
local formerAudiences = retiredCount == 1 and callRedis('HGET', key, 'm' .. suffix) or ''
if formerAudiences ~= '' then
  changes[changeCount + 1], changes[changeCount + 2], changeCount = 'm' .. suffix, '', changeCount + 2
  local fields = callRedis('HGETALL', key)
  fields[#fields + 1], fields[#fields + 2] = 'm:', sub(l, 7)
  for index = 1, #fields, 2 do
    if sub(fields[index], 1, 2) == 'm:' and fields[index] ~= 'm' .. suffix then
      formerAudiences = without(formerAudiences, fields[index + 1])
    end
  end
end
if formerAudiences ~= '' then
  local leftAtBefore = #l > 6 and struct.unpack('<I6', l) or 0
  local registeredAt = math.min(sub(t, 1, 13) + 1, @TIME_MAX@)
  l = struct.pack('<I6', math.max(registeredAt, leftAtBefore + 1)) .. sub(l, 7) .. formerAudiences
  changes[changeCount + 1], changes[changeCount + 2] = 'l', l
end
if changes[1] then callRedis('HSET', key, unpack(changes)) end
return #l > 6 and retiredCount .. '=' .. l or retiredCount
