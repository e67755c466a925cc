-- This file is a part of the script `admit` (admit.lua): updates and ends in a batch that do not take the short path
-- (admit-batches.lua). Model/ActivityState+Admission.swift decides the same in Swift. Read it first.
--
-- Budget. A bucket is one number: the time at which the bucket will be full if nothing more is drawn (the generic cell
-- rate algorithm). A draw makes this time later by one interval. An example: the bucket holds 4 pushes, and the
-- interval is 10 minutes. If the bucket will be full in 30 minutes, it lacks 3 pushes, so one is left.
--
-- A version draws only once, even if it is admitted several times. A version that asked for priority 10 and got 5 has
-- not drawn yet, and may draw when it is admitted again. The draw of an update or end is not refunded if the push
-- fails, because the phone may have counted the push. The draw of a start that was not sent is refunded (settle.lua).

-- Makes the functions of this file, and returns the last one, `admit`. The loop runs `makeAdmit` only if a batch needs
-- it (admit.lua: Speed). The heading `# All steps` explains the names that several functions use.
local function makeAdmit(readCall, isNewer, isOlderRegistration, splitPhase, findParts, readLastUpdateSecond,
    computeLastUpdateSecond, MALFORMED)
  local callRedis, sub, read, pack = redis.pcall, string.sub, struct.unpack, struct.pack
  -- The paces that were read, by the number of their argument. A pace has two buckets, `budget` and `frequentBudget`
  -- (Policy.swift), so it may have two elements. For example, paces[2] has the `budget` of ARGV[2], and paces[-2] its
  -- `frequentBudget`.
  local paces = {}
  -- The bytes of the held commands in this batch's replies so far (`replyWithHeld`). A held command that does not fit
  -- counts too.
  local heldByteCount = 0

  -- # The token
  -- Puts the call's token into the value, unless the value has a later registration or unregistration, or this token is
  -- the one that was retired last. If the command is read again because Redis lost data, `rereadAtSeconds` is the
  -- present second, otherwise false. Returns the value, the last assigned timestamp, whether the value has the call's
  -- token now, and how many bytes longer this made the value.
  local function adoptToken(value, token, retired, lastAssignedTimestamp, rereadAtSeconds)
    local isRefused = isOlderRegistration(token.registeredAt, (read('<I6', value, @AT_REGISTERED@)))
    if not isRefused and retired ~= '' then
      isRefused = sub(redis.sha1hex(token.bytes .. string.char(token.form)), 1, @RETIRED_BYTES@) == retired
    end
    if isRefused then return value, lastAssignedTimestamp, false, 0 end
    local tokenLengthAndFlags, flags = read('<I2B', value, 5)
    local tokenLength = tokenLengthAndFlags % @TOKEN_LENGTH_MODULUS@
    local addedByteCount = #token.bytes - tokenLength
    local formBefore, fixedPart = flags % @FORM_MODULUS@, sub(value, @AT_DIGEST@, @AT_REGISTERED@ - 1)
    if rereadAtSeconds and formBefore == 0 and rereadAtSeconds > lastAssignedTimestamp then
      -- Before the loss, pushes may have got timestamps above those of their commands (R11), and phones ignore lower
      -- timestamps. So the present second counts as the last assigned timestamp: the next push gets a higher one.
      local phaseByte = value:byte(@AT_PHASE@)
      if phaseByte % @OWN_TIMESTAMP_MODULUS@ >= @OWN_TIMESTAMP@ then phaseByte = phaseByte - @OWN_TIMESTAMP@ end
      fixedPart = sub(value, @AT_DIGEST@, @AT_PHASE@ - 1) .. string.char(phaseByte)
        .. sub(value, @AT_PHASE@ + 1, @AT_ASSIGNED@ - 1) .. pack('<I5', rereadAtSeconds)
      lastAssignedTimestamp = rereadAtSeconds
    end
    return sub(value, 1, 4) .. pack('<I2B', tokenLengthAndFlags + addedByteCount, flags - formBefore + token.form)
      .. fixedPart .. pack('<I6', token.registeredAt) .. token.bytes .. sub(value, @AT_TOKEN@ + tokenLength),
      lastAssignedTimestamp, true, addedByteCount
  end

  -- # The order of versions
  -- Returns whether the call has the newest version; and the reply that refuses the command (R11, R13), nil if it may
  -- become the newest version or repeats one that is not settled. (A start that is being sent counts as settled.)
  -- The model decides the same: search for `decision: order of versions`.
  local function findRefusal(version, timestamp, paceByte, isEnd, mayReplaceHeldAlert, value, newestTimestamp, phase,
      newestIsEnd, startPosition, heldPosition)
    -- `comesAfterNewest`: whether the call's version is newer than the newest one, or the first of all.
    local isSameVersion, comesAfterNewest = false, phase == @NO_VERSION@ or timestamp > newestTimestamp
    if timestamp == newestTimestamp and not comesAfterNewest then
      local newestVersion = sub(value, @AT_VERSION@, @AT_BUCKET@ - 1)
      isSameVersion = version == newestVersion
      comesAfterNewest = not isSameVersion and isNewer(version, newestVersion)
    end
    if comesAfterNewest and not newestIsEnd then return false, nil end

    if isEnd and newestIsEnd then
      if isSameVersion then
        if phase == @SETTLED@ then return true, 'duplicate' end
        -- `-`: the phone does not show this end. Then a LifetimeKeeper makes the end of a lifetime again.
        if phase == @NOT_SHOWN@ then return true, 'duplicate-' end
        return true, nil
      end
      -- A newer end may come if the newest end is not settled, or the phone does not show it. But the end of a lifetime
      -- does not replace an end that is not settled, because that end may still be sent.
      local maySupersede = phase == @NOT_SHOWN@
        or phase ~= @SETTLED@ and paceByte % @IS_LIFETIME_END_MODULUS@ < @IS_LIFETIME_END@
      return false, not (comesAfterNewest and maySupersede) and 'ended' or nil
    end
    if isEnd then
      -- An end that is older than the newest start belongs to an earlier life. But with the bit ENDS_NEWER_LIFE, it
      -- ends the newer life too (R13).
      local isOfEarlierLife = startPosition < heldPosition and paceByte % @ENDS_NEWER_LIFE_MODULUS@ < @ENDS_NEWER_LIFE@
        and isNewer(sub(value, startPosition, heldPosition - 1), version)
      return isSameVersion, isOfEarlierLife and 'superseded' or nil
    end

    local isSettledOrStart = phase == @SETTLED@ or phase == @NOT_SHOWN@ or phase == @START_SENDING@
    if isSameVersion and not newestIsEnd then return true, isSettledOrStart and 'duplicate' or nil end
    -- A newest version that is not settled can still carry the older update's alert. A start cannot: the alert belongs
    -- to the life before it.
    if mayReplaceHeldAlert and not isSameVersion and not comesAfterNewest and not isSettledOrStart then
      return false, 'alertAwaitsCarrier'
    end
    return isSameVersion, newestIsEnd and 'ended' or 'superseded'
  end

  -- # Whether the state may be sent now
  -- Returns the reply to a command that is too old for an unknown activity, comes after the activity's eight hours, or
  -- carries an alert that is not newer than the last accepted one. Otherwise nil. (`decide` may reply `alertHeld`.)
  local function findObstacle(paceByte, phase, isEnd, seconds, lastUpdateSecond, alertVersion, acceptedAlertVersion)
    if paceByte >= @IS_TOO_OLD@ and phase == @NO_VERSION@ then return 'expired' end
    -- The model decides the same: search for `decision: eight hours`.
    if not isEnd and lastUpdateSecond and seconds > lastUpdateSecond then return 'activityOver' end
    if alertVersion and acceptedAlertVersion ~= '' and not isNewer(alertVersion, acceptedAlertVersion) then
      return 'alertAlreadyAccepted'
    end
    return nil
  end

  -- Reads the spacing and one bucket of a pace, puts them into `paces`, and returns them. The bucket is `budget` if
  -- `signedPaceNumber` is positive, and `frequentBudget` if it is negative.
  local function readPace(signedPaceNumber)
    local paceBytes = ARGV[math.abs(signedPaceNumber)]
    local pacePosition = signedPaceNumber < 0 and @AT_FREQUENT_BUDGET_PART@ or @AT_BUDGET_PART@
    local spacing, interval, pushes, reserved = read('<I3I3I2I2', paceBytes, pacePosition)
    paces[signedPaceNumber] = {spacing = spacing, interval = interval, pushes = pushes, reserved = reserved,
      bytes = paceBytes, longestFill = math.max(pushes * interval, 1000 * read('<I4', paceBytes, @AT_LONGEST_FILL@))}
    return paces[signedPaceNumber]
  end

  -- Returns for how long the spacing still forbids a push (0 if it forbids none), and the pace of the activity.
  -- `throttle` is the part about the last 429.
  -- The model decides the same: search for `decision: spacing`.
  local function findWait(paceByte, flags, throttle, lastSendAt, now)
    local signedPaceNumber = paceByte % @PACE_NUMBER_MODULUS@
    if flags % @ALLOWS_FREQUENT_MODULUS@ >= @ALLOWS_FREQUENT@ then signedPaceNumber = -signedPaceNumber end
    local pace = paces[signedPaceNumber] or readPace(signedPaceNumber)
    local spacing, sinceLastSend = pace.spacing, now - lastSendAt
    if throttle ~= '' then
      local doublings, throttledAt = read('<BI6', throttle)
      local longestSpacing, recovery = read('<I3I3', pace.bytes, @AT_LONGEST_SPACING@)
      doublings = now < throttledAt and 0 or doublings - math.floor((now - throttledAt) / recovery)
      if doublings > 0 then spacing = math.max(spacing, math.min(spacing * 2 ^ doublings, longestSpacing)) end
    end
    if sinceLastSend >= 0 and sinceLastSend < spacing then return spacing - sinceLastSend, pace end
    return 0, pace
  end

  -- Decides whether the command may be sent now. `isShown`: the command is an update, and the activity shows its state
  -- already. `wait` is the result of `findWait`; nil if there is no token. Returns three values:
  --     the reply; nil if the command may be sent
  --     the phase of the command's version, which becomes the newest; nil if the value does not change
  --     whether the value loses its held command
  --
  -- A held alert and a shown state decide first (replies `alertHeld` and `unchanged`). For all other cases, this table
  -- has the reply and the phase. Of two phases, the second is for a held command with an alert. `-` means that the
  -- value does not change. "Held" means that the newest version itself is held, not an older command.
  --
  --                          command              reply      phase
  --     may be sent          repeated and held    nil        SENDING_HELD, SENDING_HELD_ALERT
  --                          any other            nil        SENDING, SENDING_OLDER_ALERT
  --     must wait            newer                wait       WAITING, WAITING_OLDER_ALERT
  --                          repeated             wait       -
  --     there is no token    newer                noToken    WAITING, WAITING_OLDER_ALERT
  --                          repeated and held    held       HELD, HELD_ALERT
  --                          repeated, not held   noToken    -
  local function decide(phase, isRepeated, mayReplaceHeldAlert, isShown, wait)
    local hasToken = wait ~= nil
    -- `newestIsHeld`: the held command is the newest version itself, not an older command whose alert the newest
    -- version carries (admit.lua: Phases). `holdsAlert`: the held command, in either case, has an alert.
    local newestIsHeld = phase >= @HELD@ and phase <= @SENDING_HELD_ALERT@
    local holdsAlert = phase == @HELD_ALERT@ or phase == @SENDING_HELD_ALERT@ or phase >= @WAITING_OLDER_ALERT@

    -- The worker must add the held alert to the command, and ask again. But if the command is the held one, and there
    -- is still no token, it stays held.
    if holdsAlert and not mayReplaceHeldAlert and not (isRepeated and newestIsHeld and not hasToken) then
      return 'alertHeld'
    end

    -- The model decides the same: search for `decision: unchanged`.
    if isShown then return 'unchanged', @SETTLED@, newestIsHeld or holdsAlert end

    if wait == 0 then
      -- If the command is the held one, Redis keeps it until its version is settled.
      if isRepeated and newestIsHeld then return nil, holdsAlert and @SENDING_HELD_ALERT@ or @SENDING_HELD@ end
      -- If the held command has an alert, this command carries it. Redis keeps the held one until this one is settled.
      if holdsAlert then return nil, @SENDING_OLDER_ALERT@ end
      -- Otherwise this command replaces the held command, if there is one. The held command is removed.
      return nil, @SENDING@, newestIsHeld
    end

    -- The model decides the same: search for `decision: no token` and `decision: spacing`.
    local reply = hasToken and 'wait' .. string.format('%.0f', wait) or 'noToken'
    if isRepeated then
      -- Without a token, the held command stays held. If its token was retired while it was being sent, the phase
      -- becomes HELD or HELD_ALERT again.
      if newestIsHeld and not hasToken then return 'held', holdsAlert and @HELD_ALERT@ or @HELD@ end
      -- Every other repeated command keeps its phase.
      return reply
    end
    -- The newer version waits. A held command with an alert stays, because the newer version will carry its alert. A
    -- held command without an alert is removed.
    if holdsAlert then return reply, @WAITING_OLDER_ALERT@ end
    return reply, @WAITING@, newestIsHeld
  end

  -- Returns the reply `alertHeld`, with the time of the registration and the held command. The worker has room for
  -- @REPLY_STRING_BYTES_MAX@ bytes of held commands in the replies to a batch; the first one always fits. If a further
  -- one does not fit, returns `wait1`: ask again after 1 ms.
  local function replyWithHeld(value, heldPosition)
    local held = sub(value, heldPosition)
    heldByteCount = heldByteCount + #held
    if heldByteCount > @REPLY_STRING_BYTES_MAX@ and heldByteCount > #held then return 'wait1' end
    return 'alertHeld' .. sub(value, @AT_REGISTERED@, @AT_TOKEN@ - 1) .. held
  end

  -- # Timestamp, priority and budget
  -- Returns the timestamp of a push. A repeated command that was sent before keeps the timestamp of that push.
  -- `repeatedPhase` is the phase of a repeated command before the call, otherwise false.
  -- The model decides the same: search for `decision: timestamp`.
  local function assignTimestamp(timestamp, lastAssignedTimestamp, repeatedPhase)
    if repeatedPhase == @SENDING@ or repeatedPhase == @SENDING_HELD@ or repeatedPhase == @SENDING_HELD_ALERT@
      or repeatedPhase == @SENDING_OLDER_ALERT@
    then
      return lastAssignedTimestamp
    end
    if timestamp > lastAssignedTimestamp then return timestamp end
    return math.min(lastAssignedTimestamp + 1, @TIMESTAMP_MAX@)
  end

  -- Decides the priority of a push, and draws on the budget. `fullAt` is when the bucket will be full. `hasDrawn` says
  -- whether the version has drawn before. Returns the priority, the pushes left, and the new time at which the bucket
  -- will be full; nil if this time stays.
  -- The model decides the same: search for `decision: budget` and `decision: pushes left`.
  local function draw(pace, requestByte, fullAt, hasDrawn, now)
    -- The bucket lacks one push for each interval until it is full, and a begun interval counts as a whole one: d /
    -- interval, rounded up, where d = fullAt - now. For whole numbers, this is floor((d - 1) / interval) + 1. For
    -- example, if interval = 600 s and d = 900 s, it lacks 2 pushes. (admit-batches.lua uses another formula.)
    local pushesLeft = pace.pushes
    if fullAt > now then
      local missing = fullAt - now - 1
      pushesLeft = pushesLeft - (missing - missing % pace.interval) / pace.interval - 1
      if pushesLeft < 0 then pushesLeft = 0 end
    end
    local isHigh, mayUseReserve =
      requestByte % @REQUESTS_HIGH_PRIORITY_MODULUS@ == @REQUESTS_HIGH_PRIORITY@,
      requestByte % @MAY_USE_RESERVE_MODULUS@ >= @MAY_USE_RESERVE@
    if not isHigh then return @PRIORITY_LOW@, pushesLeft end
    if hasDrawn then return @PRIORITY_HIGH@, pushesLeft end
    if pushesLeft <= (mayUseReserve and 0 or pace.reserved) then
      -- The latest time at which a bucket will be full (`Policy.Bucket.fullAtMillisecondsMax`).
      local fullAtMax = now + pace.longestFill
      return @PRIORITY_DEMOTED@, pushesLeft, fullAt > fullAtMax and fullAtMax or nil
    end
    return @PRIORITY_HIGH@, pushesLeft - 1, (fullAt > now and fullAt or now) + pace.interval
  end

  -- # Writing
  -- Writes the whole value, with a new expiry. Returns the error, or nil.
  local function store(key, value, exists)
    local written
    if exists then
      written = callRedis('SET', key, value, 'PX', '@ACTIVITY_EXPIRY_MILLISECONDS@')
    else
      -- MGET returns nil also for a value that is not a string. NX keeps such a value from being overwritten.
      written = callRedis('SET', key, value, 'PX', '@ACTIVITY_EXPIRY_MILLISECONDS@', 'NX')
        or {err = 'WRONGTYPE the key holds what is not an activity of Causeway'}
    end
    return written.err and written or nil
  end

  -- Makes the command the newest version, without permission to send it. Returns the error, or nil.
  local function storeUnsent(key, value, stored, version, timestamp, nextPhaseByte, lastAssignedTimestamp)
    local afterVersion
    if lastAssignedTimestamp == timestamp then
      afterVersion = sub(value, @AT_BUCKET@)
    else
      nextPhaseByte = nextPhaseByte - @OWN_TIMESTAMP@
      afterVersion = sub(value, @AT_BUCKET@, @AT_ASSIGNED@ - 1) .. pack('<I5', lastAssignedTimestamp)
        .. sub(value, @AT_REGISTERED@)
    end
    return store(key, sub(value, 1, @AT_PHASE@ - 1) .. string.char(nextPhaseByte)
      .. sub(value, @AT_PHASE@ + 1, @AT_VERSION@ - 1) .. version .. afterVersion, stored)
  end

  -- Makes the command the newest version, which may be sent now. Returns the error, or nil.
  --     assigned     the timestamp of the push
  --     newFullAt    when the bucket will be full; nil if this time stays
  local function storeSent(key, value, stored, version, timestamp, nextPhaseByte, assigned, newFullAt, lastSendAt, now)
    -- The bytes after the version, up to the last one that changes: when the bucket will be full, and then the last
    -- assigned timestamp, if this is not the version's own.
    local bucketAndAssigned = ''
    if newFullAt then bucketAndAssigned = pack('<I6', newFullAt) end
    if assigned ~= timestamp then
      nextPhaseByte = nextPhaseByte - @OWN_TIMESTAMP@
      bucketAndAssigned = (newFullAt and bucketAndAssigned or sub(value, @AT_BUCKET@, @AT_ASSIGNED@ - 1))
        .. pack('<I5', assigned)
    end
    local newBytes = pack('<I6BI6', 0, nextPhaseByte, now) .. version .. bucketAndAssigned
    -- SETRANGE is faster than SET, but does not renew the expiry, and writes only `newBytes`. So SET is used if other
    -- bytes have changed, and for the first send verdict in each 1,000 seconds. This renews the expiry often enough,
    -- because a value is stored an hour longer than needed.
    -- The model decides the same: search for `decision: expiry`.
    local isInSameThousandSeconds = lastSendAt - lastSendAt % 1000000 == now - now % 1000000
    if value ~= stored or not isInSameThousandSeconds then
      return store(key, sub(value, 1, @AT_DIGEST@ - 1) .. newBytes .. sub(value, @AT_DIGEST@ + #newBytes), stored)
    end
    local written = callRedis('SETRANGE', key, '@DIGEST_BYTE_OFFSET@', newBytes)
    if written == #value then return nil end
    return tonumber(written) and MALFORMED or written
  end

  -- # All steps
  -- Performs an update or an end. `stored` is what Redis has for the key, and `value` is the value to read; both are
  -- from the loop. `position` is where the call begins. Returns the reply, and where the next call begins.
  --
  -- If the reply is a number, also returns the beginning of the value before the admission, up to the last byte of the
  -- accepted alert. If the update or end brought a new token, the returned value has it.
  --
  -- Variables and parameters:
  --     isEnd, mayReplaceHeldAlert    bits of `requestByte`, which CallRequestBits explains
  --     timestamp                     the timestamp of the call's version
  --     alertVersion                  the version of the command whose alert the call carries
  --     phase, newestIsEnd            of the newest version in Redis: the number of its letter; whether it is an end
  --     newestTimestamp               the newest version's timestamp
  --     lastAssignedTimestamp         the last `aps.timestamp` that Redis assigned to a push
  --     lastSendAt                    the time of the last send verdict
  --     isSameVersion                 whether the call has the newest version
  --     isRepeated                    whether the call repeats the newest command
  --     nextPhaseByte                 the byte of the next phase, with the bit OWN_TIMESTAMP. `storeUnsent` and
  --                                   `storeSent` remove this bit if the last assigned timestamp is another one
  --     throttle, retired             see `findParts`
  local function admit(key, stored, value, position, now)
    local version, paceByte, requestByte, timestamp, digest, token, alertVersion, nextPosition = readCall(position)
    if stored and #stored < @FIXED_BYTES@ then return stored.err and stored or MALFORMED, nextPosition end
    local isEnd = requestByte % @IS_END_MODULUS@ >= @IS_END@
    local mayReplaceHeldAlert = requestByte % @MAY_REPLACE_HELD_ALERT_MODULUS@ >= @MAY_REPLACE_HELD_ALERT@
    local updatesUntilSeconds, tokenLengthAndFlags, flags, shownDigest, phaseByte, lastSendAt, newestTimestamp =
      read('<I4I2BI6BI6I5', value)
    local phase, newestIsEnd = splitPhase(phaseByte)
    local hasOwnTimestamp = phaseByte % @OWN_TIMESTAMP_MODULUS@ >= @OWN_TIMESTAMP@
    local lastAssignedTimestamp = hasOwnTimestamp and newestTimestamp or read('<I5', value, @AT_ASSIGNED@)
    local tokenEnd, startPosition, heldPosition, acceptedAlertVersion, audiences, formerAudiences, retired, throttle =
      findParts(value, tokenLengthAndFlags, flags, phase)
    if not tokenEnd then return MALFORMED, nextPosition end
    -- The activity left audiences. First, a worker must write this into the audiences' pages (admit.lua: Audiences).
    if audiences and formerAudiences ~= '' then
      return 'departures=' .. sub(value, @AT_REGISTERED@, @AT_TOKEN@ - 1) .. formerAudiences, nextPosition
    end

    -- Store the call's token. If the value already has this token, the token keeps its registration time.
    local seconds, form, hasNewToken = (now - now % 1000) / 1000, flags % @FORM_MODULUS@, false
    local lastUpdateSecond = readLastUpdateSecond(value, updatesUntilSeconds, form, startPosition < heldPosition)
    if token and (form ~= token.form or sub(value, @AT_TOKEN@, tokenEnd) ~= token.bytes) then
      local isReread, addedByteCount = paceByte % @IS_REREAD_MODULUS@ >= @IS_REREAD@, nil
      value, lastAssignedTimestamp, hasNewToken, addedByteCount =
        adoptToken(value, token, retired, lastAssignedTimestamp, isReread and seconds)
      tokenEnd, startPosition, heldPosition =
        tokenEnd + addedByteCount, startPosition + addedByteCount, heldPosition + addedByteCount
      if hasNewToken and (isReread or not lastUpdateSecond) then
        lastUpdateSecond =
          math.max(lastUpdateSecond or 0, computeLastUpdateSecond(now, isReread and token.registeredAt))
        value = pack('<I4', lastUpdateSecond) .. sub(value, 5)
      end
    end

    -- Find out whether the order of versions, or anything else, refuses the command.
    local isSameVersion, refusal = findRefusal(version, timestamp, paceByte, isEnd, mayReplaceHeldAlert, value,
      newestTimestamp, phase, newestIsEnd, startPosition, heldPosition)
    refusal = refusal
      or findObstacle(paceByte, phase, isEnd, seconds, lastUpdateSecond, alertVersion, acceptedAlertVersion)
    if refusal then return hasNewToken and store(key, value, stored) or refusal, nextPosition end

    -- Find out whether the state may be sent now. An update and an end with the same version are two commands, so
    -- neither repeats the other.
    local isRepeated, wait, pace = isSameVersion and isEnd == newestIsEnd, nil, nil
    if form > 0 or hasNewToken then wait, pace = findWait(paceByte, flags, throttle, lastSendAt, now) end
    -- For an activity in an audience, the shown state is not known (admit.lua: Audiences).
    local isShown = not isEnd and shownDigest == digest and not audiences
    local reply, nextPhase, removesHeld = decide(phase, isRepeated, mayReplaceHeldAlert, isShown, wait)
    if not nextPhase then
      if reply == 'alertHeld' then reply = replyWithHeld(value, heldPosition) end
      return hasNewToken and store(key, value, stored) or reply, nextPosition
    end

    -- Make the command the newest version.
    if removesHeld then value = sub(value, 1, heldPosition - 1) end
    local hasDrawn = isRepeated and phaseByte >= @HAS_DRAWN@
    local nextPhaseByte = nextPhase - (isEnd and @UPPER_CASE@ or 0) + (hasDrawn and @HAS_DRAWN@ or 0)
    if reply then
      local failure = storeUnsent(key, value, stored, version, timestamp, nextPhaseByte, lastAssignedTimestamp)
      return failure or reply, nextPosition
    end
    local assigned = assignTimestamp(timestamp, lastAssignedTimestamp, isRepeated and phase)
    local priority, pushesLeft, newFullAt = draw(pace, requestByte, read('<I6', value, @AT_BUCKET@), hasDrawn, now)
    if newFullAt and priority == @PRIORITY_HIGH@ then nextPhaseByte = nextPhaseByte + @HAS_DRAWN@ end
    local failure =
      storeSent(key, value, stored, version, timestamp, nextPhaseByte, assigned, newFullAt, lastSendAt, now)
    if failure then return failure, nextPosition end
    local alertEnd = tokenEnd + #acceptedAlertVersion
    return assigned * @TIMESTAMP_FACTOR@ + priority * @PRIORITY_FACTOR@ + pushesLeft, nextPosition,
      alertEnd < #value and sub(value, 1, alertEnd) or value
  end

  return admit
end
