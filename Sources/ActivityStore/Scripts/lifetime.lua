-- The script `lifetime`: notes when activities began whose policy limits their lifetime, and forgets those that ended.
--
-- KEYS[1] is a timetable: a sorted set of activities by the time at which they are due (LifetimeKey.swift). The hash beside it, whose
-- key has a `+` at the end, has for each of these activities three words: `b` if a start began it, `a` if it was first seen alive,
-- `r` if it waits for a new start; when that was; and how often it was claimed since it is due. If its policy starts it again, two
-- more hashes have its newest start (`*`) and the newest update that it shows (`=`), each behind its version. ARGV[1] is the
-- operation, ARGV[2] the activity's key. The clock of the server is not needed: a note that is repeated after hours says the same.

local timetable, lives = KEYS[1], KEYS[1] .. '+'
local operation, activity, at = ARGV[1], ARGV[2], ARGV[3]
local life = redis.call('HGET', lives, activity)
local kind, began
if life then kind, began = string.match(life, '^(%a) (%d+)') end

if operation == 'c' then return began == at and 'retry' or 'superseded' end

local function put(letter, due)
  redis.call('ZADD', timetable, due, activity)
  redis.call('HSET', lives, activity, letter .. ' ' .. at .. ' 0')
  redis.call('PEXPIRE', timetable, @ACTIVITY_LIFETIME_MILLISECONDS@)
  redis.call('PEXPIRE', lives, @ACTIVITY_LIFETIME_MILLISECONDS@)
end

local function forget()
  redis.call('HDEL', timetable .. '*', activity)
  redis.call('HDEL', timetable .. '=', activity)
end

if operation == 'o' or operation == 'e' then
  if not life or operation == 'e' and began ~= at then return 'settled' end
  if ARGV[4] and redis.call('HEXISTS', timetable .. '*', activity) == 1 then
    at = ARGV[4]
    put('r', at)
  else
    redis.call('ZREM', timetable, activity)
    redis.call('HDEL', lives, activity)
    forget()
  end
  return 'settled'
end

if operation ~= 'm' then
  -- A time that a start told is exact. Of the others the earliest counts, in whichever order they come: records are read again when
  -- the server has lost data. Only a start's note ends the wait for it.
  local isKnown = kind == 'b' and (operation == 'a' or at + 0 <= began + 0)
    or operation == 'a' and (kind == 'r' or kind == 'a' and at + 0 >= began + 0)
  if not isKnown then
    if operation == 'b' then forget() end
    put(operation, at + ARGV[4])
    life = true
  end
end

local part, version, command = ARGV[5], ARGV[6], ARGV[7]
if part and life then
  local kept = timetable .. part
  local former = redis.call('HGET', kept, activity)
  if not former or string.sub(former, 1, #version) <= version then
    redis.call('HSET', kept, activity, version .. command)
    redis.call('PEXPIRE', kept, @ACTIVITY_LIFETIME_MILLISECONDS@)
  end
end
return 'settled'
