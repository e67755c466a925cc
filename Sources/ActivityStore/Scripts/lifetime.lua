-- The script `lifetime`: notes when activities began whose policy limits their lifetime, and forgets those that ended.
--
-- KEYS[1] is a timetable: a sorted set of activities by the time at which they are due (LifetimeKey.swift). The hash beside it, whose
-- key has a `+` at the end, has for each of these activities three words: `b` if a start began it, `a` if it was first seen alive,
-- `r` if it waits for a new start; when that was; and how often it was claimed since it is due. If its policy starts it again, two
-- more hashes have its newest start (`*`) and the newest update that it shows (`=`), each behind its version. ARGV[1] is the
-- operation, ARGV[2] the activity's key. The clock of the server is not needed: a note that is repeated after hours says the same.
--
-- The operations: `b` a start began a life, `a` the activity was seen alive, `m` a newer state came after the end and is kept,
-- `e` the keeper's end has ended the life, `x` another end was admitted, `o` the life has ended, `c` does the life go on? The answer to `c`
-- is `retry` if it does, `superseded` if it does not. All others are answered with `settled`.

local call = redis.call
local timetable, lives = KEYS[1], KEYS[1] .. '+'
local operation, activity, at = ARGV[1], ARGV[2], ARGV[3]
local life = call('HGET', lives, activity)
local kind, began, claims
if life then kind, began, claims = string.match(life, '^(%a) (%d+) (%d+)$') end

-- Asks whether the life that a command names goes on. While the command is worked on and comes back from the deferred topic, the
-- activity is not claimed again: each check postpones the next claim by ARGV[4]. ARGV[5] is the version of the state that a start
-- has: a newer one may have come since it was made, and then another start is due at once.
if operation == 'c' then
  if began ~= at then return 'superseded' end
  local shown = ARGV[5] and call('HGET', timetable .. '=', activity)
  if shown and string.sub(shown, 1, #ARGV[5]) > ARGV[5] then
    call('ZADD', timetable, at, activity)
    return 'superseded'
  end
  local time = call('TIME')
  local lease = ARGV[4] * math.min(2 ^ math.max(0, claims - 1), @LEASE_FACTOR_MAX@)
  call('ZADD', timetable, time[1] * 1000 + math.floor(time[2] / 1000) + lease, activity)
  return 'retry'
end

local function put(letter, due)
  call('ZADD', timetable, due, activity)
  call('HSET', lives, activity, letter .. ' ' .. at .. ' 0')
  call('PEXPIRE', timetable, @ACTIVITY_LIFETIME_MILLISECONDS@)
  call('PEXPIRE', lives, @ACTIVITY_LIFETIME_MILLISECONDS@)
end

local function forgetCommands()
  call('HDEL', timetable .. '*', activity)
  call('HDEL', timetable .. '=', activity)
end

local function forget()
  call('ZREM', timetable, activity)
  call('HDEL', lives, activity)
  forgetCommands()
end

if operation == 'o' then
  if life then forget() end
  return 'settled'
end

-- Another end was admitted. Unless it is lost, it will say how the life ended.
if operation == 'x' then
  if began == at and claims + 0 >= @CLAIMS_MAX@ then forget() end
  return 'settled'
end

if operation == 'e' then
  if began ~= at then return 'settled' end
  if ARGV[4] and call('HEXISTS', timetable .. '*', activity) == 1 then
    at = ARGV[4]
    put('r', at)
  else
    forget()
  end
  return 'settled'
end

local part, version, command = ARGV[5], ARGV[6], ARGV[7]
local kept = part and timetable .. part
local former = part and call('HGET', kept, activity)

if operation ~= 'm' then
  -- A time that a start told is exact. Of the others the earliest counts, in whichever order they come: records are read again when
  -- the server has lost data. Only a start's note ends the wait for it.
  local isKnown = kind == 'b' and (operation == 'a' or at + 0 <= began + 0)
    or operation == 'a' and (kind == 'r' or kind == 'a' and at + 0 >= began + 0)
  if not isKnown then
    -- The start that the life waited for continues it. Any other start begins another life.
    if operation == 'b' and not (kind == 'r' and began == at) then
      forgetCommands()
      former = nil
    end
    put(operation, at + ARGV[4])
    life = true
  end
end

if part and life and (not former or string.sub(former, 1, #version) <= version) then
  call('HSET', kept, activity, version .. command)
  call('PEXPIRE', kept, @ACTIVITY_LIFETIME_MILLISECONDS@)
end
return 'settled'
