-- This file is a part of the script `admit` (admit.lua): operations on one activity, and functions for these operations
-- and for the files after this one. Headings begin with `-- #`: reading the value; starts; starts that are read again;
-- holding a command; registrations; unregistrations; confirmations; `reopen`. Registrations and confirmations come in
-- batches (admit-registrations.lua), all other operations alone.
--
-- Starts. A start may be sent only once, but several records may bring it. And a worker asks again about a record if
-- the reply was lost. So the value stores the claim of the one record that may be sent. If a worker asks again:
-- - The record with the stored claim gets the same verdict and timestamp again. This is safe: a worker asks again with
--   a claim only while APNs has processed no push of this record.
-- - A deferred record has a new claim and names its previous one. If the previous claim is the stored one, the script
--   stores the new claim and repeats the verdict.
-- - Every other record gets `unknown`, or once the start is settled, `duplicate`.
-- A settlement as `unknown` keeps the claim, because a worker may still be about to send the record that has the claim.
-- In two cases the record that may be sent gets `superseded` instead of the same verdict again:
-- 1. The newest version is an end.
-- 2. The activity lives without a push of this start: it has a token, and the start is settled or not the newest
--    version.
--
-- Starts that are read again. After a loss of data, records that were settled are read again. A start among them is not
-- sent again, but the script must know its version: an end of the activity's earlier life may be read again too, and
-- without the start's version, this end would end the new life. The claim of such a start is zeros. Another record of
-- the same start may still be held or wait in the deferred topic. That record may get `send`, as if the start were new.
-- But if the activity's token was registered at the start's timestamp or later, the start has reached its phone, and
-- every other record of the start gets `duplicate`.

local operation = ARGV[1]
local isBatch = operation == 'registrations'
-- If a Redis command fails in a batch, only the reply to its call is an error, and the other calls continue:
-- `callRedis` is `redis.pcall`, which returns the error. In a single operation, the error ends the script
-- (`redis.call`).
if not isBatch then callRedis = redis.call end
local key = KEYS[1]
local DEVICE_EXPIRY = @DEVICE_EXPIRY_MILLISECONDS@
local HELD_STARTS_MAX = @HELD_STARTS_MAX@
local TIMESTAMP_MAX, TIME_MAX = @TIMESTAMP_MAX@, @TIME_MAX@
-- The bytes of the held commands in this batch's replies so far. A held command that would exceed the limit for all of
-- them, REPLY_STRING_BYTES_MAX, counts too, but its call gets the reply `full`, and the worker makes the call again.
local heldByteCount = 0

local function readServerTime()
  local time = callRedis('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000), time[1] + 0
end

local function formatTime(time)
  return string.format('%0@TIME_DIGITS@.0f', math.min(math.max(time, 0), TIME_MAX))
end

-- Writes fields of a device, and renews the expiry of its key. `changes` has a field, its value, the next field, and so
-- on. `unpack` returns at most about 8,000 values, so more than 1,000 are written with several commands.
local function writeFields(changes, expiry)
  for first = 1, #changes, 1000 do
    callRedis('HSET', key, unpack(changes, first, math.min(first + 999, #changes)))
  end
  callRedis('PEXPIRE', key, expiry)
end

-- Returns the number in a JSON field of a held command's record; nil if the record has no number in this field. Only
-- the fields before `aps` are searched: Causeway writes its own fields there (CommandRecord.swift), and behind `aps` a
-- producer may use the same names.
local function findNumber(record, name)
  local apsPosition = record:find('"aps":', 1, true) or #record
  return tonumber(record:sub(1, apsPosition):match('"' .. name .. '":(%d+)'))
end

-- Returns the timestamp of the command from which the held alert comes: the held command itself, or an older one whose
-- alert it carries. `held` has the held command's version before its record.
local function findAlertTimestamp(held)
  return findNumber(held:sub(@VERSION_TEXT_BYTES@ + 1), 'alertTimestamp') or held:sub(1, @TIMESTAMP_DIGITS@) + 0
end

-- # An activity: reading the value
-- Performs an operation on an activity with this value, and returns the reply. Of the parameters after `value`,
-- `register` has all, `confirmDepartures` only `registrationTime`, and the other operations none.
--     registrationTime    when the token was registered
--     newForm, newToken   the token's form and bytes
--     shownVersion        the version that the app shows, in @VERSION_BYTES@ bytes; empty if it is not known
--     newFrequentFlag     the flag ALLOWS_FREQUENT or 0; nil if the activity keeps its flag
--     tokenSource         where the token comes from: FROM_COMMAND and others
--     namedAudiences      the digests of the audiences that the registration names; nil if it has no list
--     alertsReleasedUntil until when a registration that is read again may have released alerts before; otherwise nil
--     writtenAt           when the record of a registration that is read again was written; otherwise nil
local function performOnActivity(operation, key, value, registrationTime, newForm, newToken, shownVersion,
    newFrequentFlag, tokenSource, namedAudiences, alertsReleasedUntil, writtenAt)
  if #value < @FIXED_BYTES@ then return MALFORMED end
  local updatesUntilSeconds, tokenLengthAndFlags, flags = read('<I4I2B', value)
  local phaseByte, newestVersion, registeredAt =
    byte(value, @AT_PHASE@), sub(value, @AT_VERSION@, @AT_BUCKET@ - 1), read('<I6', value, @AT_REGISTERED@)
  -- Without the bit OWN_TIMESTAMP, the last assigned timestamp is in bytes 40 to 44. With this bit, it is the newest
  -- version's own (admit.lua: Phases).
  local lastAssignedTimestamp =
    read('<I5', value, phaseByte % @OWN_TIMESTAMP_MODULUS@ < @OWN_TIMESTAMP@ and @AT_ASSIGNED@ or @AT_VERSION@)
  local phase, newestIsEnd, keptBits = splitPhase(phaseByte)
  local form, frequentFlag = flags % @FORM_MODULUS@, flags % @ALLOWS_FREQUENT_MODULUS@ - flags % @FORM_MODULUS@
  local tokenEnd, startPosition, heldPosition, acceptedAlertVersion, audiences, formerAudiences, retired, throttle =
    findParts(value, tokenLengthAndFlags, flags, phase)
  if not tokenEnd then return MALFORMED end
  audiences, formerAudiences = audiences or '', formerAudiences or ''
  local token, start, held =
      sub(value, @AT_TOKEN@, tokenEnd), sub(value, startPosition, heldPosition - 1), sub(value, heldPosition)

  -- Writes the whole value, with a new expiry: `middle` (bytes 8 to 44), and the local variables above, which have all
  -- other parts.
  local function store(middle)
    local value = joinParts(updatesUntilSeconds, form + frequentFlag, middle .. pack('<I6', registeredAt), {
      token = token, alert = acceptedAlertVersion, audiences = audiences, formerAudiences = formerAudiences,
      retired = retired, throttle = throttle, start = start, held = held,
    })
    return callRedis('SET', key, value, 'PX', ACTIVITY_EXPIRY)
  end

  -- Returns the last part of a reply: the audiences that the activity has left, and whose pages may still list the
  -- activity. Empty if there are none.
  local function makeDeparturesPart()
    return formerAudiences == '' and '' or '=' .. pack('<I6', registeredAt) .. formerAudiences
  end

  -- # An activity: starts
  if operation == 'admitStart' then
    -- The parts of `start`: the version (bytes 1 to 13), a letter (14), the assigned timestamp (15 to 19), the claim
    -- (20 to 27). Once APNs has accepted the start, only the version is left.
    local version, claim, previousClaim = ARGV[2], ARGV[3], ARGV[4]
    local isRecordedAgain = sub(start, 1, 14) == version .. char(@START_RECORDED_AGAIN@)
    if start ~= '' and not isRecordedAgain then
      if sub(start, 1, @VERSION_BYTES@) == version then
        local storedClaim = sub(start, 20)
        if storedClaim ~= claim and (storedClaim == '' or storedClaim ~= previousClaim) then
          return byte(start, 14) == @SENDING@ and 'unknown' or 'duplicate'
        end
        -- A token (`form` above 0) usually shows that the activity lives already, so the start is not needed. But if
        -- APNs has not processed this start yet (START_SENDING), the token belongs to the previous life, so the start
        -- may be sent.
        if newestIsEnd or phase ~= @START_SENDING@ and form > 0 then return 'superseded' end
        if storedClaim ~= claim then
          start = sub(start, 1, 19) .. claim
          store(sub(value, @AT_DIGEST@, @AT_REGISTERED@ - 1))
        end
        return 'send' .. sub(start, 15, 19)
      end
      if isNewer(start, version) then return 'superseded' end
    end
    local timestamp, nextPhaseByte = read('<I5', version), @START_SENDING@
    if phase ~= @NO_VERSION@ and not isNewer(version, newestVersion)
      and not (isRecordedAgain and newestVersion == version and not newestIsEnd)
    then
      nextPhaseByte = phase
      if not newestIsEnd and newestVersion == version and (phase == @SETTLED@ or phase == @NOT_SHOWN@) then
        return 'duplicate'
      end
      if newestIsEnd or form > 0 or lastAssignedTimestamp > timestamp
        or lastAssignedTimestamp == timestamp and not isRecordedAgain
      then
        return 'superseded'
      end
    else
      -- If Redis knows this start only from `recordStart`, a token that was registered at the start's timestamp or
      -- later shows that the start has reached its phone. Any other start becomes the newest version, and begins a
      -- life.
      if isRecordedAgain and form > 0 and registeredAt >= timestamp * 1000 then return 'duplicate' end
      newestVersion, form, token, acceptedAlertVersion, held = version, 0, '', '', ''
    end
    local now, seconds = readServerTime()
    local assignedTimestamp =
      timestamp <= lastAssignedTimestamp and math.min(lastAssignedTimestamp + 1, TIMESTAMP_MAX) or timestamp
    if assignedTimestamp ~= read('<I5', newestVersion) then nextPhaseByte = nextPhaseByte - @OWN_TIMESTAMP@ end
    local assignedBytes = pack('<I5', assignedTimestamp)
    frequentFlag, throttle, start, updatesUntilSeconds =
      0, '', version .. 'a' .. assignedBytes .. claim, seconds + UPDATE_PERIOD_SECONDS
    store(pack('<I6BI6', 0, nextPhaseByte, now) .. newestVersion .. pack('<I6', 0) .. assignedBytes)
    return 'send' .. assignedBytes
  end

  -- # An activity: starts that are read again
  if operation == 'recordStart' then
    local version = ARGV[2]
    if start ~= '' and not isNewer(version, start) then return 'settled' end
    local timestamp, middle = read('<I5', version), sub(value, @AT_DIGEST@, @AT_REGISTERED@ - 1)
    -- If Redis already knows a life of the activity, updates end with the later of both lives.
    updatesUntilSeconds = math.max(readLastUpdateSecond(value, updatesUntilSeconds, form, start ~= '') or 0,
      computeLastUpdateSecond(readServerTime(), timestamp * 1000))
    if phase == @NO_VERSION@ or isNewer(version, newestVersion) then
      -- If the start became the newest version, the held command would be removed. But perhaps no worker ever sent this
      -- start. So the script keeps the held command, and does not store the start.
      if held ~= '' then return 'settled' end
      local nextPhaseByte = @SETTLED@
      if lastAssignedTimestamp > timestamp then
        nextPhaseByte = nextPhaseByte - @OWN_TIMESTAMP@
      else
        lastAssignedTimestamp = timestamp
      end
      middle = pack('<I6B', 0, nextPhaseByte) .. sub(value, @AT_PHASE@ + 1, @AT_VERSION@ - 1) .. version
        .. sub(value, @AT_BUCKET@, @AT_ASSIGNED@ - 1) .. pack('<I5', lastAssignedTimestamp)
    end
    start = version .. char(@START_RECORDED_AGAIN@) .. pack('<I5', lastAssignedTimestamp) .. ('\0'):rep(8)
    store(middle)
    return 'settled'
  end

  -- # An activity: holding a command
  -- Keeps a command in Redis until a token registers, and replies `held`. With any other reply, the command is not
  -- kept. ARGV:
  --     2   the command's version in digits
  --     3   the command
  --     4   `1` if the command has an alert
  --     5   its version in the form that the value has
  if operation == 'hold' then
    if phase == @NO_VERSION@ or newestVersion ~= ARGV[5] then return 'superseded' end
    if phase == @SETTLED@ or phase == @NOT_SHOWN@ then return 'duplicate' end
    local newHeld = ARGV[2] .. ARGV[3]
    if form > 0 then
      -- The activity has a token now. So nothing is held, and the reply is `retry`: the caller sends the command.
      -- Exception: the value already holds this command. Then the reply to an earlier call was lost, and the token came
      -- later. The worker that registers the token gets the command, so the caller must not send the command too. The
      -- value is written again, because the reply may have to wait until replicas have the command.
      local isHeldAlready = phase >= @HELD@ and phase <= @SENDING_HELD_ALERT@ and held == newHeld
      if not isHeldAlready then return 'retry' end
      store(sub(value, @AT_DIGEST@, @AT_REGISTERED@ - 1))
      return 'held'
    end
    held = newHeld
    store(sub(value, @AT_DIGEST@, @AT_PHASE@ - 1) .. char((ARGV[4] == '1' and @HELD_ALERT@ or @HELD@) + keptBits)
      .. sub(value, @AT_PHASE@ + 1, @AT_REGISTERED@ - 1))
    return 'held'
  end

  -- # An activity: registrations
  if operation == 'register' then
    if tokenSource == @FROM_COMMAND@ then
      -- The token came with a command. If the value already has this token, the token keeps its registration time. The
      -- token that was retired last is refused.
      if form == newForm and token == newToken then
        registrationTime = registeredAt
      elseif retired ~= '' and sub(redis.sha1hex(newToken .. char(newForm)), 1, @RETIRED_BYTES@) == retired then
        return 'stale'
      end
    end
    if isOlderRegistration(registrationTime, registeredAt) then
      return 'stale' .. (namedAudiences and makeDeparturesPart() or '')
    end
    -- A registration may need several calls, of which only the first names audiences. Since then, another record with
    -- the same time may have stored another token, or removed the token. Then a later call is stale and changes
    -- nothing. The check leaves out the time 0, which means that no registration has come yet, and tokens of commands,
    -- which never name audiences.
    if registrationTime == registeredAt and registrationTime > 0
      and not namedAudiences and tokenSource ~= @FROM_COMMAND@
      and (form ~= newForm or token ~= newToken)
    then
      return 'stale'
    end
    local newShownDigest = sub(value, @AT_DIGEST@, @AT_PHASE@ - 1)
    local reply, nextPhase = 'registered', phase
    if namedAudiences then
      local departures = without(formerAudiences, namedAudiences) .. without(audiences, namedAudiences)
      if #departures > @AUDIENCE_DIGEST_BYTES@ * @UNCONFIRMED_DEPARTURES_MAX@ then
        return 'full' .. makeDeparturesPart()
      end
      -- For an activity that is or was in audiences, the shown state is not known (digest 0), because a push to an
      -- audience may have replaced it.
      if namedAudiences ~= '' or audiences ~= '' or formerAudiences ~= '' then newShownDigest = '\0\0\0\0\0\0' end
      if namedAudiences ~= '' and without(namedAudiences, audiences) == '' then reply = 'registered+' end
      audiences, formerAudiences = namedAudiences, departures
    end
    -- The app may say which version it shows: Redis has lost this version, has never known it, or could not send it
    -- without a token (admit.lua: Shown versions). The first row that applies decides, otherwise the phase stays:
    --     shown version    newest version           what follows
    --     newer            may change               The shown version is the newest, and SETTLED.
    --     newer or equal   is held, and is no end   HELD and HELD_ALERT lead to SETTLED. The two with a push under way
    --                                               lead to SENDING: the response settles the version.
    --     equal            may change, and waits    SETTLED: the phone shows it already, so it needs no push. For
    --                                               example, Redis had lost that it was sent.
    -- The newest version may change (`mayChangeNewest`) if it is no end, and the app cannot show a later push by now.
    -- The conditions compare phases by the order of their letters: SENDING, START_SENDING, NOT_SHOWN, HELD, HELD_ALERT,
    -- SENDING_HELD, SENDING_HELD_ALERT, NO_VERSION, SETTLED, WAITING, WAITING_OLDER_ALERT, SENDING_OLDER_ALERT.
    local nextVersion, nextAssignedTimestamp = newestVersion, lastAssignedTimestamp
    if shownVersion ~= '' then
      local shownTimestamp, newestIsHeld = read('<I5', shownVersion), phase >= @HELD@ and phase <= @SENDING_HELD_ALERT@
      local comesAfterNewest = phase == @NO_VERSION@ or isNewer(shownVersion, newestVersion)
      local mayChangeNewest = not newestIsEnd
        and (shownTimestamp > lastAssignedTimestamp or read('<I6', value, @AT_PHASE@ + 1) == 0)
      local phaseBefore = nextPhase
      if comesAfterNewest and mayChangeNewest then
        nextVersion, nextPhase = shownVersion, @SETTLED@
      elseif newestIsHeld and not newestIsEnd and (comesAfterNewest or shownVersion == newestVersion) then
        nextPhase = phase <= @HELD_ALERT@ and @SETTLED@ or @SENDING@
      elseif shownVersion == newestVersion and mayChangeNewest
        and (phase == @WAITING@ or phase == @WAITING_OLDER_ALERT@)
      then
        nextPhase = @SETTLED@
      end
      if nextVersion ~= newestVersion or nextPhase ~= phaseBefore then
        held, newShownDigest = '', '\0\0\0\0\0\0'
      end
      nextAssignedTimestamp = math.max(lastAssignedTimestamp, shownTimestamp)
    end
    -- If the newest version itself is held, the reply brings the held command to the worker. It does not bring an older
    -- command that is held only for its alert (admit.lua: Phases).
    if held ~= '' and phase <= @SENDING_HELD_ALERT@ and (not namedAudiences or formerAudiences == '') then
      heldByteCount = heldByteCount + #held
      if heldByteCount > @REPLY_STRING_BYTES_MAX@ and heldByteCount > #held then return 'full' end
      reply = reply .. held
    end
    -- If the registration is read again, it may have released the held alert before Redis lost data, so the alert may
    -- have rung (R25). Then no later command gets this alert. An older command that is held only for it is removed.
    if alertsReleasedUntil and held ~= '' and findAlertTimestamp(held) * 1000 <= alertsReleasedUntil then
      if nextPhase == @HELD_ALERT@ then
        nextPhase = @HELD@
      elseif nextPhase == @SENDING_HELD_ALERT@ then
        nextPhase = @SENDING_HELD@
      elseif nextPhase >= @WAITING_OLDER_ALERT@ then
        held, nextPhase = '', nextPhase == @WAITING_OLDER_ALERT@ and @WAITING@ or @SENDING@
      end
    end
    local lastUpdateSecond = readLastUpdateSecond(value, updatesUntilSeconds, form, start ~= '')
    if not lastUpdateSecond or tokenSource == @FROM_REREADING@ then
      local now, seconds = readServerTime()
      -- The first token begins a life. A different token from a record that is read again may belong to a later life,
      -- whose start is not read again.
      if not lastUpdateSecond or form ~= newForm or token ~= newToken then
        updatesUntilSeconds = math.max(lastUpdateSecond or 0, computeLastUpdateSecond(now, writtenAt))
      end
      -- Pushes from before the loss of data may have had timestamps above those of their commands, and phones ignore
      -- lower timestamps. So the next push must get a timestamp above the present second.
      if tokenSource == @FROM_REREADING@ then nextAssignedTimestamp = math.max(nextAssignedTimestamp, seconds) end
    end
    -- A shown version that has become the newest is no end, and has not drawn on the budget. Any other newest version
    -- keeps these two bits.
    local nextBits = 0
    if nextVersion == newestVersion then
      nextBits = (phaseByte >= @HAS_DRAWN@ and @HAS_DRAWN@ or 0) - (newestIsEnd and @UPPER_CASE@ or 0)
    end
    if nextAssignedTimestamp ~= read('<I5', nextVersion) then nextBits = nextBits - @OWN_TIMESTAMP@ end
    form, token, registeredAt = newForm, newToken, registrationTime
    if newFrequentFlag then frequentFlag = newFrequentFlag end
    local written = store(newShownDigest .. char(nextPhase + nextBits)
      .. sub(value, @AT_PHASE@ + 1, @AT_VERSION@ - 1) .. nextVersion
      .. sub(value, @AT_BUCKET@, @AT_ASSIGNED@ - 1) .. pack('<I5', nextAssignedTimestamp))
    if written.err then return written end
    return namedAudiences and formerAudiences ~= '' and reply .. makeDeparturesPart() or reply
  end

  -- # An activity: unregistrations
  if operation == 'unregister' then
    local unregisteredAt = ARGV[2] + 0
    if isOlderRegistration(unregisteredAt, registeredAt) then return 'stale' .. makeDeparturesPart() end
    form, token, registeredAt = 0, '', unregisteredAt
    local hasAudiences = audiences ~= '' or formerAudiences ~= ''
    audiences, formerAudiences = '', formerAudiences .. audiences
    store(hasAudiences and '\0\0\0\0\0\0' .. sub(value, @AT_PHASE@, @AT_REGISTERED@ - 1)
      or sub(value, @AT_DIGEST@, @AT_REGISTERED@ - 1))
    return 'unregistered' .. makeDeparturesPart()
  end

  -- # An activity: confirmations
  -- A worker confirms that each audience in `formerAudiences` has an entry that says that the activity left it.
  -- `registrationTime` is the time that came with these audiences in an earlier reply. If Redis has another time now,
  -- the activity may have left more audiences since, so the list stays.
  if operation == 'confirmDepartures' then
    if formerAudiences ~= '' and registrationTime == registeredAt then
      formerAudiences = ''
      local written = store(sub(value, @AT_DIGEST@, @AT_REGISTERED@ - 1))
      if written.err then return written end
    end
    return 'settled'
  end

  -- # An activity: `reopen`
  if operation == 'reopen' then
    if phase == @NO_VERSION@ or newestVersion ~= ARGV[2] then return 'superseded' end
    if phase == @SETTLED@ or sub(start, 1, @VERSION_BYTES@) == newestVersion then return 'duplicate' end
    if phase == @NOT_SHOWN@ then
      store(sub(value, @AT_DIGEST@, @AT_PHASE@ - 1) .. char(@WAITING@ + keptBits)
        .. sub(value, @AT_PHASE@ + 1, @AT_REGISTERED@ - 1))
    end
    return 'retry'
  end

  return redis.error_reply('ERR unknown operation')
end

if operation == 'admitStart' or operation == 'recordStart' or operation == 'hold' or operation == 'unregister'
  or operation == 'reopen'
then
  return performOnActivity(operation, key, callRedis('GET', key) or UNKNOWN)
end
