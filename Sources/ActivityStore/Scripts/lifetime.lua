-- The script `lifetime`: notes when activities began whose policy limits their lifetime, and forgets those that ended.
--
-- KEYS[1] is a timetable: a sorted set of activities by the time at which they are due (LifetimeKey.swift). The hash beside it, whose
-- key has a `+` at the end, has for each of these activities three words: `b` if a start began it, `a` if it was first seen alive;
-- when that was; and how often it was claimed since it is due. ARGV[1] is the operation, ARGV[2] the activity's key. The clock of
-- the server is not needed: a note that is repeated after hours says the same.

local timetable, lives = KEYS[1], KEYS[1] .. '+'
local operation, activity, at = ARGV[1], ARGV[2], ARGV[3]
local life = redis.call('HGET', lives, activity)
local kind, began
if life then kind, began = string.match(life, '^(%a) (%d+)') end

if operation == 'c' then return began == at and 'retry' or 'superseded' end

if operation == 'o' or operation == 'e' then
  if life and (operation == 'o' or began == at) then
    redis.call('ZREM', timetable, activity)
    redis.call('HDEL', lives, activity)
  end
  return 'settled'
end

-- A time that a start told is exact. Of the others the earliest counts, in whichever order they come: records are read again when
-- the server has lost data.
local isKnown = kind == 'b' and (operation == 'a' or at + 0 <= began + 0) or operation == 'a' and kind == 'a' and at + 0 >= began + 0
if not isKnown then
  redis.call('ZADD', timetable, at + ARGV[4], activity)
  redis.call('HSET', lives, activity, operation .. ' ' .. at .. ' 0')
  redis.call('PEXPIRE', timetable, @ACTIVITY_LIFETIME_MILLISECONDS@)
  redis.call('PEXPIRE', lives, @ACTIVITY_LIFETIME_MILLISECONDS@)
end
return 'settled'
