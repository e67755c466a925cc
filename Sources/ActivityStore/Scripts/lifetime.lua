-- The script `lifetime`: keeps the timetables of the activities whose policy limits their lifetime. It adds an
-- activity when its life begins, and removes it when the life has ended.
--
-- KEYS[1] is a timetable: a sorted set of activities by the time at which they are due (LifetimeKey.swift). ARGV[1] is
-- the operation, ARGV[2] the activity's key. The other arguments are in the table of operations. All times are
-- milliseconds. Only `check` reads the clock. The other operations have the same effect if they are repeated after
-- hours.
--
-- Three hashes belong to the timetable. Their keys are the timetable's key and one more character. KEYS[2] to KEYS[4]
-- are these keys, in the order of the table. While a hash slot moves to another server of a cluster, a key may be at
-- the other server, and seems to be missing here. Redis refuses such a call (TRYAGAIN), but only if KEYS has the key.
--
-- | hash | for each activity |
-- | --- | --- |
-- | + | its kind, a time and a count, see below |
-- | * | the version of its newest start, then the start's record; only if the policy restarts the activity |
-- | = | the same for its newest update: a restart shows the state of this update |
--
-- | kind | meaning | the time |
-- | --- | --- | --- |
-- | b | a start began the life | of the start |
-- | a | no start is known, but a record showed that the activity was alive | of the record |
-- | r | the life is over, and the activity waits for a restart | of the restart |
--
-- The count says how often workers have claimed the activity since this time was stored.
--
-- | operation | ARGV[3] and ARGV[4] | meaning |
-- | --- | --- | --- |
-- | began | the start's time, the lifetime | a start began a life |
-- | alive | the record's time, the lifetime | the activity was seen alive |
-- | updatedAfterEnd | 0, 0 | an update came after the end, and is kept if the timetable still has the activity |
-- | ended | when the life began; the time of a restart, if there is one | no more end is needed, see below |
-- | otherEndAdmitted | when the life began | another end was admitted |
-- | endedOrUnlimited | | the life has ended, or the policy no longer limits it |
-- | check | when the life began, the delay of the next claim | does the life continue? |
--
-- `ended` comes in two cases: a worker's LifetimeKeeper made an end, and this was accepted, failed or expired; or no
-- new start can be made.
--
-- The first three operations may bring a command that is kept for a restart: ARGV[5] is the last character of the hash,
-- `*` or `=`, ARGV[6] the command's version, ARGV[7] its record.
--
-- The reply to `check` is `retry` if the life continues, otherwise `superseded`. The reply to all other operations is
-- `settled`.

local callRedis = redis.call
local timetable, lives, starts, updates = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local operation, activity, at = ARGV[1], ARGV[2], ARGV[3]
local storedLife = callRedis('HGET', lives, activity)
local lifeKind, beganAt, claimCount
if storedLife then lifeKind, beganAt, claimCount = string.match(storedLife, '^(%a) (%d+) (%d+)$') end

-- Checks whether the life that began at ARGV[3] continues. A worker asks before it works on a command that ends or
-- restarts the activity.
-- - If the life continues, its next claim is delayed, so that no other worker makes the same command meanwhile: by
--   ARGV[4], and longer after several claims.
-- - A restart also has ARGV[5], the version of the state that it shows. If a newer state has come since, the reply is
--   `superseded`, and another restart is due at once.
-- - A restart may be read again after it has begun its life. The reply is then `retry`, because the activity's value
--   decides what becomes of the record. But the life stays due at the end of its lifetime. Otherwise it would end soon.
if operation == 'check' then
  if beganAt ~= at then return 'superseded' end
  if ARGV[5] and lifeKind ~= 'r' then return 'retry' end
  local shownUpdate = ARGV[5] and callRedis('HGET', updates, activity)
  if shownUpdate and string.sub(shownUpdate, 1, #ARGV[5]) > ARGV[5] then
    callRedis('ZADD', timetable, at, activity)
    return 'superseded'
  end
  local time = callRedis('TIME')
  local delay = ARGV[4] * math.min(2 ^ math.max(0, claimCount - 1), @CLAIM_DELAY_FACTOR_MAX@)
  callRedis('ZADD', timetable, time[1] * 1000 + math.floor(time[2] / 1000) + delay, activity)
  return 'retry'
end

local function storeLife(letter, due)
  callRedis('ZADD', timetable, due, activity)
  callRedis('HSET', lives, activity, letter .. ' ' .. at .. ' 0')
  callRedis('PEXPIRE', timetable, @ACTIVITY_EXPIRY_MILLISECONDS@)
  callRedis('PEXPIRE', lives, @ACTIVITY_EXPIRY_MILLISECONDS@)
end

local function removeCommands()
  callRedis('HDEL', starts, activity)
  callRedis('HDEL', updates, activity)
end

local function removeLife()
  callRedis('ZREM', timetable, activity)
  callRedis('HDEL', lives, activity)
  removeCommands()
end

if operation == 'endedOrUnlimited' then
  if storedLife then removeLife() end
  return 'settled'
end

-- Redis admitted an end that no LifetimeKeeper made, such as a producer's. Normally the settlement of this end removes
-- the life. Until then, workers claim the life again and again, because it is due. After
-- @CLAIMS_DURING_ANOTHER_END_MAX@ claims, the end seems to be lost, and the script removes the life here.
if operation == 'otherEndAdmitted' then
  if beganAt == at and claimCount + 0 >= @CLAIMS_DURING_ANOTHER_END_MAX@ then removeLife() end
  return 'settled'
end

if operation == 'ended' then
  if beganAt ~= at then return 'settled' end
  if ARGV[4] and callRedis('HEXISTS', starts, activity) == 1 then
    at = ARGV[4]
    storeLife('r', at)
  else
    removeLife()
  end
  return 'settled'
end

local commandSuffix, version, command = ARGV[5], ARGV[6], ARGV[7]
local commandsKey = commandSuffix == '*' and starts or updates
local storedCommand = commandSuffix and callRedis('HGET', commandsKey, activity)

if operation ~= 'updatedAfterEnd' then
  local isStart = operation == 'began'
  -- Each start begins another life, so the time of the latest start is stored. If no start is known, it is the earliest
  -- time at which the activity was alive. While the activity waits for a restart (kind `r`), only a start replaces
  -- this. So records have the same effect in any order, for example if they are read again after a loss of data.
  local isKnown = lifeKind == 'b' and (not isStart or at + 0 <= beganAt + 0)
    or not isStart and (lifeKind == 'r' or lifeKind == 'a' and at + 0 >= beganAt + 0)
  if not isKnown then
    -- The stored commands belong to the life before this start, so remove them. But if this start is the restart that
    -- the activity waits for, they stay, because the next restart needs them too.
    if isStart and not (lifeKind == 'r' and beganAt == at) then
      removeCommands()
      storedCommand = nil
    end
    storeLife(isStart and 'b' or 'a', at + ARGV[4])
    storedLife = true
  end
end

if commandSuffix and storedLife and (not storedCommand or string.sub(storedCommand, 1, #version) <= version) then
  callRedis('HSET', commandsKey, activity, version .. command)
  callRedis('PEXPIRE', commandsKey, @ACTIVITY_EXPIRY_MILLISECONDS@)
end
return 'settled'
