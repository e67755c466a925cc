-- This file is a part of the script `admit` (admit.lua): operations on one device. Headings begin with `-- #`: parts of
-- replies and fields; confirmations; holding a start; registrations; the token of a start; unregistrations.
--
-- Devices. A device's hash has these fields for each attributes type; after the letter come `:` and the type:
--     t    when the token was registered or unregistered, then the first bytes of the token
--     u    the other bytes of the token: Redis keeps a hash compact only while all its fields are short
--     w    the held starts
--     d    the last token that was retired (R17)
--     m    the audiences that the registration of this type names
-- Two fields are for all types:
--     l    the time of the last departure, and the audiences that the device left, until a worker confirms that each
--          of them has an entry that says so
--     s    when the bucket of starts will be full. After the first refund, the sum of all refunds follows, in
--          milliseconds
--
-- A time in digits, as in `t` and `s`, has @TIME_DIGITS@ bytes. The time in `l` is a number of @TIME_BYTES@ bytes. The
-- parts of `w` are in held-starts.lua.
--
-- The variables `t`, `u`, `w`, `d`, `m`, `l` and `s` have the names of these fields.

-- # A device: parts of replies and fields
-- The suffix of the names of the fields that concern one attributes type: `:` and the type, such as `:Match`. In
-- `confirmDeviceDepartures` and `unregisterDevice`, ARGV[2] is a time, so they do not use this variable.
local suffix = ARGV[2]

-- Returns the last part of a reply: a `=` and the field `l`, the audiences that the device has left, but whose pages
-- may still list it. Empty if there are none.
local function makeDeparturesPart(l) return l and #l > @TIME_BYTES@ and '=' .. l or '' end

-- Returns the audiences that the device leaves now. `noLongerNamed` has the audiences that registrations of the types
-- `changedSuffixes` no longer name. The device does not leave those that the registration of another type still names,
-- or that it has left before (field `l`).
local function findNewDepartures(noLongerNamed, changedSuffixes, l)
  local fields, excluded = noLongerNamed == '' and {} or callRedis('HGETALL', key), {sub(l, @TIME_BYTES@ + 1)}
  for index = 1, #fields, 2 do
    if sub(fields[index], 1, 2) == 'm:' and not changedSuffixes[sub(fields[index], 2)] then
      excluded[#excluded + 1] = fields[index + 1]
    end
  end
  return without(noLongerNamed, table.concat(excluded))
end

-- Returns a new field `l` with the audiences in `leftAudiences`. If the device has just left some of them
-- (`hasNewDepartures`), the field gets a later time than before, so that a confirmation with the former time changes
-- nothing.
local function makeFieldL(at, leftAudiences, hasNewDepartures, l)
  if leftAudiences == '' then return '' end
  local timeBefore = #l > @TIME_BYTES@ and read('<I6', l) or 0
  return pack('<I6', hasNewDepartures and math.max(at, timeBefore + 1) or timeBefore) .. leftAudiences
end

-- Returns the time at the beginning of a field `t`; 0 if the device has no such field.
local function readRegistrationTime(t) return tonumber(sub(t or '', 1, @TIME_DIGITS@)) or 0 end

-- # A device: confirmations
-- A worker confirms that each audience in the field `l` has an entry about the device's departure. ARGV[2] is the time
-- that an earlier reply gave with these audiences. If the field has a later time now, the device has left more
-- audiences since, so the field stays.
if operation == 'confirmDeviceDepartures' then
  local l = callRedis('HGET', key, 'l')
  if l and sub(l, 1, @TIME_BYTES@) == ARGV[2] then callRedis('HSET', key, 'l', '') end
  return 'settled'
end

-- # A device: holding a start
-- Returns the index of the oldest of these held starts that has expired; nil if none has.
local function findExpiredStart(starts)
  local _, seconds = readServerTime()
  for index, start in ipairs(starts) do
    local _, _, commandPosition = readHeldStart(start, 1)
    local expiration = findNumber(sub(start, commandPosition), 'expiration')
    if expiration and expiration < seconds then return index end
  end
  return nil
end

-- Keeps a start in Redis until a token of its attributes type registers, and replies `held`. With any other reply, the
-- start is not kept. The version is in digits. ARGV[5] is empty.
if operation == 'holdStart' then
  local version, command, activity = ARGV[3], ARGV[4], ARGV[6]
  local t, w = unpack(callRedis('HMGET', key, 't' .. suffix, 'w' .. suffix))
  local newStart = pack('<I2I4', #activity, #command) .. version .. activity .. command
  local starts, insertionIndex, position = {}, nil, 1
  while w and position <= #w do
    local heldVersion, heldActivity, _, nextPosition = readHeldStart(w, position)
    if heldActivity ~= activity then
      starts[#starts + 1] = sub(w, position, nextPosition - 1)
      if not insertionIndex and heldVersion > version then insertionIndex = #starts end
    elseif heldVersion > version then
      return 'superseded'
    elseif sub(w, position, nextPosition - 1) == newStart then
      -- The field already holds this start, so the reply to an earlier call was lost. If a token has come since, the
      -- worker that registered it gets the start, so the caller must not send it too. The field is written again,
      -- because this reply, too, may have to wait until replicas have the start.
      writeFields({'w' .. suffix, w}, DEVICE_EXPIRY)
      return 'held'
    end
    position = nextPosition
  end
  if t and #t > @TIME_DIGITS@ then return 'retry' end
  if #starts >= HELD_STARTS_MAX then
    -- A start that has expired is not sent any more (R20), so it gives up its place. It gets no further result.
    local expiredIndex = findExpiredStart(starts)
    if not expiredIndex then return 'full' end
    table.remove(starts, expiredIndex)
    if insertionIndex and expiredIndex < insertionIndex then insertionIndex = insertionIndex - 1 end
  end
  table.insert(starts, insertionIndex or #starts + 1, newStart)
  writeFields({'w' .. suffix, table.concat(starts)}, DEVICE_EXPIRY)
  return 'held'
end

-- # A device: registrations
-- Registers a token of the attributes type. `registration` and `restOfToken` have the form of the fields `t` and `u`.
-- If a reply has a held start, the worker asks again for the next one: `previousVersion` and `previousActivity` are
-- those of the start in the previous reply, or empty. `namedAudiences` has the audiences that the registration names;
-- nil if it has no list.
if operation == 'registerDevice' then
  local registration, restOfToken, previousVersion, previousActivity = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  local isFromCommand, namedAudiences = ARGV[7] == '1', ARGV[8]
  local t, w, u, d, m, l = unpack(callRedis('HMGET', key, 't' .. suffix, 'w' .. suffix, 'u' .. suffix, 'd' .. suffix,
    'm' .. suffix, 'l'))
  if isFromCommand then
    local newToken = sub(registration, @TIME_DIGITS@ + 1) .. restOfToken
    if newToken == sub(t or '', @TIME_DIGITS@ + 1) .. (u or '') then
      registration = t
    elseif newToken == d then
      return 'stale'
    end
  end
  local isStale = isOlderRegistration(readRegistrationTime(registration), readRegistrationTime(t))
  -- A registration may need several calls, of which only the first names audiences. Since then, another record with the
  -- same time may have stored another token, or removed the token. Then a later call is stale and changes nothing.
  -- Tokens of commands are not checked, because a command never names audiences.
  if t and not namedAudiences and not isFromCommand
    and sub(registration, 1, @TIME_DIGITS@) == sub(t, 1, @TIME_DIGITS@)
  then
    isStale = registration ~= t or restOfToken ~= u
  end
  if isStale and #t == @TIME_DIGITS@ then return 'stale' .. (namedAudiences and makeDeparturesPart(l) or '') end
  local lBefore, reply = l or '', 'registered'
  if namedAudiences and not isStale then
    if namedAudiences ~= '' and without(namedAudiences, m or '') == '' then reply = 'registered+' end
    m, l = m or '', lBefore
    local departures, kept =
      findNewDepartures(without(m, namedAudiences), {[suffix] = true}, l),
      without(sub(l, @TIME_BYTES@ + 1), namedAudiences)
    if #departures + #kept > @AUDIENCE_DIGEST_BYTES@ * @UNCONFIRMED_DEPARTURES_MAX@ then
      return 'full' .. makeDeparturesPart(l)
    end
    l = makeFieldL(sub(registration, 1, @TIME_DIGITS@) + 0, kept .. departures, departures ~= '', l)
  end
  -- Find the held start for the reply: the one after the start in the previous reply, or the first one if there was no
  -- previous reply. If the previous start is no longer held: the first one that is not older.
  local position, isPastPrevious, nextStart, firstNotOlder = 1, previousVersion == '', nil, nil
  while w and position <= #w and not nextStart do
    local version, activity, commandPosition, nextPosition = readHeldStart(w, position)
    local held = version .. sub(w, commandPosition, nextPosition - 1)
    if isPastPrevious then
      nextStart = held
    elseif version == previousVersion and activity == previousActivity then
      isPastPrevious = true
    elseif version >= previousVersion then
      firstNotOlder = firstNotOlder or held
    end
    position = nextPosition
  end
  if not isPastPrevious then nextStart = firstNotOlder end
  -- A stale registration may also get a held start in its reply, which the worker sends with the newer token. Otherwise
  -- the start might wait forever: if the newer registration is settled, no worker reads that one again.
  local departuresInReply = namedAudiences and makeDeparturesPart(l) or ''
  if departuresInReply ~= '' and nextStart then nextStart = '' end
  if isStale then return (nextStart and 'registered' .. nextStart or 'stale') .. departuresInReply end
  local changes = {'t' .. suffix, registration, 'u' .. suffix, restOfToken}
  if namedAudiences then
    for field, value in pairs({
      ['m' .. suffix] = namedAudiences ~= m and namedAudiences or nil, l = l ~= lBefore and l or nil,
    }) do
      changes[#changes + 1], changes[#changes + 2] = field, value
    end
  end
  writeFields(changes, DEVICE_EXPIRY)
  return reply .. (nextStart or '') .. departuresInReply
end

-- # A device: the token of a start
-- Gets the token for a start, and draws on the bucket of starts. Draws nothing if there is no token (`noToken`) or the
-- bucket is empty (`wait`). `registration` and `restOfToken` have the token that came with the start, as in
-- `registerDevice`, or are empty.
if operation == 'takeStartToken' then
  local bucket, registration, restOfToken = ARGV[3], ARGV[4], ARGV[5]
  local t, u, s, d = unpack(callRedis('HMGET', key, 't' .. suffix, 'u' .. suffix, 's', 'd' .. suffix))
  t, s = t or '', s or ''
  local changes = {}
  if registration and not isOlderRegistration(readRegistrationTime(registration), readRegistrationTime(t)) then
    local newToken = sub(registration, @TIME_DIGITS@ + 1) .. restOfToken
    if newToken ~= sub(t, @TIME_DIGITS@ + 1) .. (u or '') and newToken ~= d then
      t, u = registration, restOfToken
      changes[1], changes[2], changes[3], changes[4] = 't' .. suffix, t, 'u' .. suffix, u
    end
  end
  local reply = 'noToken'
  if #t > @TIME_DIGITS@ then
    local now, interval, pushes, _, longestFillSeconds = readServerTime(), read('<I3I2I2I4', bucket)
    local fullAt, refunded = s == '' and now or math.max(sub(s, 1, @TIME_DIGITS@) + 0, now), sub(s, @TIME_DIGITS@ + 1)
    -- Cut `fullAt` if it is too late, because a policy got faster refills or the clock was set back. The cut counts as
    -- a refund, so that the names of the draws stay valid (settle.lua: Refunds).
    local surplus = fullAt - now - math.max(pushes * interval, 1000 * longestFillSeconds)
    if surplus > 0 then
      fullAt, refunded = fullAt - surplus, formatTime((refunded == '' and 0 or refunded) + surplus)
      changes[#changes + 1], changes[#changes + 2] = 's', formatTime(fullAt) .. refunded
    end
    local wait = fullAt - now - (pushes - 1) * interval
    if wait > 0 then
      reply = 'wait' .. string.format('%.0f', wait)
    else
      fullAt = fullAt + interval
      reply = 'tokenFound' .. formatTime(fullAt + (refunded == '' and 0 or refunded)) .. t .. u
      changes[#changes + 1] = 's'
      changes[#changes + 1] = formatTime(fullAt) .. refunded
    end
  end
  if changes[1] then writeFields(changes, DEVICE_EXPIRY) end
  return reply
end

-- # A device: unregistrations
-- Unregisters the tokens of all attributes types; if there is `onlySuffix`, only the token of the type with this
-- suffix. A token that was registered later stays.
if operation == 'unregisterDevice' then
  local at, onlySuffix, changes, registrations, audiences, l = ARGV[2], ARGV[3], {}, {}, {}, ''
  local unregisteredSuffixes = {}
  local fields = callRedis('HGETALL', key)
  for index = 1, #fields, 2 do
    local fieldKind = sub(fields[index], 1, 2)
    if fieldKind == 't:' and (not onlySuffix or sub(fields[index], 2) == onlySuffix) then
      registrations[sub(fields[index], 2)] = fields[index + 1]
    end
    if fieldKind == 'm:' and fields[index + 1] ~= '' then
      audiences[#audiences + 1] = {sub(fields[index], 2), fields[index + 1]}
    end
    if fields[index] == 'l' then l = fields[index + 1] end
  end
  if not next(registrations) then return 'unregistered' .. makeDeparturesPart(l) end
  for typeSuffix, t in pairs(registrations) do
    if not isOlderRegistration(at + 0, readRegistrationTime(t)) then
      unregisteredSuffixes[typeSuffix] = true
      for field, value in pairs({t = at, u = ''}) do
        changes[#changes + 1] = field .. typeSuffix
        changes[#changes + 1] = value
      end
    end
  end
  if not changes[1] then return 'stale' .. makeDeparturesPart(l) end
  local noLongerNamed, isNoLongerNamed = {}, {}
  table.sort(audiences, function(one, other) return one[1] < other[1] end)
  for _, each in ipairs(audiences) do
    if unregisteredSuffixes[each[1]] then
      for position = 1, #each[2], @AUDIENCE_DIGEST_BYTES@ do
        local digest = sub(each[2], position, position + (@AUDIENCE_DIGEST_BYTES@ - 1))
        if not isNoLongerNamed[digest] then noLongerNamed[#noLongerNamed + 1] = digest end
        isNoLongerNamed[digest] = true
      end
      changes[#changes + 1], changes[#changes + 2] = 'm' .. each[1], ''
    end
  end
  local departures = findNewDepartures(table.concat(noLongerNamed), unregisteredSuffixes, l)
  if departures ~= '' then
    l = makeFieldL(at + 0, sub(l, @TIME_BYTES@ + 1) .. departures, true, l)
    changes[#changes + 1], changes[#changes + 2] = 'l', l
  end
  writeFields(changes, DEVICE_EXPIRY)
  return 'unregistered' .. makeDeparturesPart(l)
end

return redis.error_reply('ERR unknown operation')
