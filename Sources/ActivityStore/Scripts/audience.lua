-- The script `audience`: decides about commands to an audience, and keeps the progress of their versions through the
-- ranges. KEYS[1] is the audience's hash. ARGV[1] is the operation. An audience has few calls and many pushes, so this
-- script is written for reading, not for speed. AudienceState.swift decides the same in Swift. The function `callRedis`
-- runs a Redis command. A name between two at signs is a constant (AudienceScript.swift). The top of admit.lua says how
-- the scripts test bits, what a name with _MODULUS is, and which unit a time has.
--
-- | operation | its arguments, from ARGV[2] | what it does |
-- | --- | --- | --- |
-- | admit | version, digest, bits, wanted number of ranges, pace, body, expiration | decides about a command |
-- | settle | version | notes that all fan-out records of the version are in Kafka |
-- | newest | | returns the state for a member that joins |
-- | claim | range, claim | gives a range to the worker with this claim, and returns its last checkpoint |
-- | checkpoint | range, claim, text; the same for more ranges | records how far rounds have come |
-- | finish | fan-out, index, counts; number of broadcasts | adds the counts of a finished range or broadcast |
--
-- The bits of `admit` say what the command is (IS_END, IS_START) and what it asks for (REQUESTS_HIGH_PRIORITY,
-- MAY_USE_RESERVE). `finish` has the number of broadcasts only if it is about a broadcast.
--
-- | field | meaning |
-- | --- | --- |
-- | n | the newest version (13), which may be `unchanged`; a letter: `s` if this version is settled, otherwise `a` |
-- | a | the newest version that was admitted to be sent, and how: see ADMISSION_FORMAT |
-- | s | the version of the newest start |
-- | b | the body, without the alert, that members get if they join after this version |
-- | f | when the two buckets will be full (6 each): for members without and with frequent updates |
-- | l | the fan-outs of the last versions, oldest first; each has the bytes of the next table |
-- | c | followed by a range: the newest claim of the range |
-- | p | followed by a range: the last checkpoint of the range |
-- | m | followed by a fan-out's name and an index: the counts of one finished range or broadcast: see COUNTS_FORMAT |
-- | k | followed by a fan-out's name: how many of its ranges and broadcasts are finished |
-- | t | followed by a fan-out's name: its totals, once all ranges and broadcasts are finished |
-- | hp hs | the channel in production and in the sandbox: storage policy (1), creation (8, UNIX milliseconds), its id |
--
-- | bytes of a fan-out in `l` | meaning |
-- | --- | --- |
-- | 1–15 | its name: the version (13) and the number of ranges (2) |
-- | 16–21 | when the version was admitted, server milliseconds |
-- | 22 | BROADCAST_COUNT_FACTOR times the number of its broadcasts, plus IS_FINISHED if all its parts are finished |
--
-- The parts of a fan-out are its ranges and its broadcasts. A fan-out is under way if some of its parts are unfinished,
-- and its version was admitted in the last 12 hours: it may wait for APNs so long. If it is older and unfinished, the
-- record of one of its ranges is probably lost. In a field's name, a range has four bytes: the number of ranges, and
-- the range's index (2 bytes each). Versions are stored as in an activity's value. Numbers are little-endian. The
-- keeper of channels writes `hp` and `hs`.
--
-- A range may have a round of starts and another round at the same time. So the claims and checkpoints of rounds of
-- starts are in a hash of their own, under another digest.
--
-- The hash expires 25 hours after its last change. The removal of a channel is no such change.

local callRedis, sub, char = redis.call, string.sub, string.char
local read, pack = struct.unpack, struct.pack
local key, operation = KEYS[1], ARGV[1]
-- The field `a`, the admission of a version: version, digest, flags, timestamp to send, the priorities for members
-- without and with frequent updates, number of ranges, when the version was admitted, its expiration (seconds). The
-- flags are IS_END, IS_START, and IS_DEMOTED: the command asked for priority 10, and a budget gave 5.
local ADMISSION_FORMAT = '<c13c8BI5BBI2I6c8'
local FANOUT_BYTES = 22
-- The counts of a range or broadcast: one number for each of the six outcomes of a member, and the times of the first
-- and the last response of APNs, milliseconds plus one; 0 for no response.
local COUNTS_FORMAT = '<I4I4I4I4I4I4I6I6'
local COUNT_MAX = 4294967295
-- The last two bytes in the name of a broadcast's field `m`: in production and in the sandbox. In the name of a range's
-- field `m`, the last two bytes are the range's index, which is at most 255.
local BROADCAST_INDICES = {'\254\255', '\255\255'}

local function readServerTime()
  local time = callRedis('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Sets fields of the audience's hash, and renews the hash's expiry. The arguments are a field, its value, the next
-- field, its value, and so on. Returns how many of the fields are new.
local function storeFields(...)
  local newFieldCount = callRedis('HSET', key, ...)
  callRedis('PEXPIRE', key, '@ACTIVITY_EXPIRY_MILLISECONDS@')
  return newFieldCount
end

-- Deletes the counts and totals of a fan-out: its fields `k`, `t` and `m`. The fan-out stays in the list `l`.
local function removeFanoutCounts(fanoutName)
  local rangeCount = read('<I2', fanoutName, 14)
  local fields = {'k' .. fanoutName, 't' .. fanoutName}
  for index = 0, rangeCount - 1 do fields[index + 3] = 'm' .. fanoutName .. pack('<I2', index) end
  for _, broadcastIndex in ipairs(BROADCAST_INDICES) do fields[#fields + 1] = 'm' .. fanoutName .. broadcastIndex end
  callRedis('HDEL', key, unpack(fields))
end

-- Whether the fan-out at a position of the list is under way (see the top of this file).
local function isUnderWay(fanoutList, position, now)
  local admittedAt, byte22 = read('<I6B', fanoutList, position + 15)
  return byte22 % @IS_FINISHED_MODULUS@ == 0 and now - admittedAt < @RANGE_COUNT_KEPT_MILLISECONDS_MAX@
end

-- Returns how many ranges a fan-out under way counts for in the limit of AudienceHashLimits.swift: its own number, but
-- at least @COUNTED_RANGES_MIN@.
local function countedRanges(rangeCount) return math.max(rangeCount, @COUNTED_RANGES_MIN@) end

-- Returns the sum of `countedRanges` over the fan-outs under way, and the number of all other fan-outs.
local function countFanouts(fanoutList, now)
  local rangesUnderWay, otherCount = 0, 0
  for position = 1, #fanoutList, FANOUT_BYTES do
    if isUnderWay(fanoutList, position, now) then
      rangesUnderWay = rangesUnderWay + countedRanges(read('<I2', fanoutList, position + 13))
    else
      otherCount = otherCount + 1
    end
  end
  return rangesUnderWay, otherCount
end

-- Adds a fan-out to the list, and returns the new list. If too many are then stored, removes the oldest ones: under
-- way, as many as make room for one fan-out; of the others, at most two. So each call stays short, and the list becomes
-- shorter again after many fan-outs have finished together.
local function addFanout(fanoutList, fanoutName, now, broadcastCount)
  fanoutList = fanoutList .. fanoutName .. pack('<I6B', now, @BROADCAST_COUNT_FACTOR@ * broadcastCount)
  if #fanoutList <= @OTHER_FANOUTS_MAX@ * FANOUT_BYTES then return fanoutList end
  local rangesUnderWay, otherCount = countFanouts(fanoutList, now)
  local excessRanges = math.min(rangesUnderWay - @RANGES_UNDER_WAY_MAX@, @RANGES_MAX@)
  local excessOthers = math.min(otherCount - @OTHER_FANOUTS_MAX@, 2)
  local position = 1
  while excessRanges > 0 or excessOthers > 0 do
    local name, isOther = sub(fanoutList, position, position + 14), not isUnderWay(fanoutList, position, now)
    if isOther and excessOthers > 0 or not isOther and excessRanges > 0 then
      if isOther then
        excessOthers = excessOthers - 1
      else
        excessRanges = excessRanges - countedRanges(read('<I2', name, 14))
      end
      removeFanoutCounts(name)
      fanoutList = sub(fanoutList, 1, position - 1) .. sub(fanoutList, position + FANOUT_BYTES)
    else
      position = position + FANOUT_BYTES
    end
  end
  return fanoutList
end

local function findFanoutPosition(fanoutList, fanoutName)
  for position = 1, #fanoutList, FANOUT_BYTES do
    if sub(fanoutList, position, position + 14) == fanoutName then return position end
  end
end

-- Returns the newest version that was admitted to be sent (field `a`). Returns an empty string if there is none, or if
-- it is a start, because a start reaches devices and replaces no state of activities.
local function readNewestVersionForActivities()
  local admission = callRedis('HGET', key, 'a')
  if not admission then return '' end
  local version, _, flags = read(ADMISSION_FORMAT, admission)
  return flags % @IS_START_MODULUS@ >= @IS_START@ and '' or version
end

-- Returns the reply `send` to a command with this admission (field `a`). The reply names the audience's channels, if
-- the audience has any.
local function makeSendReply(admission, production, sandbox)
  local _, _, flags, timestamp, priority, frequentUpdatesPriority, rangeCount = read(ADMISSION_FORMAT, admission)
  local reply = {'send', timestamp, priority, frequentUpdatesPriority, flags >= @IS_DEMOTED@ and 1 or 0, rangeCount}
  if production or sandbox then reply[7], reply[8] = production or '', sandbox or '' end
  return reply
end

if operation == 'admit' then
  local version, digest, requestBits, wantedRangeCount, pace = ARGV[2], ARGV[3], ARGV[4] + 0, ARGV[5] + 0, ARGV[6]
  local body, expiration = ARGV[7], ARGV[8]
  local isEnd, isStart =
    requestBits % @IS_END_MODULUS@ == @IS_END@, requestBits % @IS_START_MODULUS@ >= @IS_START@
  local isHigh, mayUseReserve =
    requestBits % @REQUESTS_HIGH_PRIORITY_MODULUS@ >= @REQUESTS_HIGH_PRIORITY@, requestBits >= @MAY_USE_RESERVE@
  local newestAndLetter, admission, newestStart, fullTimes, fanoutList, production, sandbox =
    unpack(callRedis('HMGET', key, 'n', 'a', 's', 'f', 'l', 'hp', 'hs'))
  fanoutList = fanoutList or ''
  -- A start is not broadcast, because a channel cannot start activities.
  local broadcastCount = isStart and 0 or (production and 1 or 0) + (sandbox and 1 or 0)
  local newestVersion, isSettled =
    newestAndLetter and sub(newestAndLetter, 1, 13), newestAndLetter and sub(newestAndLetter, 14) == 's'
  local admittedVersion, shownDigest, flags, lastAssignedTimestamp, _, _, lastRangeCount, admittedAt
  if admission then
    admittedVersion, shownDigest, flags, lastAssignedTimestamp, _, _, lastRangeCount, admittedAt =
      read(ADMISSION_FORMAT, admission)
  end
  if newestVersion then
    if newestVersion == version and admittedVersion == version
      and flags % @KIND_MODULUS@ == requestBits % @KIND_MODULUS@
    then
      if isSettled then return 'duplicate' end
      -- The version is admitted again. Since then, a channel of the audience may have been added or removed, so the
      -- present number of broadcasts is stored. With the former number, the fan-out would finish too early or never.
      local fanoutPosition = findFanoutPosition(fanoutList, version .. pack('<I2', lastRangeCount))
      local byte22 = fanoutPosition and string.byte(fanoutList, fanoutPosition + 21)
      if fanoutPosition and byte22 % @IS_FINISHED_MODULUS@ == 0
        and byte22 ~= @BROADCAST_COUNT_FACTOR@ * broadcastCount
      then
        storeFields('l', sub(fanoutList, 1, fanoutPosition + 20) .. char(@BROADCAST_COUNT_FACTOR@ * broadcastCount)
          .. sub(fanoutList, fanoutPosition + 22))
      end
      return makeSendReply(admission, production, sandbox)
    end
    if isStart then
      if not isNewer(version, newestVersion) then return 'superseded' end
    elseif flags % @IS_END_MODULUS@ == @IS_END@ then
      return 'ended'
    elseif isEnd then
      -- A newer update does not supersede an end. A newer start does, because the end belongs to the life before this
      -- start.
      if newestStart and newestStart ~= '' and isNewer(newestStart, version) then return 'superseded' end
    else
      if newestVersion == version then return isSettled and 'duplicate' or 'superseded' end
      if isNewer(newestVersion, version) then return 'superseded' end
    end
    -- A command with the same state is `unchanged` only if the newest version is settled. Otherwise that version's
    -- fan-out records may not be in Kafka, so its state might reach nobody.
    if not isStart and not isEnd and isSettled and shownDigest == digest then
      storeFields('n', version .. 's')
      return 'unchanged'
    end
  end

  local now = readServerTime()
  local spacing, interval, pushes, reserved, _, frequentInterval, frequentPushes, frequentReserved, _, _,
    longestFillSeconds = read('<I3I3I2I2I3I3I2I2I3I3I4', pace)
  if admission and not isStart and now >= admittedAt and admittedAt + spacing > now then
    return {'wait', admittedAt + spacing - now}
  end

  local fullAt, frequentFullAt = 0, 0
  if fullTimes then fullAt, frequentFullAt = read('<I6I6', fullTimes) end
  -- Returns the priority that a bucket grants, and the time at which the bucket will be full afterwards.
  local function draw(fullAt, interval, pushes, reserved)
    local missing = fullAt > now and math.ceil((fullAt - now) / interval) or 0
    if pushes - missing <= (mayUseReserve and 0 or reserved) then
      -- Cut `fullAt` if it is later than any empty bucket needs, for example after the clock was set back.
      return @LOW_PRIORITY@, math.min(fullAt, now + math.max(pushes * interval, 1000 * longestFillSeconds))
    end
    return @HIGH_PRIORITY@, math.max(fullAt, now) + interval
  end
  local priority, frequentUpdatesPriority = @LOW_PRIORITY@, @LOW_PRIORITY@
  local newFlags = requestBits % @KIND_MODULUS@
  if isHigh then
    priority, fullAt = draw(fullAt, interval, pushes, reserved)
    frequentUpdatesPriority, frequentFullAt = draw(frequentFullAt, frequentInterval, frequentPushes, frequentReserved)
    if priority == @LOW_PRIORITY@ or frequentUpdatesPriority == @LOW_PRIORITY@ then
      newFlags = newFlags + @IS_DEMOTED@
    end
  end
  local timestamp = math.max(read('<I5', version), math.min((lastAssignedTimestamp or 0) + 1, @TIMESTAMP_MAX@))

  -- Choose the version's number of ranges: that of the newest fan-out under way among the last 64, otherwise the wanted
  -- number. Ranges of two numbers would overlap (the first of 2 ranges has the members of the first 2 of 4 ranges), so
  -- two rounds would push to the same members. Older fan-outs do not count, because they probably never finish.
  local rangeCount = wantedRangeCount
  local oldestPosition = math.max(#fanoutList - @OTHER_FANOUTS_MAX@ * FANOUT_BYTES + 1, 1)
  for position = #fanoutList - FANOUT_BYTES + 1, oldestPosition, -FANOUT_BYTES do
    if isUnderWay(fanoutList, position, now) then
      rangeCount = read('<I2', fanoutList, position + 13)
      break
    end
  end
  local fanoutName = version .. pack('<I2', rangeCount)
  if lastRangeCount and lastRangeCount ~= rangeCount then
    for _, field in ipairs(callRedis('HKEYS', key)) do
      local letter = sub(field, 1, 1)
      -- Delete the checkpoints of ranges that no longer exist. Keep their claims (`c`): a worker that still works on
      -- such a range would conclude from a missing claim that the server has lost its data.
      if letter == 'p' and sub(field, 2, 3) ~= sub(fanoutName, 14) then callRedis('HDEL', key, field) end
    end
  end
  local fanoutPosition = findFanoutPosition(fanoutList, fanoutName)
  if fanoutPosition then
    removeFanoutCounts(fanoutName)
    fanoutList = sub(fanoutList, 1, fanoutPosition - 1) .. sub(fanoutList, fanoutPosition + FANOUT_BYTES)
  end
  local newAdmission = pack(ADMISSION_FORMAT, version, digest, newFlags, timestamp, priority, frequentUpdatesPriority,
    rangeCount, now, expiration)
  fanoutList = addFanout(fanoutList, fanoutName, now, broadcastCount)
  storeFields('n', version .. 'a', 'a', newAdmission, 's', isStart and version or newestStart or '',
    'b', isStart and '' or body, 'f', pack('<I6I6', fullAt, frequentFullAt), 'l', fanoutList)
  return makeSendReply(newAdmission, production, sandbox)
end

if operation == 'settle' then
  if callRedis('HGET', key, 'n') == ARGV[2] .. 'a' then storeFields('n', ARGV[2] .. 's') end
  return 'settled'
end

if operation == 'newest' then
  local admission, body = unpack(callRedis('HMGET', key, 'a', 'b'))
  if not admission then return 'unknown' end
  local version, _, flags, timestamp, _, _, _, admittedAt, expiration = read(ADMISSION_FORMAT, admission)
  local now = readServerTime()
  if flags % @IS_START_MODULUS@ >= @IS_START@ or math.floor(now / 1000) > read('<i8', expiration)
    or now - admittedAt > @JOINER_BODY_AGE_MILLISECONDS_MAX@
  then
    return 'unknown'
  end
  return {'send', version, timestamp, expiration, flags % @IS_END_MODULUS@, body}
end

if operation == 'claim' then
  local range, claim = ARGV[2], ARGV[3]
  local progress = callRedis('HGET', key, 'p' .. range) or ''
  storeFields('c' .. range, claim)
  return {'progress', readNewestVersionForActivities(), progress}
end

if operation == 'checkpoint' then
  -- Records checkpoints. The arguments are a range, a claim and a text for each checkpoint. The reply has the newest
  -- admitted version, and a number for each checkpoint:
  --     0    the range has another claim: another worker's, or an older one after a failover
  --     1    the checkpoint was recorded
  --     2    the range has no claim: the server has lost data, perhaps also members
  local claimFields, storedClaims, changes, replies = {}, {}, {}, {readNewestVersionForActivities()}
  for number = 2, #ARGV, 3 do claimFields[#claimFields + 1] = 'c' .. ARGV[number] end
  for index, storedClaim in ipairs(callRedis('HMGET', key, unpack(claimFields))) do
    storedClaims[claimFields[index]] = storedClaim
  end
  for index, claimField in ipairs(claimFields) do
    local range, claim, text = ARGV[3 * index - 1], ARGV[3 * index], ARGV[3 * index + 1]
    if storedClaims[claimField] == claim then changes[#changes + 1], changes[#changes + 2] = 'p' .. range, text end
    replies[index + 1] = storedClaims[claimField] == claim and 1 or storedClaims[claimField] and 0 or 2
  end
  if changes[1] then storeFields(unpack(changes)) end
  return replies
end

if operation == 'finish' then
  local fanoutName, index, counts = ARGV[2], ARGV[3], ARGV[4]
  local fanoutList = callRedis('HGET', key, 'l') or ''
  local rangeCount = read('<I2', fanoutName, 14)
  local fanoutPosition = findFanoutPosition(fanoutList, fanoutName)
  if not fanoutPosition then
    local now = readServerTime()
    -- Without room, the fan-out is not added: another one, which has all its counts, would have to be removed (K27).
    if countFanouts(fanoutList, now) + countedRanges(rangeCount) > @RANGES_UNDER_WAY_MAX@ then
      return {'finished', rangeCount}
    end
    fanoutList = addFanout(fanoutList, fanoutName, now, (ARGV[5] or 0) + 0)
    fanoutPosition = #fanoutList - FANOUT_BYTES + 1
    storeFields('l', fanoutList)
  end
  local byte22 = string.byte(fanoutList, fanoutPosition + 21)
  if byte22 % @IS_FINISHED_MODULUS@ == @IS_FINISHED@ then
    return {'finished', 0, callRedis('HGET', key, 't' .. fanoutName)}
  end
  local broadcastCount = math.floor(byte22 / @BROADCAST_COUNT_FACTOR@)
  if broadcastCount == 0 and ARGV[5] then
    -- The list had lost this fan-out: the server lost the hash, or too many newer fan-outs came. A call about a range
    -- then added the fan-out again, but without the number of broadcasts, which this call about a broadcast has in
    -- ARGV[5].
    broadcastCount = ARGV[5] + 0
    fanoutList = sub(fanoutList, 1, fanoutPosition + 20) .. char(@BROADCAST_COUNT_FACTOR@ * broadcastCount)
      .. sub(fanoutList, fanoutPosition + 22)
    storeFields('l', fanoutList)
  end
  local partCount = rangeCount + broadcastCount
  -- A repeated call adds no field, so it is not counted again.
  local addedCount = storeFields('m' .. fanoutName .. index, counts)
  local finishedCount = callRedis('HINCRBY', key, 'k' .. fanoutName, addedCount)
  if finishedCount < partCount then return {'finished', partCount - finishedCount} end

  -- Elements 7 and 8 of `totals` are the times of the first and the last response that any range or broadcast got.
  local totals, broadcastSums = {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}
  local function add(part, sums)
    for outcome = 1, 6 do sums[outcome] = math.min(sums[outcome] + part[outcome], COUNT_MAX) end
    if part[7] > 0 and (totals[7] == 0 or part[7] < totals[7]) then totals[7] = part[7] end
    totals[8] = math.max(totals[8], part[8])
  end
  for rangeIndex = 0, rangeCount - 1 do
    local part = callRedis('HGET', key, 'm' .. fanoutName .. pack('<I2', rangeIndex))
    if part then add({read(COUNTS_FORMAT, part)}, totals) end
  end
  for _, broadcastIndex in ipairs(BROADCAST_INDICES) do
    local part = callRedis('HGET', key, 'm' .. fanoutName .. broadcastIndex)
    if part then add({read(COUNTS_FORMAT, part)}, broadcastSums) end
  end
  removeFanoutCounts(fanoutName)
  local storedTotals = pack(COUNTS_FORMAT, unpack(totals))
  if broadcastCount > 0 then storedTotals = storedTotals .. char(unpack(broadcastSums)) end
  storeFields('l', sub(fanoutList, 1, fanoutPosition + 20)
    .. char(@BROADCAST_COUNT_FACTOR@ * broadcastCount + @IS_FINISHED@) .. sub(fanoutList, fanoutPosition + 22),
    't' .. fanoutName, storedTotals)
  return {'finished', 0, storedTotals}
end

return redis.error_reply('ERR unknown operation')
