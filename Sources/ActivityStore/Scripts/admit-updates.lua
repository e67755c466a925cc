-- This file is a part of the script `admit` (admit.lua): the decisions about updates and ends in a batch that do not take
-- the short path. The loop calls these functions in the order in which they are here (admit-batches.lua).
-- Model/ActivityState+Admission.swift decides the same in Swift. Read it first.
--
-- Budget. A bucket is one number, the time at which it will be full if nothing more is drawn (the generic cell
-- rate algorithm). A draw moves that time by one interval. The time may not be further ahead than the intervals of
-- a full bucket. A version draws once, however often it is repeated. A version that asked for priority 10 and got
-- 5 may draw when it is admitted again. The draw of an update or end is not refunded if the push fails, because
-- the phone may have counted the push. The draw of a start that was not sent is refunded (settle.lua).

-- Makes the functions of this file and returns them. The loop calls this function only if a batch needs it: making
-- functions takes time in each run of the script (admit-batches.lua).
local function makeUpdateFunctions(isNewer)
  -- The total length of the held commands in the replies of this batch so far, including those for which there was no room.
  -- With more than @REPLY_STRING_BYTES_MAX@, the reply would exceed the memory that the worker has for one reply.
  local heldBytes = 0

  -- Decides whether the value takes another token, which a command brings. Returns the value with this token, and the last
  -- assigned timestamp. Returns nil if the value keeps its own token, because the value's token is newer, or because
  -- the command's token is the last one that was retired.
  --     last                      the last assigned timestamp
  --     tokenLength, flags        the number in bytes 5 and 6 of the value, and byte 7
  --     alertAt, retired          see `findParts`
  --     token, tokenAt, form      the command's token, when it was registered, and its form
  --     rereadAt                  the present second if the command is read again because Redis lost data; else nil or false
  local function takeToken(value, last, tokenLength, flags, alertAt, retired, token, tokenAt, form, rereadAt)
    if tokenAt < struct.unpack('<I6', value, @REGISTERED_AT@) then return nil end
    if retired ~= '' and redis.sha1hex(token .. string.char(form)):sub(1, @RETIRED_BYTES@) == retired then return nil end
    local formBefore = flags % @ALLOWS_FREQUENT@
    if rereadAt and formBefore == 0 and rereadAt > last then
      -- Pushes from before the loss of data may have had timestamps above those of their commands, and phones ignore
      -- lower timestamps. So the next timestamp is above the present second.
      local stateByte = value:byte(@STATE@)
      if stateByte % @HAS_DRAWN@ >= @OWN_TIMESTAMP@ then stateByte = stateByte - @OWN_TIMESTAMP@ end
      value = value:sub(1, @STATE@ - 1) .. string.char(stateByte) .. value:sub(@STATE@ + 1, @ASSIGNED@ - 1)
        .. struct.pack('<I5', rereadAt) .. value:sub(@REGISTERED_AT@)
      last = rereadAt
    end
    return value:sub(1, 4) .. struct.pack('<I2B', tokenLength - (alertAt - @TOKEN@) + #token, flags - formBefore + form)
      .. value:sub(@DIGEST@, @REGISTERED_AT@ - 1) .. struct.pack('<I6', tokenAt) .. token .. value:sub(alertAt), last
  end

  -- Decides by the order of versions about a command that is not newer than the newest version, or that comes after an end
  -- (R11, R13). Returns the reply that refuses the command. Returns nil if the command may become the newest version, or
  -- repeats a newest version that is not settled.
  --     same, newer               whether the command's version equals the newest version, or is newer
  --     state, ended              the state of the newest version, and whether this version is an end
  --     start                     the part about the start, empty if there is none
  --     endsNewerLife             whether an end takes effect even if the newest start is newer than the end
  local function findRefusal(version, isEnd, mayReplaceHeldAlert, same, newer, state, ended, start, endsNewerLife)
    if isEnd and ended then
      if same then return state == @SETTLED@ and 'duplicate' or state == @NOT_SHOWN@ and 'duplicate-' or nil end
      return not (newer and state == @NOT_SHOWN@) and 'ended' or nil
    end
    if isEnd then
      -- An end that is older than the newest start belongs to an earlier life. It was deferred, or is replayed.
      return start ~= '' and not newer and not endsNewerLife and isNewer(start, version) and 'superseded' or nil
    end
    local isSettled = state == @SETTLED@ or state == @NOT_SHOWN@
    if same and not ended then return (isSettled or state == @START_SENDING@) and 'duplicate' or nil end
    -- A newer version that is not settled yet can carry the alert. A start cannot: the alert belongs to the life before it.
    if mayReplaceHeldAlert and not same and not newer and not isSettled and state ~= @START_SENDING@ then return 'alertAwaitsCarrier' end
    return ended and 'ended' or 'superseded'
  end

  -- Returns the spacing of an activity that APNs has throttled.
  --     spacing, pace             the pace's own spacing, and its numbers
  --     throttle                  the part about the last 429
  local function findSpacing(spacing, pace, throttle, now)
    local doublings, throttledAt = struct.unpack('<BI6', throttle)
    local longest, recovery = struct.unpack('<I3I3', pace, 21)
    doublings = now < throttledAt and 0 or doublings - math.floor((now - throttledAt) / recovery)
    return doublings > 0 and math.max(spacing, math.min(spacing * 2 ^ doublings, longest)) or spacing
  end

  -- Decides whether the command may be sent now. Returns three values:
  --     the reply; nil if the command may be sent
  --     the state (a letter) of the command's version, which becomes the newest; nil if the value does not change
  --     whether the value drops its held command
  -- The parameters:
  --     value, heldAt             the value, and where its held command begins
  --     state                     the state of the newest version
  --     same                      whether the command repeats the newest version
  --     isTooOld                  whether the command is too old for an activity without a version
  --     isOver                    whether the command is an update and the activity's first eight hours are over
  --     isAlertAccepted           whether APNs has already accepted the carried alert or a newer one
  --     isShown                   whether the command is an update, and the activity already shows its state
  --     wait                      for how many milliseconds the spacing forbids a push; nil if there is no token
  local function decide(value, heldAt, state, same, mayReplaceHeldAlert, isTooOld, isOver, isAlertAccepted, isShown, wait)
    if isTooOld and state == @NO_VERSION@ then return 'expired' end
    if isOver then return 'activityOver' end
    if isAlertAccepted then return 'alertAlreadyAccepted' end
    -- `holds`: whether the newest version is held. `holdsAlert`: whether a held command has an alert. This may be the
    -- newest version, or an older command whose alert the newest version carries.
    local holds = state >= @HELD@ and state <= @SENDING_HELD_ALERT@
    local holdsAlert = state == @HELD_ALERT@ or state == @SENDING_HELD_ALERT@ or state >= @WAITING_OLDER_ALERT@
    if holdsAlert and not mayReplaceHeldAlert and (wait or not same or not holds) then
      local held = value:sub(heldAt)
      heldBytes = heldBytes + #held
      -- If this held command does not fit into the reply beside the earlier ones, the command must ask again. A reply
      -- always has room for one held command.
      return heldBytes > @REPLY_STRING_BYTES_MAX@ and heldBytes > #held and 'wait1' or 'alertHeld' .. held
    end
    if isShown then return 'unchanged', @SETTLED@, holds or holdsAlert end
    local reply = not wait and 'noToken' or wait > 0 and 'wait' .. string.format('%.0f', wait) or nil
    if same and reply then
      if holds and not wait then return 'held', holdsAlert and @HELD_ALERT@ or @HELD@ end
      return reply
    end
    if same and holds then return nil, holdsAlert and @SENDING_HELD_ALERT@ or @SENDING_HELD@ end
    if holdsAlert then return reply, reply and @WAITING_OLDER_ALERT@ or @SENDING_OLDER_ALERT@ end
    return reply, reply and @WAITING@ or @SENDING@, holds
  end

  -- Decides the timestamp and the priority of a push, and draws on the budget. Returns the reply; the timestamp;
  -- whether the version has drawn; and the bytes of the new time at which the bucket will be full, nil if nothing is
  -- drawn now.
  --     timestamp                 the timestamp of the command's version
  --     last                      the last assigned timestamp
  --     state                     the state of the newest version
  --     same                      whether the command repeats the newest version
  --     request                   the lowest bits: priority 10, and whether the reserve may be used (CallBits)
  --     full                      when the bucket will be full
  --     hasDrawn                  whether the version has drawn before
  --     interval, pushes, reserved    the bucket's numbers
  local function assign(timestamp, last, state, same, request, full, hasDrawn, interval, pushes, reserved, now)
    if same and (state == @SENDING@ or state == @SENDING_HELD@ or state == @SENDING_HELD_ALERT@ or state == @SENDING_OLDER_ALERT@) then
      timestamp = last
    elseif timestamp <= last then
      timestamp = math.min(last + 1, @TIMESTAMP_MAX@)
    end
    local left, priority, fullAfter = pushes, @PRIORITY_FIVE@, nil
    if full > now then
      local missing = full - now - 1
      left = pushes - (missing - missing % interval) / interval - 1
      if left < 0 then left = 0 end
    end
    if request % 2 == 1 then
      if hasDrawn then
        priority = @PRIORITY_TEN@
      elseif left > (request % 4 >= 2 and 0 or reserved) then
        priority, hasDrawn, left = @PRIORITY_TEN@, true, left - 1
        fullAfter = struct.pack('<I6', (full > now and full or now) + interval)
      else
        priority = @PRIORITY_DEMOTED@
      end
    end
    return timestamp * @TIMESTAMP_FACTOR@ + priority * @PRIORITY_FACTOR@ + left, timestamp, hasDrawn, fullAfter
  end

  -- Makes the bytes that the command writes over the value from the digest (byte 8) on, as it becomes the newest
  -- version.
  --     version                   the command's version
  --     timestamp                 the timestamp in this version
  --     last                      the last assigned timestamp
  --     nextState                 the letter of the version's state
  --     isEnd                     whether the version is an end
  --     hasDrawn                  whether the version has drawn on the budget
  --     fullAfter                 the bytes of the time at which the bucket will be full, nil if they stay
  --     sentAt                    the time of the send verdict; nil or false if there is none: the digest stays
  local function makeRecord(value, version, timestamp, last, nextState, isEnd, hasDrawn, fullAfter, sentAt)
    if isEnd then nextState = nextState - @UPPER_CASE@ end
    if hasDrawn then nextState = nextState + @HAS_DRAWN@ end
    if last ~= timestamp then
      nextState = nextState - @OWN_TIMESTAMP@
      fullAfter = (fullAfter or value:sub(@FULL_AT@, @ASSIGNED@ - 1)) .. struct.pack('<I5', last)
    end
    if sentAt then return struct.pack('<I6BI6', 0, nextState, sentAt) .. version .. (fullAfter or '') end
    return value:sub(@DIGEST@, @STATE@ - 1) .. string.char(nextState) .. value:sub(@STATE@ + 1, @VERSION@ - 1)
      .. version .. (fullAfter or '')
  end

  -- Writes the whole value, with a new expiry. Returns the error, or nil.
  --     value                     the value as it was read, perhaps already with a new token
  --     isNew                     whether the key did not exist
  --     record                    bytes that replace the value's bytes from the digest (byte 8) on; nil for none
  --     dropsAt                   where the held command begins, if it must be removed; nil or false if it stays
  local function store(key, value, isNew, record, dropsAt)
    local call, written = redis.pcall, nil
    if record then
      value = value:sub(1, @DIGEST@ - 1) .. record .. value:sub(@DIGEST@ + #record, dropsAt and dropsAt - 1 or -1)
    end
    if isNew then
      -- MGET also reports a key as absent if its value is not a string. With NX the script does not overwrite such a value.
      written = call('SET', key, value, 'PX', '@ACTIVITY_LIFETIME_MILLISECONDS@', 'NX')
        or {err = 'WRONGTYPE the key holds what is not an activity of Causeway'}
    else
      written = call('SET', key, value, 'PX', '@ACTIVITY_LIFETIME_MILLISECONDS@')
    end
    return written.err and written or nil
  end

  return takeToken, findRefusal, findSpacing, decide, assign, makeRecord, store
end
