-- The script `admit`: decides about commands, registrations, held commands and requests for a start's token, and
-- records how a version of an activity ended. A name between two at signs is a constant; the program replaces it by its
-- value (StoreScript.swift).
--
-- Model/ActivityState+Admission.swift and its neighbours decide the same in Swift, without the script's tricks for
-- speed. Read the model first. A test compares the two (DifferentialTests.swift).
--
-- Headings begin with `-- #`:
--     Batches of updates, ends and settlements
--       Short path
--       Long path: reading the value; settlements; the token of an update or end; the order of versions;
--         whether the state may be sent now; timestamp, priority and budget; writing
--     Operations with a letter
--       An activity: reading the value; starts; starts that are read again; holds; registrations; unregistrations;
--         confirmations; `reopen`
--       Batches of registrations and confirmations
--       A device: parts of replies and fields; confirmations; holds; registrations; the token of a start;
--         unregistrations
-- A decision about a usual update, or about its acceptance, is in the short path and in the long path. Change both.
--
-- Every operation reads and decides first. Then it writes all changes with one SET or SETRANGE (for a device: one
-- HSET, then at most one PEXPIRE). So a server that is out of memory refuses a whole operation, never a part of it.
-- The time is the server's (TIME), so all workers decide by the same clock. Except in a batch, KEYS[1] is the only
-- key. StoredRecord.swift says how an activity is stored.
--
-- Replies. Most replies are one string. It begins with a word; some words are followed by data that StoreSession
-- reads. After a start's `send` comes the timestamp that Redis assigned to the start. The reply to a settlement
-- begins with 0 or 1 instead of a word. An update or end that may be sent has another reply. If it keeps its own
-- timestamp and gets the priority that it asked for, the reply may be the activity's value as it was read.
-- StoreSession then computes the pushes left in the budget from this value and the clock. Otherwise the reply is a
-- number: the timestamp times @TIMESTAMP_FACTOR@, plus a digit for the priority times @PRIORITY_FACTOR@, plus the pushes
-- left. The digit is @PRIORITY_FIVE@ or @PRIORITY_TEN@. It is @PRIORITY_DEMOTED@ if the command asked for priority 10
-- and gets 5, because its budget is used up.
--
-- Batches. Updates, ends and settlements come in batches, because calling a script costs nearly as much as an
-- admission. KEYS are the keys. ARGV[1] is one string with all calls (CallBatch.swift); the paces follow. One
-- MGET reads the values of all keys: at most 64 values. A value has some hundred bytes, or up to 128 KiB more
-- with a held command. Then the script decides and writes each key separately, and each key fails alone. The
-- script calls Redis with `pcall`, and checks lengths before it reads a value, because an error of Lua would
-- fail the whole batch. The clock is read once for all keys. If an earlier call may have the same key, a
-- bit of the later call says so, and the script reads the value again.
--
-- The reply to a batch is an array. First it has the replies in the order of the keys. Then, in the same order, it
-- has the values of those updates and ends whose reply is a number, up to the end of the accepted alert: as they
-- were read, or already with the new token that the command brought. Last comes the clock, if a reply may need it.
-- If the array would have only one element, the reply is this element alone. The replies of a batch have limited
-- room for held commands. If a held command does not fit any more, the reply to an update or end is `wait` (one
-- millisecond), and the reply to a registration is `full`.
--
-- All other operations have a letter as their first argument. Registrations of activities come in batches too
-- (RegistrationBatch.swift), together with confirmations that audiences know of departures. The reply to such a
-- batch is an array with a reply for each call; a single call gets its reply without an array. All further
-- operations come alone.
--
-- Audiences. An activity that is in audiences, or has left audiences that may not know it yet, stores two lists
-- after its token: its audiences, and the audiences that may not know yet that it left them. It leaves audiences
-- when its token is retired, its end is accepted, it is unregistered, or a registration no longer names them. The
-- reply then has a `=`, the stored time of the registration, and the digests of all audiences that the activity
-- left. Later replies to settlements (except of a 429), unregistrations, and registrations that name audiences
-- repeat this part until a worker confirms it with the same time. Until then the reply to an update or end is
-- `departures`. `registered+` says that the activity was in all named audiences before. For an activity in an
-- audience, the script does not know the shown state, because a push to the audience may have replaced it.
--
-- Expiry. A send verdict for an update or end that changes neither the value's length nor its token overwrites
-- only a part of the value and keeps the expiry; the first one in each 1,000 seconds renews the expiry. A
-- settlement that only changes the state and the digest keeps the expiry too. Every other change of an activity
-- writes the whole value with a new expiry. The key of every activity and device expires, so every eviction policy
-- of Redis except `noeviction` may drop it. If Redis has such a policy, the worker warns when it connects.
--
-- Speed. These are slow in Redis' Lua: a call of Redis, a call of a function, a new string, a conversion between
-- number and text, and each number that is read from a string. A new string takes eight instructions for each of its
-- bytes, because Lua hashes it. Each of Lua's own instructions takes about fifty of the processor's. So updates, ends
-- and settlements have one long loop without functions of its own. States are numbers, not letters. Several
-- neighbouring fields are read as one number of at most 52 bits. The value as it was read serves as a reply. Usual
-- updates and settlements of activities without rare parts take a short path before everything else. The long path
-- would decide the same.
--
-- Starts. A start may be sent only once, but a worker asks again if the reply was lost. The claim identifies the
-- one record of the start that may be sent. A worker asks again with a claim only while APNs has processed no push
-- of this record. So the script repeats the verdict and the timestamp, and changes nothing. A record that was
-- deferred has a new claim and names its previous one. The first such record that names the stored claim replaces
-- it. Every other record of the start gets `unknown` or, once the start is settled, `duplicate`, and changes
-- nothing. A settlement as `unknown` keeps the claim, because a worker may still be about to send the record that
-- has the claim. The script refuses to repeat a verdict in two cases only: an end has come since, or the activity
-- has a token, and the start is settled or is not the newest version. In the second case the activity lives without
-- this push.
--
-- Starts that are read again. After a loss of data, records that were settled are read again. A start among them is
-- not sent again, but the script must know its version. Otherwise an end of the activity's earlier life that is read
-- again would end the new life, and every update of the new life would be `ended`. The claim of such a start is zeros.
-- Another record of the same start may still be held or wait in the deferred topic. It may get `send`, as if the start
-- were new.
--
-- Budget. A bucket is one number, the time at which it will be full if nothing more is drawn (the generic cell
-- rate algorithm). A draw moves that time by one interval. The time may not be further ahead than the intervals of
-- a full bucket. A version draws once, however often it is repeated. A version that asked for priority 10 and got
-- 5 may draw when it is admitted again. The draw of an update or end is not refunded if the push fails, because
-- the phone may have counted the push. The draw of a start that was not sent is refunded (settle.lua).
--
-- Devices. A device's hash has the fields `t u w d m`, each followed by `:` and the attributes type. `t` and `u` have
-- the time of the registration (or of its end) and the token. `w` has the held starts, and `d` the last token that was
-- retired (R17). `m` has the audiences that the registration of this type names. Two fields are for all types. `l`
-- has the time of the last departure, and the audiences that may not know yet that the device left them. `s` has the
-- time at which the bucket of starts will be full. After the first refund, the sum of all refunds in milliseconds
-- follows.
--
-- States of the newest version. An upper-case letter says that the version is an end. Then only a start opens the
-- activity again. A newer version begins at `w`, `a`, `b` or `s` and drops the held command. If the held command
-- has an alert, the newer version begins at `x` or `y` instead of `w` or `a`, and the script keeps the held
-- command until the newer version is settled. The reason: the newer version carries that alert, but its worker may
-- die, and then another worker may bring the version again without the alert.
--
--     n NO_VERSION      there is no version yet
--     w WAITING         waits for pace or a token: to `a` by a send verdict, `h` `i` by a hold, `s` when unchanged, `s` `f` when settled
--     a SENDING         got a send verdict, the answer is not known: to `h` `i` by a hold (the token is gone), `s` `f` by a settlement
--     b START_SENDING   the same for a start: to `s` `f` by a settlement
--     h HELD            held: to `k` by a send verdict, `s` when unchanged or if the registering app shows it, `s` `f` by a settlement
--     k SENDING_HELD    as `a`, and still held: to `h` when the token is gone, `a` if the registering app shows it, `s` `f` by a settlement
--     i l HELD_ALERT, SENDING_HELD_ALERT              as `h` `k`, and the held command has an alert
--     x y WAITING_OLDER_ALERT, SENDING_OLDER_ALERT    as `w` `a`, and an older command with an alert is held: `x` to `y` by a send verdict
--     s SETTLED         settled
--     f NOT_SHOWN       settled, not shown: a newer end may follow such an end; to `w` by `reopen`, `s` by an acceptance
--
-- A value stores the state as one byte: the code of the letter, changed by these numbers:
--     minus @UPPER_CASE@: the version is an end
--     minus @OWN_TIMESTAMP@: the last assigned timestamp is not the version's own; it is in bytes 40 to 44
--     plus @HAS_DRAWN@: the version has drawn on the budget

local byte, char, sub, call = string.byte, string.char, string.sub, redis.pcall
local read, pack = struct.unpack, struct.pack
-- How long a value is stored, in milliseconds: 24 hours, and one more, which covers the 1,000 seconds in which a
-- send verdict does not renew the expiry.
local ACTIVITY_LIFETIME = '@ACTIVITY_LIFETIME_MILLISECONDS@'
local UPDATES_SECONDS = @UPDATES_SECONDS@
-- The value of an activity that Redis does not know. The loop also reads it in place of a value that is too short.
local UNKNOWN = '\0\0\0\0\0\0\0\0\0\0\0\0\0n\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
local MALFORMED = {err = 'MALFORMED the value is not an activity of Causeway'}
local operation = ARGV[1]

-- # Batches of updates, ends and settlements
if #operation > 1 then
  -- The maximum length of all held commands in the replies of a batch together. With more, the reply would exceed the
  -- memory that the worker has for one reply. A held command that is the first in its batch always fits.
  local HELD_BYTES = @REPLY_STRING_BYTES_MAX@
  -- The stored numbers are little-endian. A format without a byte order uses the server's own order and takes
  -- fewer instructions. Nearly every server is little-endian.
  local order = pack('I2', 1) == '\1\0' and '' or '<'
  local CALL, RECORD, RECORD_AND_BUCKET = order .. 'c13I7I6', order .. 'I7I6I7I5', order .. 'I7I6I7I5I8I6'
  local SETTLED, FULL = order .. 'I6B', order .. 'I6'
  local keys, calls, position, heldBytes = KEYS, operation, 1, 0
  local count = #keys
  local answers = count
  local values = call('MGET', unpack(keys))
  if values.err then return values end
  -- The clock. It is read once for all keys, and only if one of them needs it.
  local now, seconds, thousandBegan, sentMin, sentNow, drawnNow
  -- The index of the last call whose command is older than the longest time for which the system shows an activity. It
  -- is an index and not a flag, so that no other call has to reset it.
  local tooOldIndex
  -- The index of the last call whose command a worker read again because the server lost data.
  local rereadIndex
  -- The index of the last end that takes effect even if the newest start is newer than the end.
  local newerLifeIndex
  -- What the last call asked for. Most often the next call asks for the same, so the script computes these
  -- variables only if it asks for something else. The most frequent settlement (an acceptance without further
  -- parts) does not change them.
  local lastRequestAndPace, paceNumber, isHigh, mayUseReserve
  local format = RECORD
  -- `prefix` is a value's first seven bytes as one number:
  --     the last second in which the activity takes updates
  --     + @LENGTH_FACTOR@ * the length of its token, with two flags
  --     + @FORM_FACTOR@ * the token's form, with more flags
  -- If `prefix` is between `prefixMin` and `prefixMax`, the value is usual: it has the length, form and flags of the
  -- last usual value, and its activity still takes updates. If its pace and bucket are also those of the last usual
  -- value, two comparisons decide. The command may be sent at once if the last send verdict was not after `sentMax`,
  -- and gets priority 10 if the bucket will be full not after `fullMax`.
  local prefixMin, prefixMax, usualSize = math.huge, 0, -1
  local usualPace, sentMax, fullMax, fullMaxOfReserve, nextFull
  -- Which pace and bucket were read last, and their numbers.
  local lastPaceNumber, lastPaceBucket, pace, leastSpacing, interval, pushes, reserved

  for index = 1, count do
    -- A call's seven bytes after its version are one number, so that one `read` is enough:
    --     timestampAndRequest = timestamp * @TIMESTAMP_FACTOR@ + requestAndPace
    --     requestAndPace      = request * @REQUEST_FACTOR@ + flags of the pace's byte + paceNumber
    -- `request` has the bits of CallBits: 1 priority 10, 2 the reserve may be used, then ALERT, END, and so on.
    local version, timestampAndRequest, digest, following = read(CALL, calls, position)
    position = following
    local requestAndPace = timestampAndRequest % @TIMESTAMP_FACTOR@
    if requestAndPace ~= lastRequestAndPace and requestAndPace ~= @IS_SETTLEMENT@ * @REQUEST_FACTOR@ then
      if requestAndPace % @REQUEST_FACTOR@ >= @ENDS_NEWER_LIFE@ then
        if requestAndPace % @REQUEST_FACTOR@ >= @IS_TOO_OLD@ then
          tooOldIndex = index
          timestampAndRequest, requestAndPace = timestampAndRequest - @IS_TOO_OLD@, requestAndPace - @IS_TOO_OLD@
        end
        if requestAndPace % @REQUEST_FACTOR@ >= @IS_REREAD@ then
          rereadIndex = index
          timestampAndRequest, requestAndPace = timestampAndRequest - @IS_REREAD@, requestAndPace - @IS_REREAD@
        end
        if requestAndPace % @REQUEST_FACTOR@ >= @ENDS_NEWER_LIFE@ then
          newerLifeIndex = index
          timestampAndRequest, requestAndPace = timestampAndRequest - @ENDS_NEWER_LIFE@, requestAndPace - @ENDS_NEWER_LIFE@
        end
      end
      if requestAndPace >= @KEY_REPEATS@ * @REQUEST_FACTOR@ then
        -- An earlier call of this batch may have written the value, so it is read again.
        values[index] = call('GET', keys[index])
        timestampAndRequest = timestampAndRequest - @KEY_REPEATS@ * @REQUEST_FACTOR@
        requestAndPace = requestAndPace - @KEY_REPEATS@ * @REQUEST_FACTOR@
      end
      lastRequestAndPace, paceNumber = requestAndPace, requestAndPace % @REQUEST_FACTOR@
      local request = (requestAndPace - paceNumber) / @REQUEST_FACTOR@
      isHigh, mayUseReserve = request % 2 == 1, request % 4 >= 2
      format = isHigh and RECORD_AND_BUCKET or RECORD
      -- An update, an end and a 429 need the clock.
      if not now and (request % @ALERT_FOLLOWS@ < @IS_SETTLEMENT@ or request % @CARRIES_ALERT@ >= @LIMITS@) then
        local time = call('TIME')
        seconds = time[1] + 0
        local microseconds = time[2] + 0
        now = seconds * 1000 + (microseconds - microseconds % 1000) / 1000
        thousandBegan = now - now % 1000000
        sentMin = thousandBegan * @SENT_FACTOR@
        sentNow = pack('<I6BI6', 0, @SENDING@, now)
        drawnNow = pack('<I6BI6', 0, @SENDING@ + @HAS_DRAWN@, now)
        prefixMin = math.huge
      end
    end
    local reply
    repeat
      local value = values[index] or UNKNOWN
      local size = #value
      if size ~= usualSize then
        if size < @RECORD_BYTES@ then value = UNKNOWN end
        prefixMin = math.huge
      end
      local prefix, shown, stateAndSent, newest, _, full = read(format, value)
      -- # Short path
      -- The most frequent case: an update or its acceptance, no end, of an activity without rare parts. A
      -- state below 64 says that the last assigned timestamp is in bytes 40 to 44. This is usual for `w`
      -- (stored as 55) and `s` (51) if their version was not sent: the last assigned timestamp is then that of
      -- an earlier version.
      local presentState = stateAndSent % @HAS_DRAWN@
      if prefix < prefixMin or prefix >= prefixMax then
        local lengthAndForm = (prefix - prefix % @LENGTH_FACTOR@) / @LENGTH_FACTOR@
        local bytes = lengthAndForm % (@FORM_FACTOR@ / @LENGTH_FACTOR@)
        if bytes >= @ACCEPTED_ALERT@ then bytes = bytes - @ACCEPTED_ALERT@ + @VERSION_BYTES@ end
        if lengthAndForm < @LIMITED@ * (@FORM_FACTOR@ / @LENGTH_FACTOR@) and size == @RECORD_BYTES@ + bytes then
          prefixMin, usualSize, usualPace = lengthAndForm * @LENGTH_FACTOR@ + (seconds or 0), size, nil
          prefixMax = (lengthAndForm + 1) * @LENGTH_FACTOR@
        end
        -- A value that is not usual takes the long path: 0 is none of the states below.
        if prefix < prefixMin or prefix >= prefixMax then presentState = 0 end
      end
      if presentState == @SENDING@ or presentState == @SETTLED@ or presentState == @WAITING@
        or presentState == @NOT_SHOWN@ or presentState == @START_SENDING@
        or (presentState == @WAITING@ - @OWN_TIMESTAMP@ or presentState == @SETTLED@ - @OWN_TIMESTAMP@)
          and requestAndPace < @IS_END@ * @REQUEST_FACTOR@ and read('<I5', value, @ASSIGNED@) <= newest
      then
        if requestAndPace < @IS_END@ * @REQUEST_FACTOR@ then
          local assigned = timestampAndRequest - requestAndPace
          if assigned > newest * @TIMESTAMP_FACTOR@ then
            if paceNumber ~= usualPace then
              local formAndFlags = (prefix - prefix % @FORM_FACTOR@) / @FORM_FACTOR@
              local bucket = formAndFlags >= @FREQUENT@ and 11 or 1
              if paceNumber ~= lastPaceNumber or bucket ~= lastPaceBucket then
                lastPaceNumber, lastPaceBucket, pace = paceNumber, bucket, ARGV[paceNumber]
                leastSpacing, interval, pushes, reserved = read('<I3I3I2I2', pace, bucket)
              end
              usualPace = paceNumber
              sentMax = formAndFlags % @FREQUENT@ > 0 and (now - leastSpacing) * @SENT_FACTOR@ + (@SENT_FACTOR@ - 1) or -1
              fullMax = pushes > reserved and now + (pushes - 1 - reserved) * interval or -1
              fullMaxOfReserve = now + (pushes - 1) * interval
              nextFull = pack(FULL, now + interval)
            end
            if stateAndSent <= sentMax and stateAndSent >= sentMin and shown ~= digest then
              if not isHigh then
                reply = call('SETRANGE', keys[index], '7', sentNow .. version)
              elseif full <= (mayUseReserve and fullMaxOfReserve or fullMax) then
                reply = call('SETRANGE', keys[index], '7',
                  drawnNow .. version .. (full > now and pack(FULL, full + interval) or nextFull))
              else
                reply = call('SETRANGE', keys[index], '7', sentNow .. version)
                if reply == size then
                  local left = full > now and pushes - (full - now) / interval or pushes
                  reply = assigned + @PRIORITY_DEMOTED@ * @PRIORITY_FACTOR@ + (left > 0 and left - left % 1 or 0)
                  answers = answers + 1
                  keys[answers] = value
                  break
                end
              end
              if reply == size then reply = value else reply = tonumber(reply) and MALFORMED or reply end
              break
            end
          elseif requestAndPace < @CARRIES_ALERT@ * @REQUEST_FACTOR@ and newest * @TIMESTAMP_FACTOR@ > assigned then
            reply = 'superseded'
            break
          end
        elseif requestAndPace == @IS_SETTLEMENT@ * @REQUEST_FACTOR@ and sub(value, @VERSION@, @FULL_AT@ - 1) == version then
          local written = call('SETRANGE', keys[index], '7',
            pack(SETTLED, digest, stateAndSent % @SENT_FACTOR@ < @HAS_DRAWN@ and @SETTLED@ or @SETTLED@ + @HAS_DRAWN@))
          reply = written == size and 0 or tonumber(written) and MALFORMED or written
          break
        end
      end

      -- # Long path: reading the value
      local key, known, request = keys[index], values[index], (requestAndPace - requestAndPace % @REQUEST_FACTOR@) / @REQUEST_FACTOR@
      local token, tokenAt, form, alert
      if request >= @ALERT_FOLLOWS@ then request, alert = request - @ALERT_FOLLOWS@, '' end
      local settles = request >= @IS_SETTLEMENT@
      if settles then request = request - @IS_SETTLEMENT@ end
      if request >= @TOKEN_FOLLOWS@ then
        request = request - @TOKEN_FOLLOWS@
        local tokenLength
        tokenLength, tokenAt, form = read('<I2I6B', calls, position)
        position = position + 9 + tokenLength
        token = sub(calls, position - tokenLength, position - 1)
      end
      if alert then
        alert = sub(calls, position, position + @VERSION_BYTES@ - 1)
        position = position + @VERSION_BYTES@
      end
      if size < @RECORD_BYTES@ then
        reply = known.err and known or MALFORMED
        break
      end
      local lifeEnd, length, formAndFlags = read('<I4I2B', value)
      local state, last, isNew = stateAndSent % @SENT_FACTOR@, newest, not known
      local timestamp, sent = (timestampAndRequest - requestAndPace) / @TIMESTAMP_FACTOR@, (stateAndSent - state) / @SENT_FACTOR@
      local full, hasDrawn = read('<I6', value, @FULL_AT@), state >= @HAS_DRAWN@
      state = state % @HAS_DRAWN@
      if state < @OWN_TIMESTAMP@ then
        state, last = state + @OWN_TIMESTAMP@, read('<I5', value, @ASSIGNED@)
      end
      local ended = state < @SENDING@
      if ended then state = state + @UPPER_CASE@ end
      local nextState
      local acceptedLength, retired, audiences, leftAudiences = 0, ''
      if length >= @AUDIENCES@ then
        if length >= @ACCEPTED_ALERT@ then length, acceptedLength = length - @ACCEPTED_ALERT@, @VERSION_BYTES@ end
        if length >= @AUDIENCES@ then length, audiences = length - @AUDIENCES@, 0 end
      end
      local acceptedAt = @TOKEN@ + length
      local acceptedEnd = acceptedAt + acceptedLength
      local limitAt, startAt, heldAt, startBytes = acceptedEnd, nil, nil, 0
      if audiences then
        audiences, leftAudiences = byte(value, acceptedEnd, acceptedEnd + 1)
        if not leftAudiences then
          reply = MALFORMED
          break
        end
        limitAt = acceptedEnd + 2 + 8 * (audiences + leftAudiences)
        audiences, leftAudiences =
          sub(value, acceptedEnd + 2, acceptedEnd + 1 + 8 * audiences), sub(value, limitAt - 8 * leftAudiences, limitAt - 1)
        if not settles then
          if leftAudiences ~= '' then
            reply = 'departures=' .. sub(value, @REGISTERED_AT@, @TOKEN@ - 1) .. leftAudiences
            break
          end
          digest = -1
        end
      end
      if formAndFlags >= @RETIRED@ then
        retired = sub(value, limitAt, limitAt + @RETIRED_BYTES@ - 1)
        formAndFlags, limitAt = formAndFlags - @RETIRED@, limitAt + @RETIRED_BYTES@
      end
      if formAndFlags >= @LIMITED@ or size ~= @RECORD_BYTES@ + length + acceptedLength then
        startAt = formAndFlags % @CLAIMED@ >= @LIMITED@ and limitAt + 7 or limitAt
        heldAt = startAt
        if formAndFlags >= @STARTED@ then
          startBytes = formAndFlags % @STARTED@ >= @CLAIMED@ and 27 or 13
          heldAt = startAt + startBytes
        end
        local held = size + 1 - heldAt
        local holds = state >= @HELD@ and (state <= @SENDING_HELD_ALERT@ or state >= @WAITING_OLDER_ALERT@)
        if formAndFlags % @STARTED@ >= @CLAIMED@ and formAndFlags < @STARTED@ or (holds and held <= 30) or (not holds and held ~= 0)
        then
          reply = MALFORMED
          break
        end
      elseif state >= @HELD@ and (state <= @SENDING_HELD_ALERT@ or state >= @WAITING_OLDER_ALERT@) then
        reply = MALFORMED
        break
      end
      -- Whether APNs has already accepted this alert or a newer one.
      local isAlertAccepted = false
      if alert and acceptedLength > 0 then
        local time, low, high = read('<I5I4I4', alert)
        local acceptedTime, acceptedLow, acceptedHigh = read('<I5I4I4', value, acceptedAt)
        isAlertAccepted = acceptedTime > time
          or acceptedTime == time and (acceptedHigh > high or acceptedHigh == high and acceptedLow >= low)
      end
      local same = sub(value, @VERSION@, @FULL_AT@ - 1) == version and state ~= @NO_VERSION@
      -- # Long path: settlements
      -- A settlement says how a version ended, that APNs limits the activity's token (429), or that a token
      -- must be retired (R17). It changes only existing values and never creates an activity. The reply is 1
      -- if the token was retired, else 0. Acceptance overrides the other outcomes, even if it arrives first.
      -- The reason: one worker may have sent a start while another settles this start as unknown.
      -- Each push doubles the spacing at most once, even if workers report its 429 several times. So the
      -- spacing is doubled only if a send verdict came after the last recorded 429, or if the clock was set
      -- back.
      -- The script raises the registration time of a retired token by a millisecond, so that a repeated
      -- delivery of its registration is stale. It keeps the token's fingerprint, so that a command with this
      -- token does not bring it back.
      if settles then
        reply = 0
        if isNew then break end
        local digestBefore, frees = shown, false
        nextState = state
        -- The new contents of the parts about a 429 and about a start; nil: the part does not change.
        local limit, begun
        if request == @LIMITS@ then
          if lifeEnd > 0 then
            local numbers = ARGV[requestAndPace % @REQUEST_FACTOR@]
            local spacing, longest, recovery = read('<I3', numbers), read('<I3I3', numbers, 21)
            local isLimited, doublings, limitedAt = formAndFlags % @CLAIMED@ >= @LIMITED@, 0, 0
            if isLimited then doublings, limitedAt = read('<BI6', value, limitAt) end
            if not isLimited or sent > limitedAt or now < limitedAt then
              doublings = now < limitedAt and 0 or math.max(doublings - math.floor((now - limitedAt) / recovery), 0)
              if spacing * 2 ^ doublings < longest then doublings = math.min(doublings + 1, @DOUBLINGS_MAX@) end
              limit = pack('<BI6', doublings, now)
            end
          end
        elseif request < @LIMITS@ then
          if same then
            frees = state >= @HELD@ and (state <= @SENDING_HELD_ALERT@ or state >= @WAITING_OLDER_ALERT@)
            if request == @ACCEPTED@ then
              nextState, shown = @SETTLED@, digest
            elseif state ~= @SETTLED@ and state ~= @NOT_SHOWN@ then
              nextState = request == @SETTLED_NOT_SHOWN@ and @NOT_SHOWN@ or @SETTLED@
            end
          end
          if formAndFlags % @STARTED@ >= @CLAIMED@ then
            if sub(value, startAt, startAt + 12) == version then
              begun = request == @ACCEPTED@ and version or version .. 's' .. sub(value, startAt + 14, startAt + 26)
            end
          end
        end
        local registeredAt
        if token and form == formAndFlags % @FREQUENT@ and sub(value, @TOKEN@, acceptedAt - 1) == token then
          registeredAt = read('<I6', value, @REGISTERED_AT@)
          if registeredAt < tokenAt then reply = 1 end
        end
        local rings = alert and not isAlertAccepted and request == @ACCEPTED@
        local written
        -- Whether the activity leaves its audiences because its end was accepted. Then the script raises the
        -- registration's time by a millisecond. So if the registration is read again, it is stale, and does not bring
        -- the activity back into the audiences.
        local leavesAtEnd = audiences and audiences ~= '' and request == @ACCEPTED@ and same and ended and reply == 0
        if limit or begun or frees or rings or reply == 1 or leavesAtEnd then
          registeredAt = registeredAt or read('<I6', value, @REGISTERED_AT@)
          if reply == 1 then
            retired = sub(redis.sha1hex(token .. char(form)), 1, @RETIRED_BYTES@)
            token, registeredAt, formAndFlags = '', math.min(registeredAt + 1, @TIME_MAX@), formAndFlags - formAndFlags % @FREQUENT@
          else
            token = sub(value, @TOKEN@, acceptedAt - 1)
            if leavesAtEnd then registeredAt = math.min(registeredAt + 1, @TIME_MAX@) end
          end
          local acceptedAlert = rings and alert or sub(value, acceptedAt, acceptedEnd - 1)
          local follow = acceptedAlert ~= '' and @ACCEPTED_ALERT@ or 0
          if audiences then
            if reply == 1 or leavesAtEnd then audiences, leftAudiences, shown = '', leftAudiences .. audiences, 0 end
            follow, acceptedAlert = follow + @AUDIENCES@,
              acceptedAlert .. char(#audiences / 8, #leftAudiences / 8) .. audiences .. leftAudiences
          end
          if retired ~= '' then formAndFlags = formAndFlags + @RETIRED@ end
          if limit and formAndFlags % @CLAIMED@ < @LIMITED@ then formAndFlags = formAndFlags + @LIMITED@ end
          if begun and #begun == 13 then formAndFlags = formAndFlags - @CLAIMED@ end
          if not startAt then startAt, heldAt = limitAt, limitAt end
          limit = limit or sub(value, limitAt, startAt - 1)
          begun = begun or sub(value, startAt, heldAt - 1)
          if ended then nextState = nextState - @UPPER_CASE@ end
          if last ~= newest then nextState = nextState - @OWN_TIMESTAMP@ end
          if hasDrawn then nextState = nextState + @HAS_DRAWN@ end
          value = pack('<I4I2BI6BI6', lifeEnd, #token + follow, formAndFlags, shown, nextState, sent)
            .. sub(value, @VERSION@, @REGISTERED_AT@ - 1) .. pack('<I6', registeredAt)
            .. token .. acceptedAlert .. retired .. limit .. begun .. (frees and '' or sub(value, heldAt))
          written = call('SET', key, value, 'PX', ACTIVITY_LIFETIME)
          if written.err then reply = written end
        elseif nextState ~= state or shown ~= digestBefore then
          if ended then nextState = nextState - @UPPER_CASE@ end
          if last ~= newest then nextState = nextState - @OWN_TIMESTAMP@ end
          if hasDrawn then nextState = nextState + @HAS_DRAWN@ end
          written = call('SETRANGE', key, '7', pack('<I6B', shown, nextState))
          if written ~= #value then reply = tonumber(written) and MALFORMED or written end
        end
        if leftAudiences and leftAudiences ~= '' and request ~= @LIMITS@ and (reply == 0 or reply == 1) then
          reply = reply .. '=' .. sub(value, @REGISTERED_AT@, @TOKEN@ - 1) .. leftAudiences
        end
        break
      end

      -- # Long path: the token of an update or end
      -- From here on the call is an update or an end. If the command brings the token that Redis already has,
      -- the token keeps its registration time.
      local registers, whole, isEnd = false, isNew or state == @NO_VERSION@, request >= @IS_END@
      if isEnd then request = request - @IS_END@ end
      if token and tokenAt >= read('<I6', value, @REGISTERED_AT@)
        and (form ~= formAndFlags % @FREQUENT@ or sub(value, @TOKEN@, acceptedAt - 1) ~= token)
        and (retired == '' or sub(redis.sha1hex(token .. char(form)), 1, @RETIRED_BYTES@) ~= retired)
      then
        registers, whole = true, true
        if rereadIndex == index and formAndFlags % @FREQUENT@ == 0 and seconds > last then
          -- This command is read again after a loss of data. The next timestamp must be above the present second,
          -- because earlier pushes may have had timestamps above those of their commands.
          local storedState = stateAndSent % @SENT_FACTOR@
          if storedState % @HAS_DRAWN@ >= @OWN_TIMESTAMP@ then storedState = storedState - @OWN_TIMESTAMP@ end
          value = sub(value, 1, @STATE@ - 1) .. char(storedState) .. sub(value, @STATE@ + 1, @ASSIGNED@ - 1) .. pack('<I5', seconds)
            .. sub(value, @REGISTERED_AT@)
          last = seconds
        end
        formAndFlags = formAndFlags - formAndFlags % @FREQUENT@ + form
        value = sub(value, 1, 4)
          .. pack('<I2B', #token + (acceptedLength > 0 and @ACCEPTED_ALERT@ or 0) + (audiences and @AUDIENCES@ or 0),
            retired ~= '' and formAndFlags + @RETIRED@ or formAndFlags)
          .. sub(value, @DIGEST@, @REGISTERED_AT@ - 1) .. pack('<I6', tokenAt) .. token .. sub(value, acceptedAt)
        local grown = #token - length
        acceptedEnd, limitAt = acceptedEnd + grown, limitAt + grown
        if heldAt then heldAt = heldAt + grown end
      end
      local isLimited, isFrequent = false, false
      if formAndFlags >= @LIMITED@ then
        isLimited = formAndFlags % @CLAIMED@ >= @LIMITED@
        formAndFlags = formAndFlags % @LIMITED@
      end
      if formAndFlags >= @FREQUENT@ then isFrequent, formAndFlags = true, formAndFlags - @FREQUENT@ end
      -- # Long path: the order of versions
      local newer = timestamp > newest or state == @NO_VERSION@
      if timestamp == newest and not newer and not same then
        local low, high = read('<I4I4', version, 6)
        local newestLow, newestHigh = read('<I4I4', value, @VERSION@ + 5)
        newer = high > newestHigh or high == newestHigh and low > newestLow
      end
      if ended or isEnd or not newer then
        local settled = state == @SETTLED@ or state == @NOT_SHOWN@
        if ended then
          if not isEnd then
            reply = 'ended'
          elseif same then
            if settled then reply = state == @NOT_SHOWN@ and 'duplicate-' or 'duplicate' end
          elseif not newer or state ~= @NOT_SHOWN@ then
            reply = 'ended'
          end
        elseif isEnd then
          same = false
          -- An end that is older than the newest start belongs to an earlier life. It was deferred, or is replayed.
          if startBytes > 0 and not newer and newerLifeIndex ~= index then
            local startTime, startLow, startHigh = read('<I5I4I4', value, heldAt - startBytes)
            local low, high = read('<I4I4', version, 6)
            if timestamp < startTime
              or timestamp == startTime and (high < startHigh or high == startHigh and low < startLow)
            then
              reply = 'superseded'
            end
          end
        elseif same then
          if settled or state == @START_SENDING@ then reply = 'duplicate' end
        elseif not newer then
          reply = 'superseded'
        end
        if request >= @CARRIES_ALERT@ and reply and not newer and not same and not isEnd and not settled and state ~= @START_SENDING@ then
          reply = 'alertAwaitsCarrier'
        end
        if reply and not registers then break end
      end

      if lifeEnd == 0 then
        lifeEnd = seconds + UPDATES_SECONDS
        value = pack('<I4', lifeEnd) .. sub(value, 5)
      end
      -- # Long path: whether the state may be sent now
      local drops, sends, record, answer, drawn

      if not reply then
        local holds, holdsAlert = false, false
        if state >= @HELD@ and state ~= @SETTLED@ then
          holds = state <= @SENDING_HELD_ALERT@
          holdsAlert = state == @HELD_ALERT@ or state == @SENDING_HELD_ALERT@ or state >= @WAITING_OLDER_ALERT@
        end
        if tooOldIndex == index and state == @NO_VERSION@ then
          reply = 'expired'
        elseif not isEnd and seconds > lifeEnd then
          reply = 'activityOver'
        elseif isAlertAccepted then
          reply = 'alertAlreadyAccepted'
        elseif holdsAlert and request < @CARRIES_ALERT@ and (formAndFlags > 0 or not same or not holds) then
          local h = sub(value, heldAt)
          heldBytes = heldBytes + #h
          reply = heldBytes > HELD_BYTES and heldBytes > #h and 'wait1' or 'alertHeld' .. h
        elseif shown == digest and not isEnd then
          reply, nextState, drops = 'unchanged', @SETTLED@, holds or holdsAlert
        else
          drops = holds and not same and not holdsAlert
          if formAndFlags == 0 then
            reply = 'noToken'
            if not same then
              nextState = holdsAlert and @WAITING_OLDER_ALERT@ or @WAITING@
            elseif holds then
              reply, nextState = 'held', holdsAlert and @HELD_ALERT@ or @HELD@
            end
          else
            local bucket = isFrequent and 11 or 1
            if paceNumber ~= lastPaceNumber or bucket ~= lastPaceBucket then
              lastPaceNumber, lastPaceBucket, pace, usualPace = paceNumber, bucket, ARGV[paceNumber], nil
              leastSpacing, interval, pushes, reserved = read('<I3I3I2I2', pace, bucket)
            end
            local since, spacing = now - sent, leastSpacing
            if isLimited then
              local doublings, limitedAt = read('<BI6', value, limitAt)
              local longest, recovery = read('<I3I3', pace, 21)
              local limited = now - limitedAt
              doublings = limited < 0 and 0 or doublings - math.floor(limited / recovery)
              if doublings > 0 then spacing = math.max(spacing, math.min(spacing * 2 ^ doublings, longest)) end
            end
            if since >= 0 and since < spacing then
              reply = 'wait' .. string.format('%.0f', spacing - since)
              if not same then nextState = holdsAlert and @WAITING_OLDER_ALERT@ or @WAITING@ end
            else
              nextState, sends = @SENDING@, true
              -- The first send verdict in these 1,000 seconds (of UNIX time) renews the expiry.
              if sent < thousandBegan or sent >= thousandBegan + 1000000 then whole = true end
              if holdsAlert then
                nextState = same and holds and @SENDING_HELD_ALERT@ or @SENDING_OLDER_ALERT@
              elseif holds and same then
                nextState = @SENDING_HELD@
              end
            end
          end
        end
      end

      if nextState then
        if isEnd then nextState = nextState - @UPPER_CASE@ end
        if not same then hasDrawn = false end
      end
      -- # Long path: timestamp, priority and budget
      if sends then
        local assigned = timestamp
        if same and (state == @SENDING@ or state == @SENDING_HELD@ or state == @SENDING_HELD_ALERT@ or state == @SENDING_OLDER_ALERT@) then
          assigned = last
        elseif timestamp <= last then
          assigned = math.min(last + 1, @TIMESTAMP_MAX@)
        end
        local left, priority = pushes, @PRIORITY_FIVE@
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
            drawn = pack('<I6', (full > now and full or now) + interval)
          else
            priority = @PRIORITY_DEMOTED@
          end
        end
        reply = assigned * @TIMESTAMP_FACTOR@ + priority * @PRIORITY_FACTOR@ + left
        answer = heldAt and sub(value, 1, acceptedEnd - 1) or value
        last = assigned
      elseif nextState then
        whole = true
      end
      if nextState then
        if last ~= timestamp then
          drawn = (drawn or sub(value, @FULL_AT@, @ASSIGNED@ - 1)) .. pack('<I5', last)
          nextState = nextState - @OWN_TIMESTAMP@
        end
        if hasDrawn then nextState = nextState + @HAS_DRAWN@ end
        record = (sends and sub(sentNow, 1, 6) or sub(value, @DIGEST@, @STATE@ - 1)) .. char(nextState)
          .. (sends and sub(sentNow, 8) or sub(value, @STATE@ + 1, @VERSION@ - 1)) .. version .. (drawn or '')
      end

      -- # Long path: writing
      if nextState or registers then
        local written
        if whole or drops then
          if record then value = sub(value, 1, @DIGEST@ - 1) .. record .. sub(value, @DIGEST@ + #record, drops and heldAt - 1 or -1) end
          if isNew then
            -- MGET also reports a key as absent if its value is not a string. With NX the script does not
            -- overwrite such a value.
            written = call('SET', key, value, 'PX', ACTIVITY_LIFETIME, 'NX')
              or {err = 'WRONGTYPE the key holds what is not an activity of Causeway'}
          else
            written = call('SET', key, value, 'PX', ACTIVITY_LIFETIME)
          end
          if written.err then reply, answer = written, nil end
        else
          written = call('SETRANGE', key, '7', record)
          if written ~= #value then reply, answer = tonumber(written) and MALFORMED or written, nil end
        end
        if answer then
          answers = answers + 1
          keys[answers] = answer
        end
      end
    until true
    keys[index] = reply
  end
  if sentMax then
    answers = answers + 1
    keys[answers] = now
  end
  if answers == 1 then return keys[1] end
  return keys
end
-- # Operations with a letter
-- All operations that a letter names: starts, starts that are read again, holds, registrations, unregistrations,
-- requests for a start's token, confirmations and `reopen`. Registrations and confirmations of activities come in
-- batches, all others alone.
--
-- The field `w` of a device's attributes type has the starts that wait for the token of this type, oldest version
-- first and one for each activity. Each start has two bytes with the length of its activity's id, four with the
-- length of its command, its version (30 digits), the id and the command.
local isBatch = operation == 'r' and ARGV[2] == ''
if not isBatch then call = redis.call end
local key = KEYS[1]
local DEVICE_LIFETIME = @DEVICE_LIFETIME_MILLISECONDS@
local HELD_STARTS_MAX = @HELD_STARTS_MAX@
local TIMESTAMP_MAX, TIME_MAX = @TIMESTAMP_MAX@, @TIME_MAX@
-- The total length of the held commands that belong to the replies of this batch so far, including the commands
-- for which there was no room.
local heldBytes = 0

-- Returns the digests of `list` that `other` does not have.
local function without(list, other)
  local kept = ''
  for at = 1, #list, 8 do
    local digest, isThere = sub(list, at, at + 7), false
    for place = 1, #other, 8 do isThere = isThere or sub(other, place, place + 7) == digest end
    if not isThere then kept = kept .. digest end
  end
  return kept
end

local function serverTime()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000), time[1] + 0
end

local function digits(milliseconds)
  return string.format('%013.0f', math.min(math.max(milliseconds, 0), TIME_MAX))
end

local function write(changes, lifetime)
  call('HSET', key, unpack(changes))
  call('PEXPIRE', key, lifetime)
end

-- Whether the version at the beginning of `left` is newer than the version at the beginning of `right`. The script
-- compares them as three numbers, because their bytes are little-endian, and because Lua compares strings by the
-- locale. A number of Lua is exact up to 53 bits, so the eight bytes of the sequence are two numbers.
local function isNewer(left, right)
  local timestamp, low, high = read('<I5I4I4', left)
  local rightTimestamp, rightLow, rightHigh = read('<I5I4I4', right)
  if timestamp ~= rightTimestamp then return timestamp > rightTimestamp end
  return high > rightHigh or high == rightHigh and low > rightLow
end

-- Returns the lower-case letter of a state's byte, whether the newest version is an end, and the difference
-- between the byte and the letter. To change the state but keep the other bits of the byte, the script adds this
-- difference to another letter.
local function splitState(state)
  local letter = state % @HAS_DRAWN@
  if letter < @OWN_TIMESTAMP@ then letter = letter + @OWN_TIMESTAMP@ end
  local ended = letter < @SENDING@
  if ended then letter = letter + @UPPER_CASE@ end
  return letter, ended, state - letter
end

-- # An activity: reading the value
-- Performs an operation on an activity with this value, and returns the reply. `at` and the parameters after it
-- are those of a registration; `at` is also the time of a confirmation.
local function perform(operation, key, value, at, newForm, newToken, after, frequentUpdates, source, list)
  if #value < @RECORD_BYTES@ then return MALFORMED end
  local lifeEnd, length, kind = read('<I4I2B', value)
  local stateByte, newest, registeredAt = byte(value, @STATE@), sub(value, @VERSION@, @FULL_AT@ - 1), read('<I6', value, @REGISTERED_AT@)
  local last = read('<I5', value, stateByte % @HAS_DRAWN@ < @OWN_TIMESTAMP@ and @ASSIGNED@ or @VERSION@)
  local state, ended, kept = splitState(stateByte)
  local form, frequent = kind % @FREQUENT@, kind % @LIMITED@ - kind % @FREQUENT@
  local acceptedLength, retired, audiences, leftAudiences = 0, '', '', ''
  if length >= @ACCEPTED_ALERT@ then length, acceptedLength = length - @ACCEPTED_ALERT@, @VERSION_BYTES@ end
  local isMember = length >= @AUDIENCES@
  if isMember then length = length - @AUDIENCES@ end
  local acceptedAt = @TOKEN@ + length
  local acceptedEnd = acceptedAt + acceptedLength
  local limitAt = acceptedEnd
  if isMember then
    local members, leavers = byte(value, acceptedEnd, acceptedEnd + 1)
    if not leavers then return MALFORMED end
    limitAt = acceptedEnd + 2 + 8 * (members + leavers)
    audiences, leftAudiences = sub(value, acceptedEnd + 2, acceptedEnd + 1 + 8 * members), sub(value, limitAt - 8 * leavers, limitAt - 1)
  end
  if kind >= @RETIRED@ then
    retired = sub(value, limitAt, limitAt + @RETIRED_BYTES@ - 1)
    limitAt, kind = limitAt + @RETIRED_BYTES@, kind - @RETIRED@
  end
  local startAt = kind % @CLAIMED@ >= @LIMITED@ and limitAt + 7 or limitAt
  local heldAt = startAt
  if kind >= @STARTED@ then heldAt = startAt + (kind % @STARTED@ >= @CLAIMED@ and 27 or 13) end
  local token, acceptedAlert = sub(value, @TOKEN@, acceptedAt - 1), sub(value, acceptedAt, acceptedEnd - 1)
  local limit = sub(value, limitAt, startAt - 1)
  local start, held = sub(value, startAt, heldAt - 1), sub(value, heldAt)
  local holds = state >= @HELD@ and (state <= @SENDING_HELD_ALERT@ or state >= @WAITING_OLDER_ALERT@)
  local behind = #value + 1 - heldAt
  if kind % @STARTED@ >= @CLAIMED@ and kind < @STARTED@ or (holds and behind <= 30) or (not holds and behind ~= 0)
  then
    return MALFORMED
  end

  -- Writes the whole value. `middle` is bytes 8 to 44 of the record.
  local function store(middle)
    local flags = form + frequent + (limit ~= '' and @LIMITED@ or 0) + (start ~= '' and @STARTED@ or 0) + (#start > 13 and @CLAIMED@ or 0)
      + (retired ~= '' and @RETIRED@ or 0)
    local follow, lists = acceptedAlert ~= '' and @ACCEPTED_ALERT@ or 0, ''
    if audiences ~= '' or leftAudiences ~= '' then
      follow, lists = follow + @AUDIENCES@, char(#audiences / 8, #leftAudiences / 8) .. audiences .. leftAudiences
    end
    local value = pack('<I4I2B', lifeEnd, #token + follow, flags) .. middle
      .. pack('<I6', registeredAt) .. token .. acceptedAlert .. lists .. retired .. limit .. start .. held
    return call('SET', key, value, 'PX', ACTIVITY_LIFETIME)
  end

  -- Returns the part of a reply that names the audiences that were left.
  local function leaves() return leftAudiences == '' and '' or '=' .. pack('<I6', registeredAt) .. leftAudiences end

  -- # An activity: starts
  if operation == 's' then
    local version, claim, previousClaim = ARGV[2], ARGV[3], ARGV[4]
    local isRecordedAgain = sub(start, 1, 14) == version .. char(@START_RECORDED_AGAIN@)
    if start ~= '' and not isRecordedAgain then
      if sub(start, 1, 13) == version then
        local claimed = sub(start, 20)
        if claimed ~= claim and (claimed == '' or claimed ~= previousClaim) then
          return byte(start, 14) == @SENDING@ and 'unknown' or 'duplicate'
        end
        -- In state `b` the start is the newest version, and APNs has not processed it yet. So a token that
        -- has registered since belongs to the activity's previous life, and the start may still be sent.
        if ended or state ~= @START_SENDING@ and form > 0 then return 'superseded' end
        if claimed ~= claim then
          start = sub(start, 1, 19) .. claim
          store(sub(value, @DIGEST@, @REGISTERED_AT@ - 1))
        end
        return 'send' .. sub(start, 15, 19)
      end
      if isNewer(start, version) then return 'superseded' end
    end
    local timestamp, letter = read('<I5', version), @START_SENDING@
    if state ~= @NO_VERSION@ and not isNewer(version, newest) and not (isRecordedAgain and newest == version and not ended) then
      letter = state
      if not ended and newest == version and (state == @SETTLED@ or state == @NOT_SHOWN@) then return 'duplicate' end
      if ended or form > 0 or last > timestamp or last == timestamp and not isRecordedAgain then return 'superseded' end
    else
      newest, form, token, acceptedAlert, held = version, 0, '', '', ''
    end
    local now, seconds = serverTime()
    local assignedTimestamp = timestamp <= last and math.min(last + 1, TIMESTAMP_MAX) or timestamp
    if assignedTimestamp ~= read('<I5', newest) then letter = letter - @OWN_TIMESTAMP@ end
    local assigned = pack('<I5', assignedTimestamp)
    frequent, limit, start, lifeEnd = 0, '', version .. 'a' .. assigned .. claim, seconds + UPDATES_SECONDS
    store(pack('<I6BI6', 0, letter, now) .. newest .. pack('<I6', 0) .. assigned)
    return 'send' .. assigned
  end

  -- # An activity: starts that are read again
  if operation == 'b' then
    local version = ARGV[3]
    if start ~= '' and not isNewer(version, start) then return 'settled' end
    if lifeEnd == 0 then
      local _, seconds = serverTime()
      lifeEnd = seconds + UPDATES_SECONDS
    end
    local timestamp, middle = read('<I5', version), sub(value, @DIGEST@, @REGISTERED_AT@ - 1)
    if state == @NO_VERSION@ or isNewer(version, newest) then
      -- The start may never have been sent, so it must not drop an older command that is held for a token.
      if held ~= '' then return 'settled' end
      local letter = @SETTLED@
      if last > timestamp then letter = letter - @OWN_TIMESTAMP@ else last = timestamp end
      middle = pack('<I6B', 0, letter) .. sub(value, @STATE@ + 1, @VERSION@ - 1) .. version
        .. sub(value, @FULL_AT@, @ASSIGNED@ - 1) .. pack('<I5', last)
    end
    start = version .. char(@START_RECORDED_AGAIN@) .. pack('<I5', last) .. ('\0'):rep(8)
    store(middle)
    return 'settled'
  end

  -- # An activity: holds
  if operation == 'h' then
    if state == @NO_VERSION@ or newest ~= ARGV[6] then return 'superseded' end
    if state == @SETTLED@ or state == @NOT_SHOWN@ then return 'duplicate' end
    if form > 0 then return 'retry' end
    held = ARGV[3] .. ARGV[4]
    store(sub(value, @DIGEST@, @STATE@ - 1) .. char((ARGV[5] == '1' and @HELD_ALERT@ or @HELD@) + kept)
      .. sub(value, @STATE@ + 1, @REGISTERED_AT@ - 1))
    return 'held'
  end

  -- # An activity: registrations
  if operation == 'r' then
    if source == @FROM_COMMAND@ then
      -- The token came with a command. If Redis already has this token, the token keeps its registration
      -- time. If this is the last token that was retired, the script refuses it.
      if form == newForm and token == newToken then
        at = registeredAt
      elseif retired ~= '' and sub(redis.sha1hex(newToken .. char(newForm)), 1, @RETIRED_BYTES@) == retired then
        return 'stale'
      end
    end
    if at < registeredAt then return 'stale' .. (list and leaves() or '') end
    -- Redis already has another token, or an unregistration, with the time of this registration. It stays, because
    -- this registration may be the older one. Registrations that name audiences, and tokens from commands, replace it.
    -- Time 0 means that no registration has come yet.
    if at == registeredAt and at > 0 and not list and source ~= @FROM_COMMAND@ and (form ~= newForm or token ~= newToken) then
      return 'stale'
    end
    local shown = sub(value, @DIGEST@, @STATE@ - 1)
    local reply, letter = 'registered', state
    if list then
      local gone = without(leftAudiences, list) .. without(audiences, list)
      if #gone > 8 * @LEAVES_MAX@ then return 'full' end
      -- A push to an audience may have replaced the shown state, so the script no longer knows the state.
      if list ~= '' or audiences ~= '' or leftAudiences ~= '' then shown = '\0\0\0\0\0\0' end
      if list ~= '' and without(list, audiences) == '' then reply = 'registered+' end
      audiences, leftAudiences = list, gone
    end
    if held ~= '' and state <= @SENDING_HELD_ALERT@ then
      if sub(held, 1, 30) > after then
        if not list or leftAudiences == '' then
          heldBytes = heldBytes + #held
          if heldBytes > @REPLY_STRING_BYTES_MAX@ and heldBytes > #held then
            return 'full'
          end
          reply = reply .. held
        end
      else
        held, letter = '', state <= @HELD_ALERT@ and @SETTLED@ or @SENDING@
      end
    end
    local behind = sub(value, @STATE@ + 1, @REGISTERED_AT@ - 1)
    if lifeEnd == 0 or source == @FROM_REREADING@ then
      local _, seconds = serverTime()
      if lifeEnd == 0 then lifeEnd = seconds + UPDATES_SECONDS end
      -- Pushes from before the loss of data may have had timestamps above those of their commands, and phones
      -- ignore lower timestamps. So the next timestamp is above the present second.
      if source == @FROM_REREADING@ and seconds > last then
        if stateByte % @HAS_DRAWN@ >= @OWN_TIMESTAMP@ then kept = kept - @OWN_TIMESTAMP@ end
        behind = sub(value, @STATE@ + 1, @ASSIGNED@ - 1) .. pack('<I5', seconds)
      end
    end
    form, token, registeredAt = newForm, newToken, at
    if frequentUpdates then frequent = frequentUpdates end
    local written = store(shown .. char(letter + kept) .. behind)
    if written.err then return written end
    return list and leftAudiences ~= '' and reply .. leaves() or reply
  end

  -- # An activity: unregistrations
  if operation == 'x' then
    local at = ARGV[3] + 0
    if at < registeredAt then return 'stale' .. leaves() end
    form, token, registeredAt = 0, '', at
    local isIn = audiences ~= '' or leftAudiences ~= ''
    audiences, leftAudiences = '', leftAudiences .. audiences
    store(isIn and '\0\0\0\0\0\0' .. sub(value, @STATE@, @REGISTERED_AT@ - 1) or sub(value, @DIGEST@, @REGISTERED_AT@ - 1))
    return 'unregistered' .. leaves()
  end

  -- # An activity: confirmations
  if operation == 'c' then
    if leftAudiences ~= '' and at == registeredAt then
      leftAudiences = ''
      local written = store(sub(value, @DIGEST@, @REGISTERED_AT@ - 1))
      if written.err then return written end
    end
    return 'settled'
  end

  -- # An activity: `reopen`
  if operation == 'o' then
    if state == @NO_VERSION@ or newest ~= ARGV[3] then return 'superseded' end
    if state == @SETTLED@ or sub(start, 1, 13) == newest then return 'duplicate' end
    if state == @NOT_SHOWN@ then
      store(sub(value, @DIGEST@, @STATE@ - 1) .. char(@WAITING@ + kept) .. sub(value, @STATE@ + 1, @REGISTERED_AT@ - 1))
    end
    return 'retry'
  end

  return redis.error_reply('ERR unknown operation')
end

-- # Batches of registrations and confirmations
if isBatch then
  local values, calls, position, replies = call('MGET', unpack(KEYS)), ARGV[3], 1, {}
  if values.err then return values end
  local _, seconds = serverTime()
  local lifeEnd = seconds + UPDATES_SECONDS
  -- The bytes of a new activity's value between the token's form and the registration's time.
  local fresh = sub(UNKNOWN, @DIGEST@, @REGISTERED_AT@ - 1)
  for index = 1, #KEYS do
    local key, value = KEYS[index], values[index]
    local bits, form, length, count = read('<BBI2B', calls, position)
    local timeAt = position + 5
    local listAt = timeAt + 6 + length
    position = count > 0 and listAt + 2 + 8 * count or listAt
    local last = position - 1
    if bits >= @REGISTRATION_KEY_REPEATS@ then bits, value = bits - @REGISTRATION_KEY_REPEATS@, call('GET', key) end
    local after = ''
    if bits % (2 * @AFTER_VERSION@) >= @AFTER_VERSION@ then
      after, position = sub(calls, position, position + 29), position + 30
    end
    local reply
    if value or bits >= @CONFIRMS@ then
      value = value or UNKNOWN
      if value.err then
        reply = value
      elseif bits >= @CONFIRMS@ then
        reply = perform('c', key, value, read('<I6', calls, timeAt))
      else
        local frequentUpdates = bits % 2 >= 1 and (bits % 4 >= 2 and @FREQUENT@ or 0) or nil
        local list = bits % 32 >= @NAMES_AUDIENCES@ and (count > 0 and sub(calls, listAt + 2, last) or '') or nil
        reply = perform('r', key, value, read('<I6', calls, timeAt), form, sub(calls, timeAt + 6, listAt - 1), after, frequentUpdates,
          (bits % 16 - bits % 4) / 4, list)
      end
    else
      -- Most activities that register are new to Redis. Then everything after `middle` is a copy of the
      -- call's bytes.
      local middle = fresh
      if (bits % 16 - bits % 4) / 4 == @FROM_REREADING@ then
        middle = sub(fresh, 1, @STATE@ - @DIGEST@) .. char(@NO_VERSION@ - @OWN_TIMESTAMP@)
          .. sub(fresh, @STATE@ - @DIGEST@ + 2, @ASSIGNED@ - @DIGEST@) .. pack('<I5', seconds)
      end
      local written = call('SET', key, pack('<I4I2B', lifeEnd, count > 0 and length + @AUDIENCES@ or length,
        bits % 4 == 3 and form + @FREQUENT@ or form) .. middle .. sub(calls, timeAt, last), 'PX', ACTIVITY_LIFETIME, 'NX')
      reply = not written and {err = 'WRONGTYPE the key holds what is not an activity of Causeway'} or written.err and written
        or 'registered'
    end
    replies[index] = reply
  end
  return #KEYS > 1 and replies or replies[1]
end

if operation == 's' or ARGV[2] == '' then return perform(operation, key, call('GET', key) or UNKNOWN) end

-- # A device: parts of replies and fields
local suffix = ARGV[2]

-- Returns the part of a reply that names the audiences that the device left: a `=` and the field `l`.
local function leaves(l) return l and #l > 6 and '=' .. l or '' end

-- Returns those audiences of the list `gone` that the device now leaves: the field `l` does not have them, and no
-- attributes type names them except the types in `isLeft`.
local function leaving(gone, isLeft, l)
  local all = gone == '' and {} or call('HGETALL', key)
  for index = 1, #all, 2 do
    if sub(all[index], 1, 2) == 'm:' and not isLeft[sub(all[index], 2)] then gone = without(gone, all[index + 1]) end
  end
  return without(gone, sub(l, 7))
end

-- Returns the new field `l` with the audiences `left`. If `isMore`, the device has just left some of them, and
-- the field gets a later time than before. So a confirmation with the former time has no effect.
local function leftAt(at, left, isMore, l)
  if left == '' then return '' end
  local before = #l > 6 and read('<I6', l) or 0
  return pack('<I6', isMore and math.max(at, before + 1) or before) .. left
end

-- # A device: confirmations
if operation == 'c' then
  local l = call('HGET', key, 'l')
  if l and sub(l, 1, 6) == ARGV[3] then call('HSET', key, 'l', '') end
  return 'settled'
end

-- # A device: holds
if operation == 'h' then
  local version, command, activity = ARGV[3], ARGV[4], ARGV[6]
  local t, w = unpack(call('HMGET', key, 't' .. suffix, 'w' .. suffix))
  local starts, place, position = {}, nil, 1
  while w and position <= #w do
    local start, activityLength, commandLength = position, read('<I2I4', w, position)
    position = start + 36 + activityLength + commandLength
    local other = sub(w, start + 6, start + 35)
    if sub(w, start + 36, start + 35 + activityLength) ~= activity then
      starts[#starts + 1] = sub(w, start, position - 1)
      if not place and other > version then place = #starts end
    elseif other > version then
      return 'superseded'
    end
  end
  if t and #t > 13 then return 'retry' end
  if #starts >= HELD_STARTS_MAX then return 'full' end
  table.insert(starts, place or #starts + 1, pack('<I2I4', #activity, #command) .. version .. activity .. command)
  write({'w' .. suffix, table.concat(starts)}, DEVICE_LIFETIME)
  return 'held'
end

-- # A device: registrations
if operation == 'r' then
  local t, w, u, d, m, l = unpack(call('HMGET', key, 't' .. suffix, 'w' .. suffix, 'u' .. suffix, 'd' .. suffix,
    'm' .. suffix, 'l'))
  local registration, list = ARGV[3], ARGV[8]
  if ARGV[7] == '1' then
    local newToken = sub(registration, 14) .. ARGV[4]
    if newToken == sub(t or '', 14) .. (u or '') then
      registration = t
    elseif newToken == d then
      return 'stale'
    end
  end
  local isStale = sub(registration, 1, 13) < sub(t or '', 1, 13)
  -- Redis already has another token, or an unregistration, with the time of this registration. It stays, because
  -- this registration may be the older one. Registrations that name audiences, and tokens from commands, replace it.
  if t and not list and ARGV[7] ~= '1' and sub(registration, 1, 13) == sub(t, 1, 13) then
    isStale = registration ~= t or ARGV[4] ~= u
  end
  if isStale and #t == 13 then return 'stale' .. (list and leaves(l) or '') end
  local lBefore, reply = l or '', 'registered'
  if list and not isStale then
    if list ~= '' and without(list, m or '') == '' then reply = 'registered+' end
    m, l = m or '', lBefore
    local more, kept = leaving(without(m, list), {[suffix] = true}, l), without(sub(l, 7), list)
    if #more + #kept > 8 * @LEAVES_MAX@ then return 'full' end
    l = leftAt(sub(registration, 1, 13) + 0, kept .. more, more ~= '', l)
  end
  -- Finds the held start that the reply returns. ARGV[5] and ARGV[6] name the start in the previous reply: its
  -- version and its activity. The reply has the next start; without a previous reply, the first. If the named
  -- start is no longer held, the reply has the first start that is not older.
  local after, position, isAfter, nextStart, later = ARGV[5], 1, ARGV[5] == '', nil, nil
  while w and position <= #w and not nextStart do
    local start, activityLength, commandLength = position, read('<I2I4', w, position)
    position = start + 36 + activityLength + commandLength
    local version = sub(w, start + 6, start + 35)
    local held = version .. sub(w, start + 36 + activityLength, position - 1)
    if isAfter then
      nextStart = held
    elseif version == after and sub(w, start + 36, start + 35 + activityLength) == ARGV[6] then
      isAfter = true
    elseif version >= after then
      later = later or held
    end
  end
  if not isAfter then nextStart = later end
  -- Even if the registration is stale, the reply may have a start that waits. The worker sends this start with the
  -- newer token that Redis knows. The reason: the registration of that token may be settled, and then no worker
  -- reads it again.
  local gone = list and leaves(l) or ''
  if gone ~= '' and nextStart then nextStart = '' end
  if isStale then return (nextStart and 'registered' .. nextStart or 'stale') .. gone end
  local changes = {'t' .. suffix, registration, 'u' .. suffix, ARGV[4]}
  if list then
    for field, value in pairs({['m' .. suffix] = list ~= m and list or nil, l = l ~= lBefore and l or nil}) do
      changes[#changes + 1], changes[#changes + 2] = field, value
    end
  end
  write(changes, DEVICE_LIFETIME)
  return reply .. (nextStart or '') .. gone
end

-- # A device: the token of a start
if operation == 'a' then
  local t, u, s, d = unpack(call('HMGET', key, 't' .. suffix, 'u' .. suffix, 's', 'd' .. suffix))
  t, s = t or '', s or ''
  local changes = {}
  if ARGV[4] and sub(ARGV[4], 1, 13) >= sub(t, 1, 13) then
    local newToken = sub(ARGV[4], 14) .. ARGV[5]
    if newToken ~= sub(t, 14) .. (u or '') and newToken ~= d then
      t, u = ARGV[4], ARGV[5]
      changes[1], changes[2], changes[3], changes[4] = 't' .. suffix, t, 'u' .. suffix, u
    end
  end
  local reply = 'noToken'
  if #t > 13 then
    local now, interval, pushes = serverTime(), read('<I3I2', ARGV[3])
    local full, refunded = s == '' and now or math.max(sub(s, 1, 13) + 0, now), sub(s, 14)
    local wait = full - now - (pushes - 1) * interval
    if wait > 0 then
      reply = 'wait' .. string.format('%.0f', wait)
    else
      full = full + interval
      reply = 'tokenFound' .. digits(full + (refunded == '' and 0 or refunded)) .. t .. u
      changes[#changes + 1] = 's'
      changes[#changes + 1] = digits(full) .. refunded
    end
  end
  if changes[1] then write(changes, DEVICE_LIFETIME) end
  return reply
end

-- # A device: unregistrations
if operation == 'x' then
  local at, changes, registered, audiences, l, due = ARGV[3], {}, {}, {}, '', {}
  local all = call('HGETALL', key)
  for index = 1, #all, 2 do
    local first = sub(all[index], 1, 2)
    if first == 't:' then registered[sub(all[index], 2)] = all[index + 1] end
    if first == 'm:' and all[index + 1] ~= '' then audiences[#audiences + 1] = {sub(all[index], 2), all[index + 1]} end
    if all[index] == 'l' then l = all[index + 1] end
  end
  if not next(registered) then return 'unregistered' .. leaves(l) end
  for each, t in pairs(registered) do
    if at >= sub(t, 1, 13) then
      due[each] = true
      for field, value in pairs({t = at, u = ''}) do
        changes[#changes + 1] = field .. each
        changes[#changes + 1] = value
      end
    end
  end
  if not changes[1] then return 'stale' .. leaves(l) end
  local more = ''
  table.sort(audiences, function(one, other) return one[1] < other[1] end)
  for _, each in ipairs(audiences) do
    if due[each[1]] then
      more = more .. without(each[2], more)
      changes[#changes + 1], changes[#changes + 2] = 'm' .. each[1], ''
    end
  end
  more = leaving(more, due, l)
  if more ~= '' then
    l = leftAt(at + 0, sub(l, 7) .. more, true, l)
    changes[#changes + 1], changes[#changes + 2] = 'l', l
  end
  write(changes, DEVICE_LIFETIME)
  return 'unregistered' .. leaves(l)
end

return redis.error_reply('ERR unknown operation')
